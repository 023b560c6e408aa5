/* What the parts of the reader share. */
#ifndef FORMAT_PE_INTERNAL_H
#define FORMAT_PE_INTERNAL_H

#include <format/pe/pe.h>

/* The offset of a byte that a view of the image starts with. */
static inline uint64_t pe_offset_of(const pe_image *image, const void *p)
{
    return (uint64_t)((const uint8_t *)p - image->bytes.ptr);
}

/* A reader over a view of the image, whose offsets count from the start of the image's bytes. */
static inline reader pe_reader(const pe_image *image, spgo_span view)
{
    return reader_from(view, view.len ? pe_offset_of(image, view.ptr) : 0);
}

/* The directory's bytes as rows: none if it is absent, SPGO_CORRUPT if it does not lie in the
 * image. Bytes that fill no row are left out. */
spgo_code pe_directory_table(const pe_image *image, size_t directory, size_t row_size,
                             pe_table *out, spgo_error *err);

static inline const uint8_t *pe_row(const pe_table *t, size_t index)
{
    return t->bytes.ptr + index * t->row_size;
}

/*
 * Text up to its NUL or the end of the view, at most PE_TEXT_SIZE_MAX bytes: many names that start
 * in one long run of bytes must not each cost all of it. Compilers cut theirs far earlier.
 */
enum { PE_TEXT_SIZE_MAX = 32 * 1024 };
spgo_str pe_text(spgo_span view);

/* The text at an RVA; false if it does not lie in the image or has no end there. */
bool pe_text_at_rva(const pe_image *image, uint32_t rva, spgo_str *out);

/* Text at an offset into the COFF string table. */
bool pe_string_at(const pe_image *image, uint64_t offset, spgo_str *out);

#endif
