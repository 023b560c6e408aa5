/*
 * Header and tables of an SPT file. Reading goes as far as it can: each broken rule becomes a
 * fault, and what lies inside the file is kept, so that a dump can show a damaged file.
 */
#include <format/spt/spt_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/text.h>

static const char where[] = "spt.header";
static const uint8_t signature_bytes[4] = {0x3A, 0x54, 0x50, 0x53};
static const uint8_t swapped_bytes[4] = {0x53, 0x50, 0x54, 0x3A};

static spgo_error *new_fault(spgo_spt *spt, const char *rule)
{
    spt_fault *fault = &spt->faults[spt->fault_count++];
    fault->rule = rule;
    return &fault->error;
}

static bool starts_with(spgo_span s, const void *magic, size_t size)
{
    return s.len >= size && memcmp(s.ptr, magic, size) == 0;
}

static bool is_etl(spgo_span s)
{
    /* A trace has no magic: size and type of the first buffer, marker of its header event. */
    return s.len >= 0x50 && load_u32(s.ptr) >= 104 && load_u16(s.ptr + 0x36) == 4 &&
           s.ptr[0x48] == 2 && s.ptr[0x49] == 0 && s.ptr[0x4B] == 0xC0;
}

static bool is_text(spgo_span s)
{
    size_t n = s.len < 64 ? s.len : 64;
    for (size_t i = 0; i < n; i++) {
        if (s.ptr[i] < ' ' && !strchr("\t\r\n", s.ptr[i]))
            return false;
    }
    return s.ptr[0] < 0x7F;
}

/* What a file without our signature seems to be; NULL: no idea. */
static const char *guess_kind(spgo_span s)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *kind;
    } kinds[] = {
        {"PERFILE2", 8, "a Linux perf.data file"},
        {"\177ELF", 4, "an ELF image"},
        {"MZ", 2, "a PE image"},
        {"Microsoft C/C++ MSF ", 20, "a PDB file"},
        {"H_Q_", 4, "an SPD file"},
        {"\x1F\x8B", 2, "a gzip file"},
        {"\x28\xB5\x2F\xFD", 4, "a zstd file"},
        {"PK\x03\x04", 4, "a zip file"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (starts_with(s, kinds[i].magic, kinds[i].size))
            return kinds[i].kind;
    }
    if (is_etl(s))
        return "an ETL trace";
    return is_text(s) ? "text" : NULL;
}

static void refuse_stranger(spgo_spt *spt)
{
    spgo_error *e = new_fault(spt, "signature");
    const char *kind = guess_kind(spt->file);
    uint8_t b[4] = {0};
    memcpy(b, spt->file.ptr, spt->file.len < 4 ? spt->file.len : 4);
    if (kind)
        spgo_fail(e, SPGO_CORRUPT, where, 0,
                  "not an SPT file: it looks like %s; an SPT file starts with 3A 54 50 53", kind);
    else
        spgo_fail(e, SPGO_CORRUPT, where, 0,
                  "not an SPT file: it starts with %02X %02X %02X %02X instead of 3A 54 50 53",
                  b[0], b[1], b[2], b[3]);
}

/* True if the file is SPT as far as it goes, even if its byte order is not ours. */
static bool check_signature(spgo_spt *spt)
{
    spgo_span s = spt->file;
    if (s.len == 0) {
        spgo_fail(new_fault(spt, "header-size"), SPGO_TRUNCATED, where, 0,
                  "the file is empty; an SPT file has a header of %d bytes", SPGO_SPT_HEADER_SIZE);
        return false;
    }
    if (starts_with(s, swapped_bytes, 4)) {
        spgo_fail(
            new_fault(spt, "signature"), SPGO_CORRUPT, where, 0,
            "the signature is 53 50 54 3A, which is 3A 54 50 53 in big-endian byte order; SPT "
            "is little-endian, so convert the file or fix its writer");
        return true;
    }
    if (memcmp(s.ptr, signature_bytes, s.len < 4 ? s.len : 4) != 0) {
        refuse_stranger(spt);
        return false;
    }
    if (s.len < SPGO_SPT_HEADER_SIZE)
        spgo_fail(new_fault(spt, "header-size"), SPGO_TRUNCATED, where, s.len,
                  "the file ends after %zu of the header's %d bytes", s.len, SPGO_SPT_HEADER_SIZE);
    return true;
}

static void read_header(spgo_spt *spt)
{
    reader r = reader_from(spt->file, 0);
    spgo_spt_header *h = &spt->header;
    h->signature = reader_u32(&r);
    h->version = reader_u32(&r);
    h->raw_data_id = reader_u32(&r);
    h->target_arch = reader_u32(&r);
    h->string_table_off = reader_u32(&r);
    h->program_table_off = reader_u32(&r);
    h->string_table_used = reader_u16(&r);
    h->string_table_capacity = reader_u16(&r);
    h->programs_used = reader_u16(&r);
    h->program_capacity = reader_u16(&r);
}

