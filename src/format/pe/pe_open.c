/*
 * Headers and section table. Both must lie in the bytes; what they say is believed only when it is
 * used, and where it contradicts itself the headers are refused.
 */
#include <format/pe/pe_internal.h>

#include <inttypes.h>
#include <string.h>

#include <base/fail.h>

enum {
    DOS_HEADER_SIZE = 64,
    DOS_HEADER_OFF_FIELD = 60, /* where the offset of the PE signature stands */
    FILE_HEADER_SIZE = 20,
    OPTIONAL_SIZE_FIELD = 20, /* from the PE signature */
    MAGIC_FIELD = 24,
    MAGIC_32 = 0x10b,
    MAGIC_64 = 0x20b,
    MAGIC_ROM = 0x107,
    OPTIONAL_SIZE_32 = 96, /* up to the data directories */
    OPTIONAL_SIZE_64 = 112,
    SECTION_ROW_SIZE = 40,
    SYMBOL_ROW_SIZE = 18,
    SHORT_NAME_SIZE = 8,

    /*
     * Lookups in a table that is not in order are linear. Linkers keep the order, and loaders that
     * insist on nothing else once stopped at this many sections.
     */
    UNORDERED_SECTIONS_MAX = 96
};

/* ------------------------------------------------------------------ headers */

bool pe_sniff(spgo_span bytes)
{
    if (bytes.len < DOS_HEADER_SIZE || bytes.ptr[0] != 'M' || bytes.ptr[1] != 'Z')
        return false;
    uint32_t off = load_u32(bytes.ptr + DOS_HEADER_OFF_FIELD);
    if (off > bytes.len || bytes.len - off < 4)
        return true; /* behind what is shown here */
    return memcmp(bytes.ptr + off, "PE\0", 4) == 0;
}

static spgo_code refuse_signature(const pe_image *image, spgo_error *err)
{
    static const char where[] = "pe.signature";
    const uint8_t *p = image->bytes.ptr + image->header_off;
    bool is_old = (p[0] == 'N' && p[1] == 'E') || (p[0] == 'L' && (p[1] == 'E' || p[1] == 'X'));
    if (is_old)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, image->header_off,
                         "a 16-bit or OS/2 program (signature %c%c); only PE images are read", p[0],
                         p[1]);
    return spgo_fail(err, SPGO_CORRUPT, where, image->header_off,
                     "the signature is 0x%08" PRIx32 ", not PE: a DOS program or a damaged file",
                     load_u32(p));
}

static spgo_code read_dos_header(pe_image *image, spgo_error *err)
{
    static const char where[] = "pe.dos_header";
    spgo_span b = image->bytes;
    if (b.len < DOS_HEADER_SIZE)
        return spgo_fail(err, SPGO_TRUNCATED, where, b.len,
                         "the input has %zu bytes, too few for a PE image", b.len);
    if (b.ptr[0] != 'M' || b.ptr[1] != 'Z')
        return spgo_fail(err, SPGO_CORRUPT, where, 0, "no PE image: it does not start with MZ");
    image->header_off = load_u32(b.ptr + DOS_HEADER_OFF_FIELD);
    if (image->header_off > b.len || b.len - image->header_off < 4 + FILE_HEADER_SIZE)
        return spgo_fail(err, SPGO_TRUNCATED, where, b.len,
                         "the PE header should stand at 0x%" PRIx64
                         ", but the input has 0x%zx bytes: a DOS program or a cut file",
                         image->header_off, b.len);
    if (memcmp(b.ptr + image->header_off, "PE\0", 4) != 0)
        return refuse_signature(image, err);
    return SPGO_OK;
}

static pe_version take_version(reader *r)
{
    pe_version v;
    v.major = reader_u16(r);
    v.minor = reader_u16(r);
    return v;
}

static uint64_t take_wide(reader *r, const pe_image *image)
{
    return reader_ptr(r, image->is_64bit ? 8 : 4);
}

