/*
 * The text form, line by line. Lines are told apart by what LLVM's reader looks at, so that names
 * with spaces and colons are read as it reads them.
 */
#include "sampleprof_internal.h"

#include <base/limits.h>

#include <string.h>

#define WHERE "sampleprof.text"

static const char vtables_mark[] = "<vtables> "; /* types of objects: since LLVM 21 */

typedef struct text_reader {
    sampleprof *p;
    diag *d;
    spgo_error *err;
    uint64_t line_off, line_number;
    size_t open_count;    /* functions that the next line may belong to, the top one first */
    size_t skipped_depth; /* lines that are indented deeper belong to a bad one; SIZE_MAX: none */
    sampleprof_function *open[LIMIT_INLINE_DEPTH + 1];
} text_reader;

/* ------------------------------------------------------------------ pieces of a line */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Nothing but digits, and at most UINT64_MAX. */
static bool parse_u64(spgo_str s, uint64_t *value)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        uint64_t digit = (uint64_t)(s.ptr[i] - '0');
        if (!is_digit(s.ptr[i]) || v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *value = v;
    return s.len > 0;
}

static bool parse_u32(spgo_str s, uint32_t *value)
{
    uint64_t v;
    bool fits = parse_u64(s, &v) && v <= UINT32_MAX;
    *value = fits ? (uint32_t)v : 0;
    return fits;
}

/* What stands before and behind the first, or the last, `c`. */
static bool split(spgo_str s, char c, bool at_last, spgo_str *before, spgo_str *behind)
{
    const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;
    if (at && at_last) {
        at = s.ptr + s.len - 1;
        while (*at != c)
            at--;
    }
    if (!at)
        return false;
    *before = (spgo_str){s.ptr, (size_t)(at - s.ptr)};
    *behind = (spgo_str){at + 1, s.len - before->len - 1};
    return true;
}

static spgo_str without(spgo_str s, size_t n)
{
    return (spgo_str){s.ptr + n, s.len - n};
}

static bool starts_with(spgo_str s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && memcmp(s.ptr, prefix, len) == 0;
}

static size_t spaces_before(spgo_str s)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] == ' ')
        n++;
    return n;
}

static bool is_name(spgo_str s)
{
    return s.len > 0 && !memchr(s.ptr, 0, s.len);
}

/* "name:total:head" */
static bool parse_head(spgo_str line, spgo_str *name, uint64_t *total, uint64_t *head)
{
    spgo_str rest, number;
    return line.len > 0 && line.ptr[0] != ' ' && split(line, ':', true, &rest, &number) &&
           parse_u64(number, head) && split(rest, ':', true, name, &number) &&
           parse_u64(number, total) && is_name(*name);
}

/* "3" or "3.1" */
static bool parse_place(spgo_str s, sampleprof_place *place)
{
    spgo_str line = s;
    spgo_str discriminator;
    place->discriminator = 0;
    if (split(s, '.', false, &line, &discriminator) &&
        !parse_u32(discriminator, &place->discriminator))
        return false;
    return parse_u32(line, &place->line_offset) && place->line_offset <= SAMPLEPROF_LINE_OFFSET_MAX;
}

/* Takes "name:count" off the front. Names may have spaces and colons: a name ends at the first
 * colon with a number and a space or the line's end behind it. */
static bool next_target(spgo_str *rest, spgo_str *name, uint64_t *count)
{
    *rest = without(*rest, spaces_before(*rest));
    for (size_t at = 0; at < rest->len; at++) {
        if (rest->ptr[at] != ':')
            continue;
        size_t end = at + 1;
        while (end < rest->len && is_digit(rest->ptr[end]))
            end++;
        bool ends_word = end == rest->len || rest->ptr[end] == ' ';
        if (!ends_word || !parse_u64((spgo_str){rest->ptr + at + 1, end - at - 1}, count))
            continue;
        *name = (spgo_str){rest->ptr, at};
        *rest = without(*rest, end);
        return is_name(*name);
    }
    return false;
}

