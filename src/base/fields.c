/* Named values as text or as JSON: see fields.h. */
#include <base/fields.h>

#include <base/filetime.h>
#include <base/guid.h>
#include <base/text.h>

static void begin(const fields *f, const char *name)
{
    if (f->j) {
        json_key(f->j, name);
        return;
    }
    out_text(f->o, f->before);
    out_text(f->o, name);
    out_text(f->o, f->between);
}

static void end(const fields *f)
{
    if (!f->j)
        out_text(f->o, f->after);
}

/* ------------------------------------------------------------------ values */

void value_word(const fields *f, const char *word)
{
    if (f->j)
        json_text(f->j, word);
    else
        out_text(f->o, word);
}

void value_hex(const fields *f, uint64_t v)
{
    if (f->j) {
        json_hex(f->j, v);
        return;
    }
    out_bytes(f->o, "0x", 2);
    out_hex(f->o, v);
}

static void value_str(const fields *f, spgo_str s)
{
    if (f->j)
        json_str(f->j, s);
    else
        out_quoted(f->o, s);
}

void value_utf16(const fields *f, spgo_span utf16le)
{
    enum { SMALL_SIZE = 1024, UTF8_PER_UNIT = 3 };
    char small[SMALL_SIZE];
    if (utf16le.len / 2 * UTF8_PER_UNIT < sizeof small) {
        size_t len = text_from_utf16_into(small, sizeof small, utf16le);
        value_str(f, (spgo_str){small, len});
        return;
    }
    arena *a = arena_new(0);
    value_str(f, a ? text_from_utf16(a, utf16le) : text_str(""));
    arena_free(a);
}

/* ------------------------------------------------------------------ fields */

void field_u64(const fields *f, const char *name, uint64_t v)
{
    begin(f, name);
    if (f->j)
        json_u64(f->j, v);
    else
        out_u64(f->o, v);
    end(f);
}

void field_i64(const fields *f, const char *name, int64_t v)
{
    begin(f, name);
    if (f->j)
        json_i64(f->j, v);
    else
        out_i64(f->o, v);
    end(f);
}

void field_hex(const fields *f, const char *name, uint64_t v)
{
    begin(f, name);
    value_hex(f, v);
    end(f);
}

void field_bool(const fields *f, const char *name, bool v)
{
    begin(f, name);
    if (f->j)
        json_bool(f->j, v);
    else
        out_text(f->o, v ? "true" : "false");
    end(f);
}

void field_str(const fields *f, const char *name, spgo_str s)
{
    begin(f, name);
    value_str(f, s);
    end(f);
}

void field_utf16(const fields *f, const char *name, spgo_span utf16le)
{
    begin(f, name);
    value_utf16(f, utf16le);
    end(f);
}

void field_bytes(const fields *f, const char *name, spgo_span b)
{
    begin(f, name);
    if (f->j)
        json_bytes(f->j, b);
    else
        out_digits(f->o, b);
    end(f);
}

void field_guid(const fields *f, const char *name, const spgo_guid *g)
{
    char text[GUID_TEXT_SIZE];
    guid_text_lower(text, g);
    begin(f, name);
    value_word(f, text);
    end(f);
}

void field_filetime(const fields *f, const char *name, uint64_t filetime)
{
    char text[FILETIME_TEXT_SIZE];
    (void)filetime_text(text, filetime);
    begin(f, name);
    value_word(f, text);
    end(f);
}

/* ------------------------------------------------------------------ lists */

void field_open_list(const fields *f, const char *name)
{
    begin(f, name);
    if (f->j)
        json_open_array(f->j);
}

void field_next_item(const fields *f, bool is_first)
{
    if (!f->j && !is_first)
        out_bytes(f->o, ",", 1);
}

void field_close_list(const fields *f)
{
    if (f->j)
        json_close_array(f->j);
    end(f);
}

/* ------------------------------------------------------------------ tables */

void fields_open_table(json *j, const char *name)
{
    if (!j)
        return;
    json_key(j, name);
    json_open_array(j);
}

void fields_close_table(json *j)
{
    if (j)
        json_close_array(j);
}

void fields_open_row(const fields *f, const char *kind, size_t index)
{
    if (f->j) {
        json_open_object(f->j);
        return;
    }
    out_text(f->o, kind);
    out_bytes(f->o, " ", 1);
    out_u64(f->o, index);
    out_bytes(f->o, ":", 1);
}

void fields_close_row(const fields *f)
{
    if (f->j)
        json_close_object(f->j);
    else
        out_bytes(f->o, "\n", 1);
}
