/*
 * The DWARF of an image as an ELF file, which is all that libdw reads: that of an ELF image or of
 * its debug file as it is, that of a PE image as a small ELF file of its .debug_ sections, made in
 * memory.
 */
#include <symbol/dwarf_internal.h>

#if SPGO_HAVE_DWARF

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    HEADER_SIZE = 64,
    SECTION_HEADER_SIZE = 64,
    SECTION_MAX = 64, /* kinds of .debug_ sections are about 25 */
    SHT_PROGBITS_ = 1,
    SHT_STRTAB_ = 3
};

static const char where[] = "dwarf";

/* ------------------------------------------------------------------ an ELF file for PE */

typedef struct made_section {
    uint32_t name_off, type;
    uint64_t off, size;
} made_section;

static void put_header(bytes *b, bool is_64bit)
{
    static const uint8_t ident[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    bytes_put(b, ident, sizeof ident);
    bytes_u16(b, ELF_TYPE_EXEC);
    bytes_u16(b, is_64bit ? ELF_MACHINE_X86_64 : ELF_MACHINE_386);
    bytes_u32(b, 1);
    bytes_fill(b, 0, HEADER_SIZE - b->len);
}

static void put_section_header(bytes *b, const made_section *s)
{
    bytes_u32(b, s->name_off);
    bytes_u32(b, s->type);
    bytes_u64(b, 0); /* flags */
    bytes_u64(b, 0); /* address */
    bytes_u64(b, s->off);
    bytes_u64(b, s->size);
    bytes_u64(b, 0); /* link, info */
    bytes_u64(b, 1); /* alignment */
    bytes_u64(b, 0);
}

static made_section put_section(bytes *b, bytes *names, spgo_str name, spgo_span data)
{
    bytes_fill(b, 0, (16 - b->len % 16) % 16);
    made_section s = {(uint32_t)names->len, SHT_PROGBITS_, b->len, data.len};
    bytes_put(names, name.ptr, name.len);
    bytes_u8(names, 0);
    bytes_put(b, data.ptr, data.len);
    return s;
}

static bool starts_with(spgo_str s, const char *prefix)
{
    return s.len > strlen(prefix) && memcmp(s.ptr, prefix, strlen(prefix)) == 0;
}

/* Sections, then their names, then their headers. */
static void make_elf(const pe_image *pe, bytes *b)
{
    made_section sections[SECTION_MAX + 2] = {{0}};
    size_t count = 1;
    bytes names = {0};
    bytes_u8(&names, 0);
    put_header(b, pe->is_64bit);
    for (size_t i = 0; i < pe->section_count && count <= SECTION_MAX; i++) {
        pe_section s = pe_section_at(pe, i);
        if (starts_with(s.name, ".debug_"))
            sections[count++] = put_section(b, &names, s.name, pe_section_data(pe, &s));
    }
    made_section last = {(uint32_t)names.len, SHT_STRTAB_, b->len, 0};
    bytes_put(&names, ".shstrtab", sizeof ".shstrtab");
    bytes_put(b, names.ptr, names.len);
    last.size = names.len;
    sections[count++] = last;
    bytes_fill(b, 0, (16 - b->len % 16) % 16);
    const size_t table_off = b->len;
    for (size_t i = 0; i < count; i++)
        put_section_header(b, &sections[i]);
    b->failed = b->failed || names.failed;
    bytes_free(&names);
    if (b->failed)
        return;
    bytes_set_u64(b, 40, table_off);
    bytes_set_u16(b, 52, HEADER_SIZE);
    bytes_set_u16(b, 58, SECTION_HEADER_SIZE);
    bytes_set_u16(b, 60, (uint16_t)count);
    bytes_set_u16(b, 62, (uint16_t)(count - 1));
}

/* ------------------------------------------------------------------ opening */

static bool is_packed(const elf_section *s)
{
    return s->flags & ELF_SECTION_COMPRESSED || starts_with(s->name, ".zdebug_");
}

static bool has_debug_info(const elf_sections *sections)
{
    elf_section s;
    return (elf_section_find(sections, ".debug_info", &s) && s.data.len > 0) ||
           (elf_section_find(sections, ".zdebug_info", &s) && s.data.len > 0);
}

/* libelf unpacks sections, and then writes to their headers, which are in the file's bytes: it has
 * to get a copy. */
static spgo_code settle_packed(dbg_file *f, const elf_sections *sections, spgo_span *file,
                               spgo_error *err)
{
    bool has_packed = false;
    for (size_t i = 0; i < sections->count; i++) {
        elf_section s = elf_section_at(sections, i);
        elf_compression packing;
        has_packed |= is_packed(&s);
        if (elf_section_compression(sections, &s, &packing) && s.data.len > 0 &&
            packing.type != ELF_COMPRESSION_ZLIB)
            return spgo_fail(err, SPGO_UNSUPPORTED, where, s.offset,
                             "the section %.*s is compressed in a way (%" PRIu32 ", %s) that "
                             "libelf does not unpack; run objcopy --decompress-debug-sections",
                             s.name.len < 64 ? (int)s.name.len : 64, s.name.ptr, packing.type,
                             packing.type == ELF_COMPRESSION_ZSTD ? "zstd" : "unknown");
    }
    if (!has_packed)
        return SPGO_OK;
    bytes_put(&f->made, file->ptr, file->len);
    *file = bytes_span(&f->made);
    return f->made.failed ? spgo_fail_nomem(err, where, file->len) : SPGO_OK;
}

/* The debug file's DWARF, else the image's own. */
static spgo_code find_file(dbg_file *f, spgo_span *file, spgo_error *err)
{
    const symbol_image *image = f->image;
    const spgo_span files[] = {image->debug, image->bytes};
    pe_section info;
    if (image->is_pe) {
        if (!pe_section_find(&image->pe, ".debug_info", &info))
            return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "there is no .debug_info");
        make_elf(&image->pe, &f->made);
        *file = bytes_span(&f->made);
        return f->made.failed ? spgo_fail_nomem(err, where, f->made.len) : SPGO_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        elf_sections sections;
        if (!elf_sniff(files[i]) || elf_sections_open(files[i], &sections, NULL) != SPGO_OK ||
            !has_debug_info(&sections))
            continue;
        *file = files[i];
        if (sections.is_big_endian)
            return spgo_fail(err, SPGO_UNSUPPORTED, where, 5,
                             "the DWARF of big-endian machines is not read");
        return settle_packed(f, &sections, file, err);
    }
    return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "there is no .debug_info");
}