static bool check_version(spgo_spt *spt)
{
    if (spt->header.version == SPGO_SPT_VERSION)
        return true;
    spgo_fail(new_fault(spt, "version"), SPGO_UNSUPPORTED, where, SPT_OFF_VERSION,
              "version %" PRIu32 " is not known, only version 1 is; its layout may differ",
              spt->header.version);
    return false;
}

static void check_used(spgo_spt *spt, const char *rule, uint64_t field_off, const char *table,
                       unsigned used, unsigned capacity)
{
    if (used > capacity)
        spgo_fail(new_fault(spt, rule), SPGO_CORRUPT, where, field_off,
                  "%s: %u used of a capacity of %u; only the capacity is read", table, used,
                  capacity);
}

/* The part of [off, off + size) that is inside the file and behind the header. */
static spgo_span clip(spgo_span file, uint64_t off, uint64_t size)
{
    if (off < SPGO_SPT_HEADER_SIZE || off >= file.len)
        return (spgo_span){file.ptr, 0};
    uint64_t left = file.len - off;
    return (spgo_span){file.ptr + off, (size_t)(size < left ? size : left)};
}

static void read_string_table(spgo_spt *spt)
{
    const spgo_spt_header *h = &spt->header;
    unsigned used = h->string_table_used, capacity = h->string_table_capacity;
    check_used(spt, "string-table-used", SPT_OFF_STRINGS_USED, "string table bytes", used,
               capacity);
    if (used > capacity)
        used = capacity;
    spt->strings = clip(spt->file, h->string_table_off, used);
    if (capacity > 0 && h->string_table_off < SPGO_SPT_HEADER_SIZE)
        spgo_fail(new_fault(spt, "string-table-bounds"), SPGO_CORRUPT, where, SPT_OFF_STRING_TABLE,
                  "the string table at offset 0x%" PRIx32 " overlaps the header of %d bytes",
                  h->string_table_off, SPGO_SPT_HEADER_SIZE);
    else if (spt->strings.len < used)
        spgo_fail(new_fault(spt, "string-table-bounds"), SPGO_TRUNCATED, where,
                  SPT_OFF_STRING_TABLE,
                  "the string table at offset 0x%" PRIx32 " with %u bytes used ends behind the "
                  "file's %zu bytes",
                  h->string_table_off, used, spt->file.len);
    size_t n = spt->strings.len;
    while (n > 0 && spt->strings.ptr[n - 1] == 0)
        n--;
    spt->listed_size = n;
}

/* Returns the used entries that are inside the file, and finds where the records start. */
static spgo_span read_program_table(spgo_spt *spt)
{
    const spgo_spt_header *h = &spt->header;
    uint64_t off = h->program_table_off;
    uint64_t end = off + (uint64_t)SPGO_SPT_PROGRAM_SIZE * h->program_capacity;
    unsigned used = h->programs_used;
    if (off < SPGO_SPT_HEADER_SIZE)
        spgo_fail(new_fault(spt, "program-table-bounds"), SPGO_CORRUPT, where,
                  SPT_OFF_PROGRAM_TABLE,
                  "the program id table at offset 0x%" PRIx64 " overlaps the header of %d bytes",
                  off, SPGO_SPT_HEADER_SIZE);
    else if (end > spt->file.len)
        spgo_fail(new_fault(spt, "program-table-bounds"), SPGO_TRUNCATED, where,
                  SPT_OFF_PROGRAM_TABLE,
                  "the program id table at offset 0x%" PRIx64
                  " with a capacity of %u ends at 0x%" PRIx64 ", behind the file's %zu bytes",
                  off, h->program_capacity, end, spt->file.len);
    else
        spt->data_off = end;
    check_used(spt, "program-table-used", SPT_OFF_PROGRAMS_USED, "program id table entries", used,
               h->program_capacity);
    if (used > h->program_capacity)
        used = h->program_capacity;
    spgo_span table = clip(spt->file, off, (uint64_t)SPGO_SPT_PROGRAM_SIZE * used);
    table.len -= table.len % SPGO_SPT_PROGRAM_SIZE;
    return table;
}

/* The records end where the file does, or at a string table that lies behind them. */
static void find_data_end(spgo_spt *spt)
{
    uint64_t strings_off = spt->header.string_table_off;
    if (spt->header.string_table_capacity > 0 && strings_off >= spt->data_off &&
        strings_off < spt->data_end)
        spt->data_end = strings_off;
}

bool spt_is_string_start(spgo_span strings, uint64_t index)
{
    return index < strings.len && (index == 0 || strings.ptr[index - 1] == 0);
}

static spgo_str string_at(const spgo_spt *spt, uint64_t index)
{
    if (index >= spt->strings.len)
        return (spgo_str){"", 0};
    const uint8_t *p = spt->strings.ptr + index;
    size_t left = spt->strings.len - (size_t)index;
    const uint8_t *nul = memchr(p, 0, left);
    return (spgo_str){(const char *)p, nul ? (size_t)(nul - p) : left};
}