/* ------------------------------------------------------------------ lines */

/* A line that makes no sense: a finding, and what is indented below it is passed over; or the end
 * without a list of findings. */
static spgo_code bad_line(text_reader *t, size_t depth, const char *what)
{
    if (!t->d)
        return spgo_fail(t->err, SPGO_CORRUPT, WHERE, t->line_off, "line %llu is no %s",
                         (unsigned long long)t->line_number, what);
    diag_add(t->d, SPGO_CORRUPT, t->line_off, "line %llu is no %s; left out",
             (unsigned long long)t->line_number, what);
    t->skipped_depth = depth;
    return SPGO_OK;
}

static spgo_code no_memory(const text_reader *t)
{
    return sampleprof_fail_memory(t->p, t->err);
}

static spgo_code read_head(text_reader *t, spgo_str line)
{
    spgo_str name;
    uint64_t total, head;
    t->open_count = 0;
    if (!parse_head(line, &name, &total, &head))
        return bad_line(t, 0, "'name:total:head'");
    if (name.ptr[0] == '[')
        return spgo_fail(t->err, SPGO_UNSUPPORTED, WHERE, t->line_off,
                         "line %llu: profiles by calling context are not read; llvm-profdata merge "
                         "--sample --convert-sample-profile-layout=nest makes a nested one",
                         (unsigned long long)t->line_number);
    sampleprof_function *f = sampleprof_function_named(t->p, name);
    if (!f)
        return no_memory(t);
    sampleprof_add_total(f, total);
    sampleprof_add_head(f, head);
    t->open[t->open_count++] = f;
    return SPGO_OK;
}

static spgo_code read_callsite(text_reader *t, size_t depth, sampleprof_place place, spgo_str rest)
{
    spgo_str name, number;
    uint64_t total;
    if (!split(rest, ':', true, &name, &number) || !parse_u64(number, &total) || !is_name(name))
        return bad_line(t, depth, "'line[.discriminator]: callee:total'");
    if (t->open_count > LIMIT_INLINE_DEPTH)
        return spgo_fail(t->err, SPGO_LIMIT, WHERE, t->line_off,
                         "line %llu: more than %d callees are inlined into each other",
                         (unsigned long long)t->line_number, (int)LIMIT_INLINE_DEPTH);
    sampleprof_function *f = sampleprof_inlined(t->p, t->open[t->open_count - 1], place, name);
    if (!f)
        return no_memory(t);
    sampleprof_add_total(f, total);
    t->open[t->open_count++] = f;
    return SPGO_OK;
}

static spgo_code read_counts(text_reader *t, size_t depth, sampleprof_place place, uint64_t count,
                             spgo_str targets)
{
    sampleprof_function *f = t->open[t->open_count - 1];
    spgo_str name;
    uint64_t target_count;
    if (!sampleprof_add_line(t->p, f, place, count))
        return no_memory(t);
    while (targets.len > 0) {
        if (!next_target(&targets, &name, &target_count))
            return bad_line(t, depth, "'line[.discriminator]: count target:count ...'");
        if (!sampleprof_add_target(t->p, f, place, name, target_count))
            return no_memory(t);
    }
    return SPGO_OK;
}

static spgo_code read_metadata(text_reader *t, size_t depth, spgo_str text)
{
    static const char checksum_mark[] = "!CFGChecksum:", attributes_mark[] = "!Attributes:";
    sampleprof_function *f = t->open[t->open_count - 1];
    bool is_checksum = starts_with(text, checksum_mark);
    if (!is_checksum && !starts_with(text, attributes_mark)) {
        if (starts_with(text, "!Flat"))
            return SPGO_OK;
        return bad_line(t, depth, "!CFGChecksum, !Attributes or !Flat");
    }
    text = without(text, is_checksum ? sizeof checksum_mark - 1 : sizeof attributes_mark - 1);
    text = without(text, spaces_before(text));
    while (text.len > 0 && text.ptr[text.len - 1] == ' ')
        text.len--;
    uint64_t checksum;
    uint32_t attributes;
    if (is_checksum ? !parse_u64(text, &checksum) : !parse_u32(text, &attributes))
        return bad_line(t, depth, "number of metadata");
    if (is_checksum)
        sampleprof_set_checksum(f, checksum);
    else
        sampleprof_set_attributes(f, attributes);
    if (is_checksum && depth == 1)
        sampleprof_set_probes(t->p, true);
    return SPGO_OK;
}

