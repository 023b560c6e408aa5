/*
 * Sections and symbols of ELF files. A section table is opened once, which checks that it lies in
 * the file; rows are then decoded by number and cannot fail.
 */
#include <format/elf/elf_internal.h>

#include <string.h>

#include <base/fail.h>

/* ------------------------------------------------------------------ sections */

static elf_file file_of(const elf_sections *s)
{
    return (elf_file){.bytes = s->bytes,
                      .is_64bit = s->is_64bit,
                      .big_endian = s->is_big_endian,
                      .sections = {s->table_off, s->entry_size, s->count}};
}

/* Text of a string table; one without its NUL does not count. Rows may share text, so that without
 * a bound the names of a small hostile file would take quadratic time. */
static spgo_str text_at(spgo_span strings, uint64_t off)
{
    if (off >= strings.len)
        return (spgo_str){0};
    const uint8_t *start = strings.ptr + off;
    const size_t left = strings.len - (size_t)off;
    const uint8_t *end = memchr(start, 0, left < ELF_NAME_MAX ? left : ELF_NAME_MAX);
    return end ? (spgo_str){(const char *)start, (size_t)(end - start)} : (spgo_str){0};
}

static elf_section section_at(const elf_file *f, spgo_span names, uint64_t index)
{
    uint32_t name_off;
    elf_section s = elf_take_section(f, index, &name_off);
    s.name = text_at(names, name_off);
    bool has_bytes = s.type != 0 && s.type != ELF_SECTION_TYPE_NO_BITS && s.size_bytes > 0;
    if (has_bytes && elf_inside(f->bytes, s.offset, s.size_bytes))
        s.data = (spgo_span){f->bytes.ptr + s.offset, (size_t)s.size_bytes};
    return s;
}

spgo_code elf_sections_open(spgo_span bytes, elf_sections *out, spgo_error *err)
{
    elf_file f;
    elf_image image = {0};
    *out = (elf_sections){0};
    SPGO_TRY(elf_file_open(bytes, &f, &image, err));
    *out = (elf_sections){.bytes = bytes,
                          .is_64bit = f.is_64bit,
                          .is_big_endian = f.big_endian,
                          .table_off = f.sections.off,
                          .entry_size = f.sections.entry_size,
                          .count = (size_t)f.sections.count};
    if (f.section_names < out->count)
        out->names = section_at(&f, (spgo_span){0}, f.section_names).data;
    return SPGO_OK;
}

elf_section elf_section_at(const elf_sections *s, size_t index)
{
    elf_file f = file_of(s);
    return section_at(&f, s->names, index);
}

bool elf_section_find(const elf_sections *s, const char *name, elf_section *out)
{
    const size_t len = strlen(name);
    bool found = false;
    for (size_t i = 0; i < s->count; i++) {
        elf_section one = elf_section_at(s, i);
        if (one.name.len != len || memcmp(one.name.ptr, name, len) != 0)
            continue;
        if (!found || one.data.len > 0)
            *out = one;
        found = true;
        if (one.data.len > 0)
            break;
    }
    return found;
}

bool elf_section_compression(const elf_sections *s, const elf_section *section,
                             elf_compression *out)
{
    if (!(section->flags & ELF_SECTION_COMPRESSED))
        return false;
    elf_file f = file_of(s);
    reader r = reader_from(section->data, section->offset);
    out->type = elf_take_word(&r, &f);
    if (s->is_64bit)
        reader_skip(&r, 4); /* reserved */
    out->size_bytes = elf_take_wide(&r, &f);
    (void)elf_take_wide(&r, &f); /* alignment */
    out->packed = reader_bytes(&r, reader_left(&r));
    return r.code == SPGO_OK;
}

/* ------------------------------------------------------------------ debug link */

bool elf_debuglink(const elf_sections *s, spgo_str *name, uint32_t *crc)
{
    elf_section link;
    if (!elf_section_find(s, ".gnu_debuglink", &link))
        return false;
    elf_file f = file_of(s);
    reader r = reader_from(link.data, link.offset);
    spgo_str text = reader_cstr(&r);
    reader_skip(&r, (4 - (text.len + 1) % 4) % 4);
    uint32_t sum = elf_take_word(&r, &f);
    if (r.code != SPGO_OK || text.len == 0)
        return false;
    *name = text;
    *crc = sum;
    return true;
}

uint32_t elf_crc32(spgo_span bytes)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
        table[i] = value;
    }
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes.len; i++)
        crc = crc >> 8 ^ table[(crc ^ bytes.ptr[i]) & 0xff];
    return ~crc;
}

/* ------------------------------------------------------------------ symbols */

spgo_code elf_symbols_open(const elf_sections *s, uint32_t section_type, elf_symbols *out,
                           spgo_error *err)
{
    static const char where[] = "elf.symbols";
    const uint64_t entry_size_min = s->is_64bit ? 24 : 16;
    *out = (elf_symbols){.sections = *s};
    for (size_t i = 0; i < s->count; i++) {
        elf_section one = elf_section_at(s, i);
        if (one.type != section_type || one.data.len == 0)
            continue;
        if (one.entry_size < entry_size_min)
            return spgo_fail(err, SPGO_CORRUPT, where, one.offset,
                             "a row of the symbol table %.*s has %llu bytes, less than %llu",
                             (int)(one.name.len < 64 ? one.name.len : 64), one.name.ptr,
                             (unsigned long long)one.entry_size,
                             (unsigned long long)entry_size_min);
        out->rows = one.data;
        out->entry_size = one.entry_size;
        out->count = (size_t)(one.data.len / one.entry_size);
        if (one.link < s->count)
            out->names = elf_section_at(s, one.link).data;
        return SPGO_OK;
    }
    return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                     "there is no %s symbol table in the file",
                     section_type == ELF_SECTION_TYPE_DYNAMIC_SYMBOLS ? "dynamic" : "full");
}

elf_symbol elf_symbol_at(const elf_symbols *t, size_t index)
{
    elf_file f = file_of(&t->sections);
    reader r = elf_part_reader(t->rows, index * t->entry_size, t->entry_size);
    elf_symbol s = {0};
    uint8_t info, other;
    s.name = text_at(t->names, elf_take_word(&r, &f));
    if (f.is_64bit) {
        info = reader_u8(&r);
        other = reader_u8(&r);
        s.section = elf_take_half(&r, &f);
        s.value = elf_take_wide(&r, &f);
        s.size_bytes = elf_take_wide(&r, &f);
    } else {
        s.value = elf_take_wide(&r, &f);
        s.size_bytes = elf_take_wide(&r, &f);
        info = reader_u8(&r);
        other = reader_u8(&r);
        s.section = elf_take_half(&r, &f);
    }
    s.type = info & 15;
    s.bind = info >> 4;
    s.visibility = other & 3;
    return s;
}