static void take_optional_header(reader *r, pe_image *out)
{
    out->linker.major = reader_u8(r);
    out->linker.minor = reader_u8(r);
    out->code_size = reader_u32(r);
    out->initialized_data_size = reader_u32(r);
    out->uninitialized_data_size = reader_u32(r);
    out->entry_rva = reader_u32(r);
    out->code_rva = reader_u32(r);
    if (!out->is_64bit)
        out->data_rva = reader_u32(r);
    out->image_base = take_wide(r, out);
    out->section_alignment = reader_u32(r);
    out->file_alignment = reader_u32(r);
    out->operating_system = take_version(r);
    out->image_version = take_version(r);
    out->subsystem_version = take_version(r);
    reader_skip(r, 4); /* a Windows version that nobody sets */
    out->size_of_image = reader_u32(r);
    out->size_of_headers = reader_u32(r);
    out->checksum = reader_u32(r);
    out->subsystem = reader_u16(r);
    out->dll_characteristics = reader_u16(r);
    out->stack_reserve_size = take_wide(r, out);
    out->stack_commit_size = take_wide(r, out);
    out->heap_reserve_size = take_wide(r, out);
    out->heap_commit_size = take_wide(r, out);
    reader_skip(r, 4); /* loader flags */
    out->directory_count_stated = reader_u32(r);
}

static void take_directories(reader *r, pe_image *out)
{
    size_t fit = reader_left(r) / 8;
    size_t count = fit < PE_DIRECTORY_MAX ? fit : PE_DIRECTORY_MAX;
    out->directory_count =
        out->directory_count_stated < count ? out->directory_count_stated : count;
    for (size_t i = 0; i < out->directory_count; i++) {
        out->directories[i].rva = reader_u32(r);
        out->directories[i].size_bytes = reader_u32(r);
    }
}

static spgo_code read_optional_header(reader *r, pe_image *out, spgo_error *err)
{
    static const char where[] = "pe.optional_header";
    reader optional = reader_sub(r, out->optional_header_size);
    SPGO_TRY(reader_finish(r, where, err));
    uint16_t magic = reader_u16(&optional);
    if (magic == MAGIC_ROM)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, out->header_off + MAGIC_FIELD,
                         "a ROM image (magic 0x107), which has no address space of its own");
    if (optional.code == SPGO_OK && magic != MAGIC_32 && magic != MAGIC_64)
        return spgo_fail(err, SPGO_CORRUPT, where, out->header_off + MAGIC_FIELD,
                         "the magic is 0x%x, neither 0x10b (PE32) nor 0x20b (PE32+)", magic);
    out->is_64bit = magic == MAGIC_64;
    size_t size_min = out->is_64bit ? OPTIONAL_SIZE_64 : OPTIONAL_SIZE_32;
    if (out->optional_header_size < size_min)
        return spgo_fail(err, SPGO_CORRUPT, where, out->header_off + OPTIONAL_SIZE_FIELD,
                         "the optional header has %u bytes, less than the %zu of its fields",
                         out->optional_header_size, size_min);
    take_optional_header(&optional, out);
    take_directories(&optional, out);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ section table */

static const uint8_t *section_row(const pe_image *image, size_t index)
{
    return image->bytes.ptr + image->section_table_off + index * SECTION_ROW_SIZE;
}

static uint32_t section_start(const pe_image *image, size_t index)
{
    return load_u32(section_row(image, index) + 12);
}

static uint64_t section_end(const pe_image *image, size_t index)
{
    const uint8_t *row = section_row(image, index);
    uint32_t virtual_size = load_u32(row + 8), raw_size = load_u32(row + 16);
    return section_start(image, index) +
           (uint64_t)(virtual_size > raw_size ? virtual_size : raw_size);
}

static bool sections_are_ordered(const pe_image *image)
{
    uint64_t end = 0;
    for (size_t i = 0; i < image->section_count; i++) {
        if (section_start(image, i) < end)
            return false;
        end = section_end(image, i);
    }
    return true;
}

static spgo_code read_section_table(pe_image *image, spgo_error *err)
{
    static const char where[] = "pe.section_table";
    uint64_t size = (uint64_t)image->section_count * SECTION_ROW_SIZE;
    image->section_table_off =
        image->header_off + 4 + FILE_HEADER_SIZE + image->optional_header_size;
    if (size > image->bytes.len - image->section_table_off)
        return spgo_fail(err, SPGO_TRUNCATED, where, image->bytes.len,
                         "the section table (%zu rows at 0x%" PRIx64
                         ") reaches behind the end of the input",
                         image->section_count, image->section_table_off);
    image->sections_are_ordered = sections_are_ordered(image);
    if (!image->sections_are_ordered && image->section_count > UNORDERED_SECTIONS_MAX)
        return spgo_fail(err, SPGO_CORRUPT, where, image->section_table_off,
                         "%zu sections overlap or are not in the order of their addresses, which "
                         "is read for up to %d",
                         image->section_count, UNORDERED_SECTIONS_MAX);
    return SPGO_OK;
}

