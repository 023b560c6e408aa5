/*
 * The text form, byte by byte what llvm-profdata writes. The form has no quotes or escapes, so what
 * a name would make of the line it stands in decides whether it can be written.
 */
#include "sampleprof_internal.h"

#include <stdlib.h>
#include <string.h>

#define WHERE "sampleprof.text"

enum { INDENT_PIECE = 64 };

typedef struct text_writer {
    const sampleprof *p;
    out *o;
    spgo_error *err;
} text_writer;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_at(spgo_str s, size_t at)
{
    size_t n = 0;
    while (at + n < s.len && is_digit(s.ptr[at + n]))
        n++;
    return n;
}

/* What no name of any role may have: it would end the line, or its role would begin later. */
static bool has_no_place(spgo_str name)
{
    return name.ptr[0] == ' ' || memchr(name.ptr, '\n', name.len) || memchr(name.ptr, 0, name.len);
}

/* The first line also tells the form. */
static bool fits_as_top(spgo_str name)
{
    spgo_span start = {(const uint8_t *)name.ptr, name.len};
    return !has_no_place(name) && name.ptr[0] != '#' && name.ptr[0] != '[' &&
           !sampleprof_has_magic(start);
}

/* "12 b" would be a count and its target. */
static bool fits_as_callee(spgo_str name)
{
    size_t digits = digits_at(name, 0);
    return !has_no_place(name) && !(digits && digits < name.len && name.ptr[digits] == ' ');
}

/* "a:1 b" would be two targets. */
static bool fits_as_target(spgo_str name)
{
    if (has_no_place(name) || name.ptr[0] == ':')
        return false;
    for (size_t at = 0; at < name.len; at++) {
        size_t digits = name.ptr[at] == ':' ? digits_at(name, at + 1) : 0;
        if (digits && at + 1 + digits < name.len && name.ptr[at + 1 + digits] == ' ')
            return false;
    }
    return true;
}

static spgo_code fail_name(const text_writer *w, spgo_str name)
{
    enum { SHOWN = 100 };
    return spgo_fail(w->err, SPGO_UNSUPPORTED, WHERE, SPGO_NO_OFFSET,
                     "the text form cannot hold the name '%.*s'; the extensible binary form can",
                     (int)(name.len < SHOWN ? name.len : SHOWN), name.ptr);
}

static void put_indent(out *o, size_t indent)
{
    while (indent > 0) {
        size_t n = indent < INDENT_PIECE ? indent : INDENT_PIECE;
        memset(out_room(o, n), ' ', n);
        o->len += n;
        indent -= n;
    }
}

static void put_name_count(out *o, spgo_str name, uint64_t count)
{
    out_str(o, name);
    out_bytes(o, ":", 1);
    out_u64(o, count);
}

static spgo_code put_place(const text_writer *w, size_t indent, sampleprof_place place)
{
    if (place.line_offset > SAMPLEPROF_LINE_OFFSET_MAX)
        return spgo_fail(w->err, SPGO_UNSUPPORTED, WHERE, SPGO_NO_OFFSET,
                         "the line offset %lu is above %u, the largest that LLVM reads",
                         (unsigned long)place.line_offset, (unsigned)SAMPLEPROF_LINE_OFFSET_MAX);
    put_indent(w->o, indent);
    out_u64(w->o, place.line_offset);
    if (place.discriminator) {
        out_bytes(w->o, ".", 1);
        out_u64(w->o, place.discriminator);
    }
    out_bytes(w->o, ": ", 2);
    return SPGO_OK;
}

static spgo_code put_lines(const text_writer *w, const sampleprof_function *f, size_t indent)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (const sampleprof_line *l = lines; l < lines + count; l++) {
        SPGO_TRY(put_place(w, indent, l->place));
        out_u64(w->o, l->count);
        for (size_t i = 0; i < l->target_count; i++) {
            if (!fits_as_target(l->targets[i].callee))
                return fail_name(w, l->targets[i].callee);
            out_bytes(w->o, " ", 1);
            put_name_count(w->o, l->targets[i].callee, l->targets[i].count);
        }
        out_bytes(w->o, "\n", 1);
    }
    return SPGO_OK;
}

static void put_metadata(const text_writer *w, const sampleprof_function *f, size_t indent)
{
    uint64_t checksum;
    (void)sampleprof_checksum(f, &checksum);
    if (sampleprof_has_probes(w->p)) {
        put_indent(w->o, indent);
        out_text(w->o, "!CFGChecksum: ");
        out_u64(w->o, checksum);
        out_bytes(w->o, "\n", 1);
    }
    if (sampleprof_attributes(f)) {
        put_indent(w->o, indent);
        out_text(w->o, "!Attributes: ");
        out_u64(w->o, sampleprof_attributes(f));
        out_bytes(w->o, "\n", 1);
    }
}

/* What follows the line that names the function. */
static spgo_code put_body(const text_writer *w, const sampleprof_function *f, size_t indent)
{
    size_t count;
    SPGO_TRY(put_lines(w, f, indent));
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    for (size_t i = 0; i < count; i++) {
        const sampleprof_function *callee = sites[i].callee;
        if (!fits_as_callee(sampleprof_name(callee)))
            return fail_name(w, sampleprof_name(callee));
        SPGO_TRY(put_place(w, indent, sites[i].place));
        put_name_count(w->o, sampleprof_name(callee), sampleprof_total(callee));
        out_bytes(w->o, "\n", 1);
        SPGO_TRY(put_body(w, callee, indent + 1));
    }
    put_metadata(w, f, indent);
    return SPGO_OK;
}

static spgo_code put_top(const text_writer *w, const sampleprof_function *f)
{
    if (!fits_as_top(sampleprof_name(f)))
        return fail_name(w, sampleprof_name(f));
    put_name_count(w->o, sampleprof_name(f), sampleprof_total(f));
    out_bytes(w->o, ":", 1);
    out_u64(w->o, sampleprof_head(f));
    out_bytes(w->o, "\n", 1);
    return put_body(w, f, 1);
}

spgo_code sampleprof_write_text(const sampleprof *p, out *o, spgo_error *err)
{
    text_writer w = {p, o, err};
    size_t count;
    const sampleprof_function **tops = sampleprof_by_total(p, &count);
    if (!tops && count)
        return spgo_fail_nomem(err, WHERE, count * sizeof *tops);
    spgo_code code = SPGO_OK;
    for (size_t i = 0; i < count && code == SPGO_OK && !o->failed; i++)
        code = put_top(&w, tops[i]);
    free(tops);
    return code;
}
