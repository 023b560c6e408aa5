/*
 * Reading ELF headers and notes. Every table is bounded by the file before it is entered, and the
 * work by the size of the file.
 */
#include <format/elf/elf_internal.h>

#include <inttypes.h>
#include <string.h>

#include <base/fail.h>

enum {
    IDENT_SIZE = 16,
    CLASS_32 = 1,
    CLASS_64 = 2,
    ORDER_LITTLE = 1,
    ORDER_BIG = 2,
    VERSION_CURRENT = 1,

    PT_LOAD = 1,
    PT_NOTE = 4,
    NT_GNU_BUILD_ID = 3,

    /* e_phnum: the number did not fit and stands in the first section header's sh_info. */
    PN_XNUM = 0xffff,
    SHN_XINDEX = 0xffff, /* likewise of e_shstrndx, in its sh_link */
    PAGE_SIZE_MIN = 4096,
    PAGE_SIZE_MAX = 64 * 1024
};

/* ------------------------------------------------------------------ header */

bool elf_sniff(spgo_span bytes)
{
    return bytes.len >= IDENT_SIZE && memcmp(bytes.ptr, "\177ELF", 4) == 0;
}

static spgo_code read_ident(elf_file *f, spgo_error *err)
{
    static const char where[] = "elf.ident";
    if (f->bytes.len < IDENT_SIZE)
        return spgo_fail(err, SPGO_TRUNCATED, where, f->bytes.len,
                         "the file has %zu bytes, too few for an ELF header", f->bytes.len);
    if (!elf_sniff(f->bytes))
        return spgo_fail(err, SPGO_CORRUPT, where, 0, "no ELF file: it does not start with 7F ELF");
    const uint8_t *ident = f->bytes.ptr;
    if (ident[4] != CLASS_32 && ident[4] != CLASS_64)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 4,
                         "the class is %u, neither 1 (32 bits) nor 2 (64 bits)", ident[4]);
    if (ident[5] != ORDER_LITTLE && ident[5] != ORDER_BIG)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 5,
                         "the byte order is %u, neither 1 (little) nor 2 (big)", ident[5]);
    if (ident[6] != VERSION_CURRENT)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 6, "the version is %u, not 1", ident[6]);
    f->is_64bit = ident[4] == CLASS_64;
    f->big_endian = ident[5] == ORDER_BIG;
    return SPGO_OK;
}

static spgo_code read_header(elf_file *f, elf_image *out, spgo_error *err)
{
    reader r = reader_from(f->bytes, 0);
    reader_skip(&r, IDENT_SIZE);
    out->type = elf_take_half(&r, f);
    out->machine = elf_take_half(&r, f);
    reader_skip(&r, 4); /* version once more */
    out->entry = elf_take_wide(&r, f);
    f->segments.off = elf_take_wide(&r, f);
    f->sections.off = elf_take_wide(&r, f);
    reader_skip(&r, 4 + 2); /* flags, this header's size */
    f->segments.entry_size = elf_take_half(&r, f);
    f->segments.count = elf_take_half(&r, f);
    f->sections.entry_size = elf_take_half(&r, f);
    f->sections.count = elf_take_half(&r, f);
    f->section_names = elf_take_half(&r, f);
    return reader_finish(&r, "elf.header", err);
}

/* ------------------------------------------------------------------ tables */

static spgo_code check_table(const elf_file *f, const elf_table *t, const char *what,
                             uint64_t entry_size_min, spgo_error *err)
{
    static const char where[] = "elf.tables";
    if (t->count == 0)
        return SPGO_OK;
    if (t->entry_size < entry_size_min)
        return spgo_fail(err, SPGO_CORRUPT, where, SPGO_NO_OFFSET,
                         "an entry of the %s has %" PRIu64 " bytes, less than %" PRIu64, what,
                         t->entry_size, entry_size_min);
    if (!elf_inside(f->bytes, t->off, t->count * t->entry_size))
        return spgo_fail(err, SPGO_TRUNCATED, where, f->bytes.len,
                         "the %s (%" PRIu64 " entries of %" PRIu64 " bytes at 0x%" PRIx64
                         ") reach behind the end of the file",
                         what, t->count, t->entry_size, t->off);
    return SPGO_OK;
}