/* A help for names: without a whole size field there are no strings. */
static void find_strings(pe_image *image)
{
    if (image->layout != PE_LAYOUT_FILE || image->symbol_table_off == 0)
        return;
    uint64_t off = image->symbol_table_off + (uint64_t)image->symbol_count * SYMBOL_ROW_SIZE;
    if (off > image->bytes.len || image->bytes.len - off < 4)
        return;
    const uint8_t *p = image->bytes.ptr + off;
    size_t left = image->bytes.len - (size_t)off;
    uint32_t size = load_u32(p);
    if (size >= 4)
        image->strings = (spgo_span){p, size < left ? size : left};
}

spgo_code pe_open(spgo_span bytes, pe_layout layout, pe_image *out, spgo_error *err)
{
    *out = (pe_image){.bytes = bytes, .layout = layout};
    SPGO_TRY(read_dos_header(out, err));
    reader r = reader_from(bytes, 0);
    reader_seek(&r, out->header_off + 4);
    out->machine = reader_u16(&r);
    out->section_count = reader_u16(&r);
    out->time_date_stamp = reader_u32(&r);
    out->symbol_table_off = reader_u32(&r);
    out->symbol_count = reader_u32(&r);
    out->optional_header_size = reader_u16(&r);
    out->characteristics = reader_u16(&r);
    SPGO_TRY(read_optional_header(&r, out, err));
    SPGO_TRY(read_section_table(out, err));
    find_strings(out);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ sections */

spgo_str pe_text(spgo_span view)
{
    size_t len = view.len < PE_TEXT_SIZE_MAX ? view.len : PE_TEXT_SIZE_MAX;
    const uint8_t *end = len ? memchr(view.ptr, 0, len) : NULL;
    return (spgo_str){(const char *)view.ptr, end ? (size_t)(end - view.ptr) : len};
}

bool pe_string_at(const pe_image *image, uint64_t offset, spgo_str *out)
{
    if (offset < 4 || offset >= image->strings.len)
        return false;
    *out = pe_text((spgo_span){image->strings.ptr + offset, image->strings.len - (size_t)offset});
    return true;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* "/123" or, for tables of more than 9,999,999 bytes, "//" and digits to the base of 64. */
static bool long_name_offset(spgo_str name, uint64_t *offset)
{
    bool is_base64 = name.len > 2 && name.ptr[1] == '/';
    *offset = 0;
    for (size_t i = is_base64 ? 2 : 1; i < name.len; i++) {
        int digit = base64_digit(name.ptr[i]);
        if (!is_base64)
            digit = name.ptr[i] >= '0' && name.ptr[i] <= '9' ? name.ptr[i] - '0' : -1;
        if (digit < 0)
            return false;
        *offset = *offset * (is_base64 ? 64 : 10) + (unsigned)digit;
    }
    return name.len > 1;
}

static spgo_str section_name(const pe_image *image, spgo_span short_name)
{
    spgo_str name = pe_text(short_name), full;
    uint64_t offset;
    if (name.len > 0 && name.ptr[0] == '/' && long_name_offset(name, &offset) &&
        pe_string_at(image, offset, &full))
        return full;
    return name;
}

pe_section pe_section_at(const pe_image *image, size_t index)
{
    reader r = reader_from((spgo_span){section_row(image, index), SECTION_ROW_SIZE},
                           image->section_table_off + (uint64_t)index * SECTION_ROW_SIZE);
    pe_section s;
    s.short_name = reader_bytes(&r, SHORT_NAME_SIZE);
    s.name = section_name(image, s.short_name);
    s.virtual_size = reader_u32(&r);
    s.rva = reader_u32(&r);
    s.raw_size = reader_u32(&r);
    s.raw_off = reader_u32(&r);
    s.relocations_off = reader_u32(&r);
    s.line_numbers_off = reader_u32(&r);
    s.relocation_count = reader_u16(&r);
    s.line_number_count = reader_u16(&r);
    s.flags = reader_u32(&r);
    return s;
}

bool pe_section_find(const pe_image *image, const char *name, pe_section *out)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < image->section_count; i++) {
        pe_section s = pe_section_at(image, i);
        if (s.name.len == len && memcmp(s.name.ptr, name, len) == 0) {
            *out = s;
            return true;
        }
    }
    return false;
}

static spgo_span part(const pe_image *image, uint64_t off, uint64_t size)
{
    if (off >= image->bytes.len)
        return (spgo_span){NULL, 0};
    uint64_t left = image->bytes.len - off;
    return (spgo_span){image->bytes.ptr + off, (size_t)(size < left ? size : left)};
}

