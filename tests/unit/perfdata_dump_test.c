/* The rendering of headers and records, as text and JSON. */
#include "perfdata_build.h"
#include "test_data.h"

#include <string.h>

#include <format/perfdata/perfdata_dump.h>

static const uint64_t ids[] = {7};
static const perfdata_build_event event = {
    .name = "cycles",
    .period = 100,
    .sample_type = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID |
                   PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_CALLCHAIN | PERFDATA_SAMPLE_BRANCH_STACK,
    .flags = PERFDATA_ATTR_SAMPLE_ID_ALL,
    .branch_sample_type = 8,
    .ids = ids,
    .id_count = 1};
static const uint8_t build_id[20] = {0xab, 0xcd};
static const perfdata_build_id_fields sid = {.pid = 1, .tid = 2, .time_ns = 3000, .id = 7};

static void write_records(perfdata_build *w)
{
    static const uint64_t chain[] = {0x10, 0x20};
    static const uint64_t branches[][3] = {{0x1, 0x2, 0x3}, {0x4, 0x5, 0x1}};
    perfdata_build_add_build_id(w, UINT32_MAX, 2, build_id, 20, "/bin/x");
    perfdata_build_comm(w, 1, 2, "a\x1b[31m", true, &sid);
    perfdata_build_mmap2(w, &(perfdata_build_map){.pid = 1,
                                                  .tid = 2,
                                                  .addr = 0x1000,
                                                  .len = 0x200,
                                                  .pgoff = 0x30,
                                                  .prot = 5,
                                                  .misc = 2,
                                                  .path = "/bin/x",
                                                  .build_id = build_id,
                                                  .build_id_size = 2,
                                                  .sid = sid});
    perfdata_build_task(w, PERFDATA_RECORD_FORK, 1, 2, 3, 4, &sid);
    perfdata_build_lost(w, 9, &sid);
    perfdata_build_sample_record(w, &(perfdata_build_sample){.misc = 2,
                                                             .ip = 0xff,
                                                             .pid = 1,
                                                             .tid = 2,
                                                             .time_ns = 5,
                                                             .id = 7,
                                                             .callchain = chain,
                                                             .callchain_count = 2,
                                                             .branches = branches,
                                                             .branch_count = 2});
    perfdata_build_raw(w, 4711, 0, (spgo_span){(const uint8_t *)"\x01\xff", 2});
    perfdata_build_raw(w, PERFDATA_RECORD_SAMPLE, 0, (spgo_span){(const uint8_t *)"\x02\x03", 2});
}

static const perfdata_build_opts opts = {
    .hostname = "box", .os_release = "6.1", .arch = "x86_64", .cmdline = "perf record x"};

static void expect(bytes *text, const char *expected)
{
    bytes_u8(text, 0);
    assert_string_equal((const char *)text->ptr, expected);
    bytes_free(text);
}

/* Renders the header and then every record's fields, a line each. */
static bytes render(bool as_json)
{
    bytes b = {0}, text = {0};
    out o;
    perfdata_build *build = perfdata_build_new(bytes_sink(&b), &opts, &event, 1);
    write_records(build);
    assert_true(perfdata_build_finish(build));
    perfdata *p;
    perfdata_walk *w;
    perfdata_record r;
    assert_int_equal(perfdata_open(bytes_span(&b), &p, NULL, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(p, NULL, &w, NULL), SPGO_OK);
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    json j = json_on(&o, false);
    json *jp = as_json ? &j : NULL;
    if (jp)
        json_open_object(jp);
    perfdata_dump_header(&o, jp, p);
    if (jp) {
        json_close_object(jp);
        json_end_line(jp);
    }
    while (perfdata_walk_next(w, &r)) {
        const char *name = perfdata_record_name(r.type);
        if (jp) {
            j = json_on(&o, false);
            json_open_object(jp);
        } else {
            out_text(&o, name ? name : "?");
        }
        perfdata_dump_record_fields(&o, jp, p, &r);
        if (jp) {
            json_close_object(jp);
            json_end_line(jp);
        } else {
            out_text(&o, "\n");
        }
    }
    assert_true(out_flush(&o));
    out_free(&o);
    perfdata_walk_free(w);
    perfdata_close(p);
    bytes_free(&b);
    return text;
}

static void test_text(void **state)
{
    (void)state;
    bytes text = render(false);
    expect(&text,
           "mode: \"file\"\n"
           "byte_order: \"little-endian\"\n"
           "host_name: \"box\"\n"
           "os_release: \"6.1\"\n"
           "architecture: \"x86_64\"\n"
           "command_line: \"perf record x\"\n"
           "attr 0: name=\"cycles\" type=0 config=0x0 period=100 "
           "sample=IP,TID,TIME,CALLCHAIN,BRANCH_STACK,IDENTIFIER sample_type=0x10827 "
           "read_format=0x0 flags=0x40000 branch_sample_type=0x8 ids=1\n"
           "build_id 0: id=abcd000000000000000000000000000000000000 pid=4294967295 misc=0x8002 "
           "path=\"/bin/x\"\n"
           "COMM pid=1 tid=2 exec=true comm=\"a\\x1b[31m\" time_ns=3000 id=7\n"
           "MMAP2 pid=1 tid=2 addr=0x1000 len=0x200 pgoff=0x30 prot=5 kernel=false data=false "
           "build_id=abcd path=\"/bin/x\" time_ns=3000 id=7\n"
           "FORK pid=1 ppid=2 tid=3 ptid=4 time_ns=3000\n"
           "LOST lost=9\n"
           "SAMPLE event=0 pid=1 tid=2 time_ns=5 id=7 cpu=0 mode=\"user\" ip=0xff period=0 "
           "callchain=0x10,0x20 branches=0x1/0x2/0x3,0x4/0x5/0x1\n"
           "? body=01ff\n"
           "SAMPLE body=0203\n");
}

static void test_json(void **state)
{
    (void)state;
    bytes text = render(true);
    bytes_u8(&text, 0);
    const char *s = (const char *)text.ptr;
    assert_non_null(strstr(s, "\"host_name\":\"box\""));
    assert_non_null(strstr(s, "\"sample\":[\"IP\",\"TID\",\"TIME\",\"CALLCHAIN\""));
    assert_non_null(
        strstr(s, "\"branches\":[[\"0x1\",\"0x2\",\"0x3\"],[\"0x4\",\"0x5\",\"0x1\"]]"));
    assert_non_null(strstr(s, "\"callchain\":[\"0x10\",\"0x20\"]"));
    assert_non_null(strstr(s, "{\"body\":\"01ff\"}"));
    assert_non_null(strstr(s, "{\"lost\":9}"));
    bytes_free(&text);
}

static void test_record_names(void **state)
{
    (void)state;
    assert_string_equal(perfdata_record_name(PERFDATA_RECORD_MMAP2), "MMAP2");
    assert_string_equal(perfdata_record_name(PERFDATA_RECORD_COMPRESSED2), "COMPRESSED2");
    assert_null(perfdata_record_name(0));
    assert_null(perfdata_record_name(23));
    assert_null(perfdata_record_name(UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_record_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