bool spgo_spt_next_string(const spgo_spt *spt, size_t *index, size_t *at, spgo_str *text)
{
    if (*index >= spt->listed_size)
        return false;
    *at = *index;
    *text = string_at(spt, *at);
    *index = *at + text->len + 1;
    return true;
}

/* Numbers are ordinals when they cannot be byte offsets but can be ordinals. */
static bool names_are_ordinal(const spgo_spt *spt)
{
    size_t index = 0, at, string_count = 0;
    spgo_str text;
    while (spgo_spt_next_string(spt, &index, &at, &text))
        string_count++;
    bool offsets_fit = true, ordinals_fit = true;
    for (size_t i = 0; i < spt->program_count; i++) {
        uint32_t string_index = spt->programs[i].string_index;
        offsets_fit = offsets_fit && spt_is_string_start(spt->strings, string_index);
        ordinals_fit = ordinals_fit && string_index < string_count;
    }
    return !offsets_fit && ordinals_fit;
}

/* The string offset of each ordinal, malloc'd. */
static uint32_t *list_string_offsets(const spgo_spt *spt)
{
    uint32_t *offsets = malloc((spt->listed_size + 1) * sizeof offsets[0]);
    size_t index = 0, at, n = 0;
    spgo_str text;
    while (offsets && spgo_spt_next_string(spt, &index, &at, &text))
        offsets[n++] = (uint32_t)at;
    return offsets;
}

static spgo_code resolve_names(spgo_spt *spt, spgo_error *err)
{
    spt->ordinal_names = names_are_ordinal(spt);
    uint32_t *offsets = NULL;
    if (spt->ordinal_names) {
        offsets = list_string_offsets(spt);
        if (!offsets)
            return spgo_fail_nomem(err, "spt.strings", spt->listed_size * sizeof offsets[0]);
    }
    for (size_t i = 0; i < spt->program_count; i++) {
        uint32_t index = spt->programs[i].string_index;
        spt->programs[i].name = string_at(spt, offsets ? offsets[index] : index);
    }
    free(offsets);
    return SPGO_OK;
}

static spgo_code read_programs(spgo_spt *spt, spgo_span table, spgo_error *err)
{
    spt->program_count = table.len / SPGO_SPT_PROGRAM_SIZE;
    spt->programs = calloc(spt->program_count + 1, sizeof spt->programs[0]);
    if (!spt->programs)
        return spgo_fail_nomem(err, "spt.programs", spt->program_count * sizeof spt->programs[0]);
    reader r = reader_from(table, spt->header.program_table_off);
    for (size_t i = 0; i < spt->program_count; i++) {
        spt->programs[i].id.guid = reader_guid(&r);
        spt->programs[i].id.age = reader_u32(&r);
        spt->programs[i].string_index = reader_u32(&r);
    }
    return resolve_names(spt, err);
}

spgo_code spt_load(spgo_span file, spgo_spt *spt, spgo_error *err)
{
    *spt = (spgo_spt){.file = file, .data_off = file.len, .data_end = file.len};
    spt->strings = (spgo_span){file.ptr, 0};
    spt->recognized = check_signature(spt);
    if (!spt->recognized)
        return SPGO_OK;
    read_header(spt);
    if (spt->fault_count > 0 || !check_version(spt))
        return SPGO_OK;
    spt->tables_known = true;
    read_string_table(spt);
    spgo_span table = read_program_table(spt);
    find_data_end(spt);
    return read_programs(spt, table, err);
}

void spt_unload(spgo_spt *spt)
{
    free(spt->programs);
    spt->programs = NULL;
}

spgo_code spgo_spt_open(spgo_span file, spgo_spt **out, spgo_error *err)
{
    *out = NULL;
    spgo_spt *spt = malloc(sizeof *spt);
    if (!spt)
        return spgo_fail_nomem(err, "spt.open", sizeof *spt);
    spgo_code code = spt_load(file, spt, err);
    if (code != SPGO_OK) {
        spgo_spt_close(spt);
        return code;
    }
    if (spt->fault_count > 0) {
        code = spt->faults[0].error.code;
        if (err)
            *err = spt->faults[0].error;
    }
    if (spt->recognized)
        *out = spt;
    else
        spgo_spt_close(spt);
    return code;
}

void spgo_spt_close(spgo_spt *spt)
{
    if (!spt)
        return;
    spt_unload(spt);
    free(spt);
}

const spgo_spt_header *spgo_spt_get_header(const spgo_spt *spt)
{
    return &spt->header;
}

size_t spgo_spt_program_count(const spgo_spt *spt)
{
    return spt->program_count;
}

const spgo_spt_program *spgo_spt_get_program(const spgo_spt *spt, size_t index)
{
    return index < spt->program_count ? &spt->programs[index] : NULL;
}

uint64_t spgo_spt_data_off(const spgo_spt *spt)
{
    return spt->data_off;
}

uint64_t spgo_spt_data_end(const spgo_spt *spt)
{
    return spt->data_end;
}