spgo_span pe_section_data(const pe_image *image, const pe_section *section)
{
    uint64_t size = section->raw_size;
    if (section->virtual_size != 0 && section->virtual_size < size)
        size = section->virtual_size;
    if (image->layout == PE_LAYOUT_MAPPED)
        return part(image, section->rva, size);
    return part(image, section->raw_off, size);
}

/* ------------------------------------------------------------------ addresses */

bool pe_section_of_rva(const pe_image *image, uint32_t rva, size_t *index)
{
    if (!image->sections_are_ordered) {
        for (*index = 0; *index < image->section_count; ++*index) {
            if (rva >= section_start(image, *index) && rva < section_end(image, *index))
                return true;
        }
        return false;
    }
    size_t low = 0, high = image->section_count;
    while (low < high) { /* all below low start at or before rva, all from high on behind it */
        size_t middle = low + (high - low) / 2;
        if (section_start(image, middle) <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low - 1;
    return low > 0 && rva < section_end(image, *index);
}

spgo_span pe_rest_at_rva(const pe_image *image, uint32_t rva)
{
    size_t index;
    if (!pe_section_of_rva(image, rva, &index)) {
        if (rva >= image->size_of_headers)
            return (spgo_span){NULL, 0};
        return part(image, rva, image->size_of_headers - rva);
    }
    if (image->layout == PE_LAYOUT_MAPPED)
        return part(image, rva, section_end(image, index) - rva);
    const uint8_t *row = section_row(image, index);
    uint32_t raw_size = load_u32(row + 16), raw_off = load_u32(row + 20);
    uint32_t skip = rva - section_start(image, index);
    if (skip >= raw_size)
        return (spgo_span){NULL, 0};
    return part(image, (uint64_t)raw_off + skip, raw_size - skip);
}

bool pe_span_at_rva(const pe_image *image, uint32_t rva, uint64_t size_bytes, spgo_span *out)
{
    spgo_span rest = pe_rest_at_rva(image, rva);
    if (size_bytes > rest.len)
        return false;
    *out = (spgo_span){rest.ptr, (size_t)size_bytes};
    return true;
}

bool pe_text_at_rva(const pe_image *image, uint32_t rva, spgo_str *out)
{
    spgo_span rest = pe_rest_at_rva(image, rva);
    *out = pe_text(rest);
    return out->len < rest.len && out->len < PE_TEXT_SIZE_MAX;
}

bool pe_offset_from_rva(const pe_image *image, uint32_t rva, uint64_t *off)
{
    spgo_span rest = pe_rest_at_rva(image, rva);
    if (rest.len == 0)
        return false;
    *off = pe_offset_of(image, rest.ptr);
    return true;
}

bool pe_rva_from_offset(const pe_image *image, uint64_t off, uint32_t *rva)
{
    if (off >= image->bytes.len)
        return false;
    uint64_t found = off;
    bool is_known = image->layout == PE_LAYOUT_MAPPED || off < image->size_of_headers;
    for (size_t i = 0; image->layout == PE_LAYOUT_FILE && i < image->section_count; i++) {
        const uint8_t *row = section_row(image, i);
        uint32_t raw_size = load_u32(row + 16), raw_off = load_u32(row + 20);
        if (off >= raw_off && off - raw_off < raw_size) {
            found = section_start(image, i) + (off - raw_off);
            is_known = true;
            break;
        }
    }
    *rva = (uint32_t)found;
    return is_known && found <= UINT32_MAX;
}

/* ------------------------------------------------------------------ tables */

spgo_code pe_directory_table(const pe_image *image, size_t directory, size_t row_size,
                             pe_table *out, spgo_error *err)
{
    pe_directory d = image->directories[directory];
    *out = (pe_table){.row_size = row_size};
    if (d.rva == 0 || d.size_bytes < row_size)
        return SPGO_OK;
    if (!pe_span_at_rva(image, d.rva, d.size_bytes, &out->bytes))
        return spgo_fail(err, SPGO_CORRUPT, "pe.directories",
                         image->section_table_off - image->optional_header_size +
                             (image->is_64bit ? OPTIONAL_SIZE_64 : OPTIONAL_SIZE_32) +
                             8 * directory,
                         "the %s directory (%" PRIu32 " bytes at RVA 0x%" PRIx32
                         ") does not lie in one section of the image",
                         pe_directory_name(directory), d.size_bytes, d.rva);
    out->off = pe_offset_of(image, out->bytes.ptr);
    out->count = out->bytes.len / row_size;
    return SPGO_OK;
}