/* Section headers are a help that stripped images lack and cut ones have lost: without a whole
 * table there are simply none. */
static void settle_sections(elf_file *f)
{
    const uint64_t entry_size_min = f->is_64bit ? 64 : 40;
    elf_table *t = &f->sections;
    if (t->off == 0 || t->entry_size < entry_size_min ||
        !elf_inside(f->bytes, t->off, t->entry_size)) {
        t->count = 0;
        return;
    }
    uint32_t name_off;
    elf_section first = elf_take_section(f, 0, &name_off);
    if (t->count == 0)
        t->count = first.size_bytes; /* the number did not fit into 16 bits */
    uint64_t fit = (f->bytes.len - t->off) / t->entry_size;
    if (t->count > fit)
        t->count = 0;
    if (f->segments.count == PN_XNUM && t->count > 0)
        f->segments.count = first.info;
    if (f->section_names == SHN_XINDEX)
        f->section_names = first.link;
}

elf_section elf_take_section(const elf_file *f, uint64_t index, uint32_t *name_off)
{
    uint64_t off = f->sections.off + index * f->sections.entry_size;
    reader r = elf_part_reader(f->bytes, off, f->sections.entry_size);
    elf_section s = {0};
    *name_off = elf_take_word(&r, f);
    s.type = elf_take_word(&r, f);
    s.flags = elf_take_wide(&r, f);
    s.addr = elf_take_wide(&r, f);
    s.offset = elf_take_wide(&r, f);
    s.size_bytes = elf_take_wide(&r, f);
    s.link = elf_take_word(&r, f);
    s.info = elf_take_word(&r, f);
    (void)elf_take_wide(&r, f); /* alignment */
    s.entry_size = elf_take_wide(&r, f);
    return s;
}