static spgo_code read_indented(text_reader *t, spgo_str line, size_t depth)
{
    spgo_str text = without(line, depth);
    spgo_str place_text, rest;
    sampleprof_place place;
    uint64_t count;
    if (t->open_count == 0)
        return bad_line(t, 0, "'name:total:head', as the first line is");
    if (depth < t->open_count)
        t->open_count = depth;
    if (text.ptr[0] == '!')
        return read_metadata(t, depth, text);
    if (!split(text, ':', false, &place_text, &rest) || !parse_place(place_text, &place) ||
        rest.len < 2 || rest.ptr[0] != ' ')
        return bad_line(t, depth, "'line[.discriminator]: ...'");
    rest = without(rest, 1);
    if (starts_with(rest, vtables_mark)) {
        diag_add(t->d, SPGO_UNSUPPORTED, t->line_off,
                 "line %llu: counts of object types are not kept",
                 (unsigned long long)t->line_number);
        return SPGO_OK;
    }
    spgo_str word = rest;
    spgo_str targets = {rest.ptr + rest.len, 0};
    (void)split(rest, ' ', false, &word, &targets);
    if (parse_u64(word, &count))
        return read_counts(t, depth, place, count, targets);
    return read_callsite(t, depth, place, rest);
}

/* Takes the next line, without its end, off the front. */
static spgo_str next_line(spgo_str *rest)
{
    spgo_str line = *rest;
    spgo_str behind = {rest->ptr + rest->len, 0};
    (void)split(*rest, '\n', false, &line, &behind);
    *rest = behind;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
}

static bool is_blank_or_comment(spgo_str line)
{
    size_t depth = spaces_before(line);
    return depth == line.len || line.ptr[depth] == '#';
}

static spgo_code read_line(text_reader *t, spgo_str line)
{
    size_t depth = spaces_before(line);
    if (depth > t->skipped_depth)
        return SPGO_OK;
    t->skipped_depth = SIZE_MAX;
    return depth == 0 ? read_head(t, line) : read_indented(t, line, depth);
}

static spgo_str as_text(spgo_span bytes)
{
    return (spgo_str){bytes.ptr ? (const char *)bytes.ptr : "", bytes.len};
}

spgo_code sampleprof_read_text(spgo_span bytes, uint64_t budget_bytes, sampleprof **read, diag *d,
                               spgo_error *err)
{
    text_reader t = {
        .p = sampleprof_new(budget_bytes), .d = d, .err = err, .skipped_depth = SIZE_MAX};
    spgo_str rest = as_text(bytes);
    spgo_code code = SPGO_OK;
    if (!t.p)
        return spgo_fail_nomem(err, WHERE, 0);
    while (rest.len > 0 && code == SPGO_OK) {
        t.line_off = (uint64_t)(bytes.len - rest.len);
        t.line_number++;
        spgo_str line = next_line(&rest);
        if (!is_blank_or_comment(line))
            code = read_line(&t, line);
    }
    if (code == SPGO_OK)
        *read = t.p;
    else
        sampleprof_free(t.p);
    return code;
}

bool sampleprof_looks_like_text(spgo_span bytes)
{
    spgo_str rest = as_text(bytes);
    spgo_str line = {"", 0}, name;
    uint64_t total, head;
    while (rest.len > 0 && is_blank_or_comment(line))
        line = next_line(&rest);
    return !is_blank_or_comment(line) && parse_head(line, &name, &total, &head);
}
