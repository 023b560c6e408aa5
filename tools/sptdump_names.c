/* Words that both printers of sptdump use, and the header's fields with what they mean. */
#include "sptdump_print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <base/text.h>

const char *sptdump_opcode_name(uint8_t opcode)
{
    const char *name = spgo_spt_opcode_name(opcode);
    return name ? name : "UNKNOWN";
}

const char *sptdump_order_name(sptdump_order order)
{
    switch (order) {
    case ORDER_NEWEST_FIRST:
        return "newest-first";
    case ORDER_OLDEST_FIRST:
        return "oldest-first";
    case ORDER_EITHER:
        return "either";
    case ORDER_UNCLEAR:
        break;
    }
    return "unclear";
}

const char *sptdump_severity_name(spgo_spt_severity severity)
{
    switch (severity) {
    case SPGO_SPT_NOTE:
        return "note";
    case SPGO_SPT_WARNING:
        return "warning";
    case SPGO_SPT_DAMAGE:
        break;
    }
    return "damage";
}

spgo_str sptdump_program_name(const sptdump *d, uint16_t program)
{
    const spgo_spt_program *p = spgo_spt_get_program(d->spt, program);
    return p && p->name.len ? p->name : text_str("-");
}

int sptdump_word_width(spgo_str name)
{
    bool is_utf8 = name.len <= SPTDUMP_NAME_WIDTH && text_is_utf8(name);
    int width = 0;
    for (size_t i = 0; i < name.len && width < SPTDUMP_NAME_WIDTH; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (is_utf8 && c >= 0x80)
            width += c >= 0xc0; /* its first byte stands for the character */
        else
            width += c > ' ' && c < 0x7f ? 1 : 4; /* \xNN */
    }
    return width < SPTDUMP_NAME_WIDTH ? width : SPTDUMP_NAME_WIDTH;
}

/* ------------------------------------------------------------------ header */

SPGO_PRINTF(6, 7)
static void set_field(sptdump_field *f, const char *name, const char *key, uint64_t value,
                      bool typical, const char *fmt, ...)
{
    *f = (sptdump_field){.name = name, .key = key, .value = value, .typical = typical};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->meaning, sizeof f->meaning, fmt, ap);
    va_end(ap);
}

static const char *not_if(bool typical)
{
    return typical ? "" : "not ";
}

void sptdump_header_fields(const sptdump *d, sptdump_field f[SPTDUMP_FIELDS])
{
    const spgo_spt_header *h = spgo_spt_get_header(d->spt);
    uint64_t data_off = spgo_spt_data_off(d->spt);
    uint64_t file_bytes = os_input_bytes(d->in).len;
    uint64_t strings_end = (uint64_t)h->string_table_off + h->string_table_capacity;
    bool ok = h->signature == SPGO_SPT_SIGNATURE;
    set_field(&f[0], "Signature", "signature", h->signature, ok, "%s",
              ok ? "\"SPT:\", on disk 3A 54 50 53" : "not 0x5350543a");
    ok = h->version == SPGO_SPT_VERSION;
    set_field(&f[1], "Version", "version", h->version, ok, "%s",
              ok ? "the documented version" : "not 1, the documented version");
    ok = !h->raw_data_id;
    set_field(&f[2], "RawDataId", "raw_data_id", h->raw_data_id, ok, "reserved, %stypical",
              not_if(ok));
    ok = !h->target_arch;
    set_field(&f[3], "TargetArch", "target_arch", h->target_arch, ok, "reserved, %stypical",
              not_if(ok));
    ok = h->string_table_off == SPGO_SPT_HEADER_SIZE;
    set_field(&f[4], "StringTableOffset", "string_table_offset", h->string_table_off, ok, "%s",
              ok ? "typical" : "not typical (0x20)");
    ok = h->program_table_off == strings_end;
    set_field(&f[5], "ProgramIdTableOffset", "program_id_table_offset", h->program_table_off, ok,
              ok ? "typical: right behind the string table"
                 : "not typical (behind the string table, 0x%" PRIx64 ")",
              strings_end);
    ok = h->string_table_used <= h->string_table_capacity;
    set_field(&f[6], "StringTableUsed", "string_table_used", h->string_table_used, ok, "bytes%s",
              ok ? "" : ", more than the capacity");
    ok = h->string_table_capacity == SPGO_SPT_TYPICAL_STRINGS;
    set_field(&f[7], "StringTableCapacity", "string_table_capacity", h->string_table_capacity, ok,
              ok ? "bytes, typical" : "bytes, not typical (%d)", SPGO_SPT_TYPICAL_STRINGS);
    ok = h->programs_used <= h->program_capacity;
    set_field(&f[8], "ProgramIdsUsed", "program_ids_used", h->programs_used, ok, "entries%s",
              ok ? "" : ", more than the capacity");
    ok = h->program_capacity == SPGO_SPT_TYPICAL_PROGRAMS;
    set_field(&f[9], "ProgramIdCapacity", "program_id_capacity", h->program_capacity, ok,
              ok ? "entries, typical" : "entries, not typical (%d)", SPGO_SPT_TYPICAL_PROGRAMS);
    set_field(&f[10], "DataOffset", "data_offset", data_off, true, "%s (not stored)",
              data_off < file_bytes ? "of the first record, behind the tables" : "no records");
    set_field(&f[11], "FileSize", "file_size", file_bytes, true, "bytes (not stored)");
    f[0].hex = f[4].hex = f[5].hex = f[10].hex = true;
}
