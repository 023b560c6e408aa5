/* Named values: the same fields as text and as JSON; times of Windows as text. */
#include "test_data.h"

#include <base/bytes.h>
#include <base/fields.h>
#include <base/filetime.h>
#include <base/text.h>

#include <string.h>

static void put_all(const fields *f)
{
    static const uint8_t name[] = {'a', 0, '"', 0, 0x00, 0xD8}; /* the last: half a surrogate */
    static const spgo_guid guid = {{0x3E, 0x42, 0xD6, 0x47, 0x10, 0x95, 0xDC, 0x45, 0x89, 0x2B,
                                    0x2C, 0x46, 0xB4, 0xDD, 0x7A, 0x9C}};
    field_u64(f, "number", 7);
    field_i64(f, "signed", -7);
    field_hex(f, "hex", 0x1A2B);
    field_bool(f, "flag", true);
    field_str(f, "text", text_str("C:\\x y=1"));
    field_utf16(f, "wide", (spgo_span){name, sizeof name});
    field_bytes(f, "bytes", (spgo_span){name, 3});
    field_guid(f, "guid", &guid);
    field_filetime(f, "time", 0);
    field_open_list(f, "list");
    for (int i = 0; i < 2; i++) {
        field_next_item(f, i == 0);
        value_hex(f, (uint64_t)i);
    }
    field_next_item(f, false);
    value_word(f, "word");
    field_close_list(f);
}

static void put_table(const fields *f)
{
    fields_open_table(f->j, "rows");
    for (size_t i = 0; i < 2; i++) {
        fields_open_row(f, "row", i);
        field_u64(f, "n", 10 + i);
        fields_close_row(f);
    }
    fields_close_table(f->j);
}

/* `form` makes the fields of a line; NULL: JSON. */
static void expect(fields (*form)(out *o, json *j), const char *expected)
{
    bytes text = {0};
    out o;
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    json j = json_on(&o, false);
    fields f = form ? form(&o, NULL) : fields_pairs(NULL, &j);
    fields row = fields_pairs(f.o, f.j);
    if (!form)
        json_open_object(&j);
    put_all(&f);
    put_table(&row);
    if (!form)
        json_close_object(&j);
    assert_true(out_flush(&o));
    bytes_u8(&text, 0);
    assert_string_equal((const char *)text.ptr, expected);
    out_free(&o);
    bytes_free(&text);
}

static void pairs(void **state)
{
    (void)state;
    expect(
        fields_pairs,
        " number=7 signed=-7 hex=0x1a2b flag=true text=\"C:\\\\x y=1\" wide=\"a\\\"\xEF\xBF\xBD\""
        " bytes=610022 guid=47d6423e-9510-45dc-892b-2c46b4dd7a9c"
        " time=1601-01-01T00:00:00.0000000Z list=0x0,0x1,word"
        "row 0: n=10\nrow 1: n=11\n");
}

static void lines(void **state)
{
    (void)state;
    expect(fields_lines, "number: 7\nsigned: -7\nhex: 0x1a2b\nflag: true\ntext: \"C:\\\\x y=1\"\n"
                         "wide: \"a\\\"\xEF\xBF\xBD\"\nbytes: 610022\n"
                         "guid: 47d6423e-9510-45dc-892b-2c46b4dd7a9c\n"
                         "time: 1601-01-01T00:00:00.0000000Z\nlist: 0x0,0x1,word\n"
                         "row 0: n=10\nrow 1: n=11\n");
}

static void members(void **state)
{
    (void)state;
    expect(NULL, "{\"number\":7,\"signed\":-7,\"hex\":\"0x1a2b\",\"flag\":true,"
                 "\"text\":\"C:\\\\x y=1\",\"wide\":\"a\\\"\xEF\xBF\xBD\",\"bytes\":\"610022\","
                 "\"guid\":\"47d6423e-9510-45dc-892b-2c46b4dd7a9c\","
                 "\"time\":\"1601-01-01T00:00:00.0000000Z\",\"list\":[\"0x0\",\"0x1\",\"word\"],"
                 "\"rows\":[{\"n\":10},{\"n\":11}]}");
}

static void long_utf16_is_whole(void **state)
{
    (void)state;
    bytes wide = {0}, text = {0};
    out o;
    enum { UNITS = 5000 };
    for (int i = 0; i < UNITS; i++)
        bytes_u16(&wide, 0x20AC); /* three bytes of UTF-8 */
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    fields f = fields_pairs(&o, NULL);
    value_utf16(&f, bytes_span(&wide));
    assert_true(out_flush(&o));
    assert_int_equal(text.len, 3 * UNITS + 2);
    assert_memory_equal(text.ptr + text.len - 4, "\xE2\x82\xAC\"", 4);
    out_free(&o);
    bytes_free(&wide);
    bytes_free(&text);
}

/* From Python's datetime(1601, 1, 1) + timedelta(microseconds=n / 10); its years end with 9999. */
static void filetimes(void **state)
{
    (void)state;
    static const struct {
        uint64_t filetime;
        const char *text;
    } cases[] = {
        {116444736000000000u, "1970-01-01T00:00:00.0000000Z"},
        {133536836961234567u, "2024-02-29T12:34:56.1234567Z"},
        {133537511999999999u, "2024-03-01T07:19:59.9999999Z"},
        {31241376000000000u, "1700-01-01T00:00:00.0000000Z"},
        {94354848000000000u, "1900-01-01T00:00:00.0000000Z"},
        {125963423990000000u, "2000-02-29T23:59:59.0000000Z"},
        {2650467743999999999u, "9999-12-31T23:59:59.9999999Z"},
        {2650467744000000000u, "10000-01-01T00:00:00.0000000Z"},
        {UINT64_MAX, "60056-05-28T05:36:10.9551615Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[FILETIME_TEXT_SIZE];
        assert_int_equal(filetime_text(text, cases[i].filetime), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),     cmocka_unit_test(lines),
        cmocka_unit_test(members),   cmocka_unit_test(long_utf16_is_whole),
        cmocka_unit_test(filetimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