/* By name: libdw has unpacked what was compressed. */
static spgo_span section_data(const dbg_file *f, const char *name)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(f->elf, &names) != 0)
        return (spgo_span){0};
    while ((section = elf_nextscn(f->elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
            continue;
        const char *text = elf_strptr(f->elf, names, header.sh_name);
        if (!text || strcmp(text, name) != 0)
            continue;
        Elf_Data *data = elf_rawdata(section, NULL);
        return data && data->d_buf ? (spgo_span){data->d_buf, data->d_size} : (spgo_span){0};
    }
    return (spgo_span){0};
}

/* .zdebug_line was .debug_line before compression became a flag. */
static spgo_span debug_section(const dbg_file *f, const char *what)
{
    char name[32];
    (void)snprintf(name, sizeof name, ".debug_%s", what);
    spgo_span data = section_data(f, name);
    if (data.len > 0)
        return data;
    (void)snprintf(name, sizeof name, ".zdebug_%s", what);
    return section_data(f, name);
}

spgo_code dbg_elf_open(dbg_file *f, spgo_error *err)
{
    spgo_span file = {0};
    SPGO_TRY(find_file(f, &file, err));
    (void)elf_version(EV_CURRENT);
    f->elf = elf_memory((char *)(uintptr_t)file.ptr, file.len);
    if (!f->elf)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, SPGO_NO_OFFSET,
                         "libelf does not read the file: %s", elf_errmsg(-1));
    f->dwarf = dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
    if (!f->dwarf)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, SPGO_NO_OFFSET,
                         "libdw does not read the DWARF of the file: %s", dwarf_errmsg(-1));
    f->lacks_alternate = section_data(f, ".gnu_debugaltlink").len > 0 && !dwarf_getalt(f->dwarf);
    f->line_sections.line = debug_section(f, "line");
    f->line_sections.line_str = debug_section(f, "line_str");
    f->line_sections.str = debug_section(f, "str");
    f->info_section = debug_section(f, "info");
    f->ranges_section = debug_section(f, "ranges");
    f->rnglists_section = debug_section(f, "rnglists");
    f->addr_section = debug_section(f, "addr");
    f->line_bytes_left = 64 * 1024 + 8 * (uint64_t)f->line_sections.line.len;
    f->abbreviation_bytes_left = 1024 * 1024 + 16 * (uint64_t)file.len;
    f->ranges_left = 1024 * 1024 + 4 * (uint64_t)file.len;
    f->texts.left_bytes = 16 * 1024 * 1024 + 64 * (uint64_t)file.len;
    return SPGO_OK;
}

void dbg_elf_close(dbg_file *f)
{
    if (f->dwarf)
        (void)dwarf_end(f->dwarf);
    if (f->elf)
        (void)elf_end(f->elf);
    bytes_free(&f->made);
}

#else
typedef int dwarf_is_not_built;
#endif
