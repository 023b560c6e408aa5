/*
 * Named values as text or as JSON, with the same names in the same order: what the dumps of all
 * formats are made of.
 *
 * A `fields` says where the values go. As text they stand on `o`, each between what the form puts
 * around it; as JSON they are members of the object that is open in `j`, and `o` is not used.
 */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include <base/json.h>

typedef struct fields {
    out *o;
    json *j;                              /* NULL: text */
    const char *before, *between, *after; /* text: around name and value */
} fields;

/* ` name=value`, each after a space. */
static inline fields fields_pairs(out *o, json *j)
{
    return (fields){o, j, " ", "=", ""};
}

/* `name: value`, a line each. */
static inline fields fields_lines(out *o, json *j)
{
    return (fields){o, j, "", ": ", "\n"};
}

/*
 * A table: in JSON a member that is an array of objects, as text a line per row, which begins with
 * what it is a row of and its number ("section 0:").
 */
void fields_open_table(json *j, const char *name);
void fields_close_table(json *j);
void fields_open_row(const fields *f, const char *kind, size_t index);
void fields_close_row(const fields *f);

void field_u64(const fields *f, const char *name, uint64_t v);
void field_i64(const fields *f, const char *name, int64_t v);
void field_hex(const fields *f, const char *name, uint64_t v); /* 0x1a2b */
void field_bool(const fields *f, const char *name, bool v);    /* true or false */
void field_str(const fields *f, const char *name, spgo_str s); /* in quotes, see out_quoted */
void field_utf16(const fields *f, const char *name, spgo_span utf16le);
void field_bytes(const fields *f, const char *name, spgo_span b); /* hexadecimal digits */
void field_guid(const fields *f, const char *name, const spgo_guid *g);
void field_filetime(const fields *f, const char *name, uint64_t filetime); /* ISO 8601, UTC */

/*
 * A list: opened, its items, closed. Text puts commas between the items; what an item looks like is
 * up to the caller, who announces each one and writes it with value_hex and its like, to `o` and
 * `j` themselves, or, in an object of `j`, as fields.
 */
void field_open_list(const fields *f, const char *name);
void field_next_item(const fields *f, bool is_first);
void field_close_list(const fields *f);

/* A value without a name: an item of a list. */
void value_word(const fields *f, const char *word); /* as text without quotes */
void value_hex(const fields *f, uint64_t v);
void value_utf16(const fields *f, spgo_span utf16le);

#endif