spgo_code elf_file_open(spgo_span bytes, elf_file *f, elf_image *out, spgo_error *err)
{
    *f = (elf_file){.bytes = bytes, .note_bytes_left = 2 * (uint64_t)bytes.len};
    SPGO_TRY(read_ident(f, err));
    out->is_64bit = f->is_64bit;
    out->is_big_endian = f->big_endian;
    SPGO_TRY(read_header(f, out, err));
    settle_sections(f);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ build-id */

static uint64_t aligned(uint64_t size, uint64_t alignment)
{
    return (size + alignment - 1) & ~(alignment - 1);
}

/* The descriptor of the first GNU build-id among the notes; notes align to 4, some to 8. */
static bool find_build_id(elf_file *f, uint64_t off, uint64_t size, uint64_t alignment,
                          elf_image *out)
{
    if (!elf_inside(f->bytes, off, size) || size > f->note_bytes_left)
        return false;
    f->note_bytes_left -= size;
    reader r = elf_part_reader(f->bytes, off, size);
    while (reader_left(&r) >= 12) {
        uint32_t name_size = elf_take_word(&r, f);
        uint32_t desc_size = elf_take_word(&r, f);
        uint32_t type = elf_take_word(&r, f);
        spgo_span name = reader_bytes(&r, name_size);
        reader_skip(&r, aligned(12 + (uint64_t)name_size, alignment) - 12 - name_size);
        spgo_span desc = reader_bytes(&r, desc_size);
        bool is_gnu = name.len == 4 && memcmp(name.ptr, "GNU", 4) == 0;
        if (is_gnu && type == NT_GNU_BUILD_ID && desc.len > 0) {
            out->build_id_size = desc.len < ELF_BUILD_ID_MAX ? desc.len : ELF_BUILD_ID_MAX;
            memcpy(out->build_id, desc.ptr, out->build_id_size);
            return true;
        }
        reader_skip(&r, aligned(desc_size, alignment) - desc_size);
    }
    return false;
}

static void set_image_id(elf_image *out)
{
    size_t kept = out->build_id_size < sizeof out->id.guid.bytes ? out->build_id_size
                                                                 : sizeof out->id.guid.bytes;
    memcpy(out->id.guid.bytes, out->build_id, kept);
}

static void read_section_notes(elf_file *f, elf_image *out)
{
    for (uint64_t i = 0; i < f->sections.count && out->build_id_size == 0; i++) {
        uint32_t name_off;
        elf_section s = elf_take_section(f, i, &name_off);
        if (s.type == ELF_SECTION_TYPE_NOTE)
            (void)find_build_id(f, s.offset, s.size_bytes, 4, out);
    }
}

/* ------------------------------------------------------------------ segments */

typedef struct program_header {
    uint32_t type;
    uint64_t alignment;
    elf_segment s;
} program_header;

static program_header take_program_header(const elf_file *f, uint64_t index)
{
    uint64_t off = f->segments.off + index * f->segments.entry_size;
    reader r = elf_part_reader(f->bytes, off, f->segments.entry_size);
    program_header h;
    h.type = elf_take_word(&r, f);
    if (f->is_64bit)
        h.s.flags = elf_take_word(&r, f);
    h.s.offset = elf_take_wide(&r, f);
    h.s.vaddr = elf_take_wide(&r, f);
    (void)elf_take_wide(&r, f); /* physical address */
    h.s.file_size = elf_take_wide(&r, f);
    h.s.mem_size = elf_take_wide(&r, f);
    if (!f->is_64bit)
        h.s.flags = elf_take_word(&r, f);
    h.alignment = elf_take_wide(&r, f);
    return h;
}

static void read_segments(elf_file *f, elf_image *out)
{
    for (uint64_t i = 0; i < f->segments.count; i++) {
        program_header h = take_program_header(f, i);
        if (h.type == PT_NOTE && out->build_id_size == 0) {
            (void)find_build_id(f, h.s.offset, h.s.file_size, h.alignment == 8 ? 8 : 4, out);
        } else if (h.type == PT_LOAD) {
            if (out->segment_count == ELF_SEGMENT_MAX)
                out->segments_left_out++;
            else
                out->segments[out->segment_count++] = h.s;
        }
    }
    if (out->segment_count > 0)
        out->base_vaddr = out->segments[0].vaddr & ~(uint64_t)(PAGE_SIZE_MIN - 1);
}

/* ------------------------------------------------------------------ the whole */

spgo_code elf_read(spgo_span bytes, elf_image *out, spgo_error *err)
{
    elf_file f;
    *out = (elf_image){0};
    SPGO_TRY(elf_file_open(bytes, &f, out, err));
    SPGO_TRY(check_table(&f, &f.segments, "program headers", f.is_64bit ? 56 : 32, err));
    read_segments(&f, out);
    if (out->build_id_size == 0)
        read_section_notes(&f, out);
    set_image_id(out);
    return SPGO_OK;
}

bool elf_rva_from_file_offset(const elf_image *image, uint64_t file_off, uint64_t *rva)
{
    const elf_segment *found = NULL;
    for (size_t i = 0; i < image->segment_count; i++) {
        const elf_segment *s = &image->segments[i];
        if (file_off < s->offset || file_off - s->offset >= s->file_size)
            continue;
        bool executable = s->flags & ELF_SEGMENT_EXECUTE;
        if (!found || (executable && !(found->flags & ELF_SEGMENT_EXECUTE)))
            found = s;
    }
    if (!found)
        return false;
    *rva = found->vaddr + (file_off - found->offset) - image->base_vaddr;
    return true;
}

/* Do [a, a + a_size) and [b, b + b_size) overlap? Their ends may lie behind 2^64. */
static bool overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a < b ? b - a < a_size : a - b < b_size;
}

bool elf_rva_of_map(const elf_image *image, uint64_t file_off, uint64_t size, uint64_t *rva)
{
    for (size_t i = 0; i < image->segment_count; i++) {
        const elf_segment *s = &image->segments[i];
        bool starts_too_late = s->offset > file_off && s->offset - file_off > PAGE_SIZE_MAX;
        if (!(s->flags & ELF_SEGMENT_EXECUTE) || starts_too_late ||
            !overlaps(s->offset, s->file_size, file_off, size))
            continue;
        *rva = s->vaddr - s->offset + file_off - image->base_vaddr;
        return true;
    }
    return false;
}
