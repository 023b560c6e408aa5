/* Which record is which event, and the payloads of every version in both pointer sizes. */
#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <format/etl/etl_internal.h>
#include <format/etl/etl_write.h>

static bytes b;

static int setup(void **state)
{
    (void)state;
    bytes_clear(&b);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    bytes_free(&b);
    return 0;
}

static etl_record hook(uint16_t id, uint16_t version, uint8_t ptr_size)
{
    return (etl_record){
        .type = ptr_size == 8 ? ETL_PERFINFO64 : ETL_PERFINFO32,
        .ptr_size = ptr_size,
        .has_hook = true,
        .hook = id,
        .opcode = (uint8_t)id,
        .version = version,
        .pid = ETL_NO_ID,
        .tid = ETL_NO_ID,
        .payload = bytes_span(&b),
    };
}

static etl_record classic(const spgo_guid *guid, uint8_t opcode, uint16_t version, uint8_t ptr_size)
{
    return (etl_record){
        .type = ptr_size == 8 ? ETL_FULL64 : ETL_FULL32,
        .ptr_size = ptr_size,
        .guid = *guid,
        .opcode = opcode,
        .version = version,
        .pid = 77,
        .tid = 78,
        .payload = bytes_span(&b),
    };
}

static void assert_utf16(spgo_span have, const char *want)
{
    char text[256];
    text_from_utf16_into(text, sizeof text, have);
    assert_string_equal(text, want);
}

static void assert_str(spgo_str have, const char *want)
{
    assert_int_equal(have.len, strlen(want));
    assert_memory_equal(have.ptr, want, have.len);
}

/* The layout covers the payload exactly, and no shorter payload is taken for whole. Payloads are
 * copied so that sanitizers see reads behind them. `optional` bytes at the end may be absent. */
static void assert_exact(const etl_record *r, size_t optional)
{
    size_t used;
    assert_true(etl_payload_used(r, &used));
    assert_int_equal(used, r->payload.len);
    for (size_t len = 0; len < r->payload.len; len++) {
        uint8_t *copy = malloc(len + 1);
        etl_record cut = *r;
        memcpy(copy, r->payload.ptr, len);
        cut.payload = (spgo_span){copy, len};
        if (etl_payload_used(&cut, &used))
            assert_true(len + optional >= r->payload.len);
        free(copy);
    }
}

/* ------------------------------------------------------------------ identity */

static void a_kernel_event_has_two_forms(void **state)
{
    (void)state;
    static const struct {
        uint16_t hook;
        const spgo_guid *guid;
        uint8_t opcode;
        etl_event event;
    } forms[] = {
        {0x0301, &ETL_GUID_PROCESS, 1, ETL_EV_PROCESS_START},
        {0x030A, &ETL_GUID_IMAGE, 10, ETL_EV_IMAGE_LOAD},
        {0x1402, &ETL_GUID_IMAGE, 2, ETL_EV_IMAGE_UNLOAD},
        {0x0524, &ETL_GUID_THREAD, 36, ETL_EV_CSWITCH},
        {0x0F2E, &ETL_GUID_PERF_INFO, 46, ETL_EV_SAMPLED_PROFILE},
        {0x0F2F, &ETL_GUID_PERF_INFO, 47, ETL_EV_PMC_INTERRUPT},
        {0x0C20, &ETL_GUID_LAST_BRANCH, 32, ETL_EV_LBR},
        {0x1820, &ETL_GUID_STACK_WALK, 32, ETL_EV_STACK},
        {0x0020, &ETL_GUID_EVENT_TRACE, 32, ETL_EV_EXTENSION},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        etl_record h = hook(forms[i].hook, 2, 8);
        etl_record c = classic(forms[i].guid, forms[i].opcode, 2, 8);
        assert_int_equal(etl_record_event(&h), forms[i].event);
        assert_int_equal(etl_record_event(&c), forms[i].event);
    }
}

static void ids_of_images_come_under_their_guid_only(void **state)
{
    (void)state;
    etl_record c = classic(&ETL_GUID_IMAGE_ID, 0x24, 2, 8);
    assert_int_equal(etl_record_event(&c), ETL_EV_IMAGE_RSDS);
    c.opcode = 0x99;
    assert_int_equal(etl_record_event(&c), ETL_EV_UNKNOWN);
    c.opcode = 0x24;
    c.guid.bytes[15] ^= 1;
    assert_int_equal(etl_record_event(&c), ETL_EV_UNKNOWN);
}

static void event_headers_are_not_classic_events(void **state)
{
    (void)state;
    etl_record e = classic(&ETL_GUID_PROCESS, 1, 2, 8);
    e.type = ETL_EVENT64;
    assert_int_equal(etl_record_event(&e), ETL_EV_UNKNOWN);
}

static void the_lbr_class_is_written_as_windows_writes_it(void **state)
{
    (void)state;
    /* 99134383-5248-43fc-834b-529454e75df3 */
    static const uint8_t disk[16] = {0x83, 0x43, 0x13, 0x99, 0x48, 0x52, 0xfc, 0x43,
                                     0x83, 0x4b, 0x52, 0x94, 0x54, 0xe7, 0x5d, 0xf3};
    assert_memory_equal(ETL_GUID_LAST_BRANCH.bytes, disk, 16);
}

static void every_event_has_a_name(void **state)
{
    (void)state;
    for (int e = 0; e < ETL_EV_COUNT; e++)
        assert_non_null(etl_event_name((etl_event)e));
    assert_string_equal(etl_event_name(ETL_EV_LBR), "LastBranch/LBR");
    assert_string_equal(etl_event_name((etl_event)-1), "Unknown");
    etl_record r = hook(0x0008, 2, 8);
    assert_string_equal(etl_known_name(&r), "EventTrace/RundownComplete");
}

/* ------------------------------------------------------------------ processes */

static void put_sid(unsigned ptr_size, bool zeroed)
{
    bytes_fill(&b, zeroed ? 0 : 0x5A, 2 * ptr_size);
    static const uint8_t sid[] = {1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0};
    bytes_put(&b, sid, sizeof sid);
}

static void put_process(unsigned version, unsigned ptr_size, int sid)
{
    bytes_clear(&b);
    bytes_ptr(&b, version ? 0xABCD0000 : 41, ptr_size);
    if (version == 0) {
        bytes_ptr(&b, 42, ptr_size);
    } else {
        bytes_u32(&b, 41);
        bytes_u32(&b, 42);
        bytes_u32(&b, 43);
        bytes_u32(&b, 44);
    }
    if (version >= 3)
        bytes_ptr(&b, 0x187000, ptr_size);
    if (version >= 4)
        bytes_u32(&b, 2);
    if (sid)
        put_sid(ptr_size, sid == 2);
    else
        bytes_u32(&b, 0);
    bytes_put(&b, "a.exe", 6);
    if (version >= 2)
        bytes_utf16z(&b, "a.exe -x");
    if (version >= 4) {
        bytes_utf16z(&b, "package");
        bytes_utf16z(&b, "app");
    }
    if (version >= 5)
        bytes_u64(&b, 0x01D5000000000000);
}

static void assert_process(const etl_record *r, unsigned version, int sid)
{
    etl_process p;
    assert_true(etl_decode_process(r, &p));
    assert_int_equal(p.pid, 41);
    assert_int_equal(p.parent_pid, 42);
    assert_int_equal(p.session_id, version ? 43 : 0);
    assert_int_equal(p.exit_status, version ? 44 : 0);
    assert_int_equal(p.unique_key, version >= 2 ? 0xABCD0000 : 0);
    assert_int_equal(p.flags, version >= 4 ? 2 : 0);
    assert_int_equal(p.sid.len, sid ? 16 : 0);
    assert_str(p.image_name, "a.exe");
    assert_utf16(p.command_line, version >= 2 ? "a.exe -x" : "");
    assert_utf16(p.package, version >= 4 ? "package" : "");
    assert_utf16(p.app, version >= 4 ? "app" : "");
    assert_int_equal(p.has_exit_time, version >= 5);
    /* Cut in its zeros, a zeroed token looks like no SID and an empty name; and a cut classic
     * payload may come out even in the other pointer size. */
    assert_exact(r, sid == 2 || !r->has_hook ? b.len : version >= 5 ? 8 : 0);
}

static void processes_of_all_versions(void **state)
{
    (void)state;
    for (unsigned version = 0; version <= 5; version++)
        for (unsigned ptr_size = 4; ptr_size <= 8; ptr_size += 4)
            for (int sid = 0; sid < 3; sid++) {
                put_process(version, ptr_size, sid);
                etl_record r = hook(0x0303, (uint16_t)version, (uint8_t)ptr_size);
                assert_process(&r, version, sid);
            }
}

/* A 32-bit program that writes about a 64-bit system's processes, as old test traces show it. */
static void classic_payloads_of_the_other_pointer_size(void **state)
{
    (void)state;
    put_process(3, 8, 1);
    etl_record r = classic(&ETL_GUID_PROCESS, 3, 3, 4);
    assert_process(&r, 3, 1);
    put_process(3, 4, 2);
    r = classic(&ETL_GUID_PROCESS, 3, 3, 8);
    assert_process(&r, 3, 2);
}

static void a_sid_of_absurd_length_is_refused(void **state)
{
    (void)state;
    put_process(3, 8, 1);
    b.ptr[8 + 16 + 8 + 16 + 1] = 16;
    bytes_fill(&b, 0, 100);
    etl_record r = hook(0x0303, 3, 8);
    etl_process p;
    assert_false(etl_decode_process(&r, &p));
}

static void a_longer_payload_than_the_version_has_is_accepted(void **state)
{
    (void)state;
    put_process(4, 8, 1);
    bytes_fill(&b, 9, 11);
    etl_record r = hook(0x0301, 4, 8);
    etl_process p;
    size_t used;
    assert_true(etl_decode_process(&r, &p));
    assert_true(etl_payload_used(&r, &used));
    assert_int_equal(used, b.len - 11);
}

/* ------------------------------------------------------------------ threads */

static void threads_of_all_versions(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 4; version++)
        for (unsigned ptr_size = 4; ptr_size <= 8; ptr_size += 4) {
            bytes_clear(&b);
            bytes_u32(&b, 41);
            bytes_u32(&b, 51);
            for (uint64_t i = 1; i <= 6; i++)
                bytes_ptr(&b, i << 12, ptr_size);
            if (version == 1) {
                bytes_u8(&b, 1);
            } else {
                bytes_ptr(&b, 7 << 12, ptr_size);
                bytes_u32(&b, 8);
            }
            if (version >= 3)
                bytes_u32(&b, 0x02050A08);
            if (version >= 4)
                bytes_utf16z(&b, "worker");
            etl_record r = hook(0x0503, (uint16_t)version, (uint8_t)ptr_size);
            etl_thread t;
            assert_true(etl_decode_thread(&r, &t));
            assert_int_equal(t.pid, 41);
            assert_int_equal(t.tid, 51);
            assert_int_equal(t.start_addr, 5 << 12);
            assert_int_equal(t.win32_start_addr, 6 << 12);
            assert_utf16(t.name, version >= 4 ? "worker" : "");
            assert_exact(&r, version == 1 ? b.len - 8 : version >= 4 ? 14 : 0);
        }
}

static void the_oldest_threads_have_their_ids_swapped(void **state)
{
    (void)state;
    bytes_u32(&b, 51);
    bytes_u32(&b, 41);
    etl_record r = hook(0x0502, 0, 4);
    etl_thread t;
    assert_true(etl_decode_thread(&r, &t));
    assert_int_equal(t.pid, 41);
    assert_int_equal(t.tid, 51);
    assert_exact(&r, 0);
}

static void thread_names(void **state)
{
    (void)state;
    bytes_u32(&b, 41);
    bytes_u32(&b, 51);
    bytes_utf16z(&b, "io \xE2\x82\xAC");
    etl_record r = hook(0x0548, 2, 8);
    etl_thread t;
    assert_true(etl_decode_thread(&r, &t));
    assert_int_equal(t.tid, 51);
    assert_utf16(t.name, "io \xE2\x82\xAC");
    assert_exact(&r, 0);
}

static void context_switches(void **state)
{
    (void)state;
    /* new and old thread, priorities, C-state, spare, wait reason, mode, state, ideal CPU, time */
    static const uint8_t payload[] = {0x34, 0x12, 0, 0, 0x78, 0x56, 0, 0, 9,    0xFF, 1, 0,
                                      15,   1,    5, 3, 0x10, 0,    0, 0, 0xEE, 0xEE, 0, 0};
    bytes_put(&b, payload, sizeof payload);
    etl_record r = hook(0x0524, 4, 8);
    etl_cswitch c;
    assert_true(etl_decode_cswitch(&r, &c));
    assert_int_equal(c.new_tid, 0x1234);
    assert_int_equal(c.old_tid, 0x5678);
    assert_int_equal(c.new_priority, 9);
    assert_int_equal(c.old_priority, -1);
    assert_int_equal(c.old_wait_reason, 15);
    assert_int_equal(c.old_wait_mode, 1);
    assert_int_equal(c.old_state, 5);
    assert_int_equal(c.new_wait_time, 16);
    assert_exact(&r, 4);
}

/* ------------------------------------------------------------------ images */

static void images_of_all_versions(void **state)
{
    (void)state;
    for (unsigned version = 0; version <= 3; version++)
        for (unsigned ptr_size = 4; ptr_size <= 8; ptr_size += 4) {
            bytes_clear(&b);
            bytes_ptr(&b, 0x7FF00000, ptr_size);
            bytes_ptr(&b, 0x5000, ptr_size);
            if (version >= 1)
                bytes_u32(&b, 41);
            if (version >= 2) {
                bytes_u32(&b, 0x1111);
                bytes_u32(&b, 0x2222);
                bytes_u32(&b, 0x0000030C);
                bytes_ptr(&b, 0x400000, ptr_size);
                bytes_fill(&b, 0, 16);
                assert_int_equal(b.len, ptr_size == 8 ? 56 : 44);
            }
            bytes_utf16z(&b, "\\Device\\HarddiskVolume2\\a.exe");
            etl_record r = hook(0x1403, (uint16_t)version, (uint8_t)ptr_size);
            r.pid = 99;
            etl_image i;
            assert_true(etl_decode_image(&r, &i));
            assert_int_equal(i.base, 0x7FF00000);
            assert_int_equal(i.size, 0x5000);
            assert_int_equal(i.pid, version >= 1 ? 41 : 99);
            assert_int_equal(i.checksum, version >= 2 ? 0x1111 : 0);
            assert_int_equal(i.time_date_stamp, version >= 2 ? 0x2222 : 0);
            assert_int_equal(i.default_base, version >= 2 ? 0x400000 : 0);
            assert_utf16(i.file_name, "\\Device\\HarddiskVolume2\\a.exe");
            assert_exact(&r, 0);
        }
}

static void image_ids_are_packed(void **state)
{
    (void)state;
    for (uint8_t ptr_size = 4; ptr_size <= 8; ptr_size = (uint8_t)(ptr_size + 4)) {
        bytes_clear(&b);
        bytes_ptr(&b, 0x7FF00000, ptr_size);
        bytes_u32(&b, 41);
        for (uint8_t i = 0; i < 16; i++)
            bytes_u8(&b, i);
        bytes_u32(&b, 3);
        assert_int_equal(b.len, ptr_size + 24);
        bytes_put(&b, "c:\\b\\a.pdb", 11);
        for (uint8_t opcode = 0x24; opcode <= 0x25; opcode++) {
            etl_record r = classic(&ETL_GUID_IMAGE_ID, opcode, 2, ptr_size);
            etl_image_id i;
            assert_true(etl_decode_image_id(&r, &i));
            assert_int_equal(i.base, 0x7FF00000);
            assert_int_equal(i.pid, 41);
            assert_int_equal(i.id.guid.bytes[15], 15);
            assert_int_equal(i.id.age, 3);
            assert_str(i.pdb, "c:\\b\\a.pdb");
            size_t used;
            assert_true(etl_payload_used(&r, &used));
            assert_int_equal(used, b.len);
        }
    }
}

static void image_ids_name_the_original_file(void **state)
{
    (void)state;
    bytes_u64(&b, 0x7FF00000);
    bytes_u64(&b, 0x5000);
    bytes_u32(&b, 41);
    bytes_u32(&b, 0x2222);
    bytes_utf16z(&b, "a.exe");
    etl_record r = classic(&ETL_GUID_IMAGE_ID, 0, 2, 8);
    etl_image_id i;
    assert_true(etl_decode_image_id(&r, &i));
    assert_int_equal(i.size, 0x5000);
    assert_int_equal(i.pid, 41);
    assert_int_equal(i.time_date_stamp, 0x2222);
    assert_utf16(i.original_name, "a.exe");
    b.len = 12;
    r = classic(&ETL_GUID_IMAGE_ID, 0x20, 2, 8);
    assert_true(etl_decode_image_id(&r, &i));
    assert_int_equal(i.base, 0x7FF00000);
}

static void volumes(void **state)
{
    (void)state;
    bytes_utf16z(&b, "\\Device\\HarddiskVolume2\\");
    bytes_utf16z(&b, "C:\\");
    etl_record r = classic(&ETL_GUID_SYSTEM_CONFIG_EX, 0x23, 0, 8);
    etl_volume v;
    assert_int_equal(etl_record_event(&r), ETL_EV_VOLUME_MAPPING);
    assert_true(etl_decode_volume(&r, &v));
    assert_utf16(v.nt_path, "\\Device\\HarddiskVolume2\\");
    assert_utf16(v.dos_path, "C:\\");
    assert_exact(&r, 0);
}

/* ------------------------------------------------------------------ samples */

static void sampled_profiles(void **state)
{
    (void)state;
    for (uint8_t ptr_size = 4; ptr_size <= 8; ptr_size = (uint8_t)(ptr_size + 4)) {
        bytes_clear(&b);
        bytes_ptr(&b, 0xFFD03003, ptr_size);
        bytes_u32(&b, 584);
        bytes_u16(&b, 1);
        bytes_u8(&b, 14 << 3 | 1);
        bytes_u8(&b, 7);
        etl_record r = hook(0x0F2E, 2, ptr_size);
        etl_sample s;
        assert_true(etl_decode_sample(&r, &s));
        assert_int_equal(s.ip, 0xFFD03003);
        assert_int_equal(s.tid, 584);
        assert_int_equal(s.count, 1);
        assert_int_equal(s.flags >> 3, 14);
        assert_int_equal(s.flags & 3, 1);
        assert_int_equal(s.rank, 7);
        assert_int_equal(s.source, 0);
        assert_exact(&r, 0);
    }
}

static void counter_interrupts(void **state)
{
    (void)state;
    /* As a real system logged it. */
    static const uint8_t payload[] = {0xc9, 0x0e, 0xac, 0x8c, 0xfc, 0x7f, 0, 0,
                                      0x94, 0x0f, 0,    0,    0x1d, 0,    0, 0};
    bytes_put(&b, payload, sizeof payload);
    etl_record r = hook(0x0F2F, 2, 8);
    etl_sample s;
    assert_true(etl_decode_sample(&r, &s));
    assert_int_equal(s.ip, 0x7ffc8cac0ec9);
    assert_int_equal(s.tid, 0xf94);
    assert_int_equal(s.source, 29);
    assert_int_equal(s.count, 1);
    assert_exact(&r, 0);
}

static void cached_samples_in_both_alignments(void **state)
{
    (void)state;
    for (int padded = 0; padded < 2; padded++) {
        bytes_clear(&b);
        bytes_u32(&b, 2);
        bytes_fill(&b, 0, padded ? 4u : 0u);
        for (uint32_t i = 1; i <= 2; i++) {
            bytes_u64(&b, 0x1000 * (uint64_t)i);
            bytes_u32(&b, 50 + i);
            bytes_u32(&b, 1);
        }
        etl_record r = hook(0x0F37, 2, 8);
        etl_sample s;
        assert_int_equal(etl_sample_cache_count(&r), 2);
        assert_true(etl_decode_cached_sample(&r, 1, &s));
        assert_int_equal(s.ip, 0x2000);
        assert_int_equal(s.tid, 52);
        assert_false(etl_decode_cached_sample(&r, 2, &s));
        r.payload.len -= padded ? 12 : 8;
        assert_int_equal(etl_sample_cache_count(&r), 0);
    }
}

static void intervals(void **state)
{
    (void)state;
    bytes_u32(&b, 30);
    bytes_u32(&b, 65537);
    bytes_u32(&b, 10000);
    etl_record r = hook(0x0F49, 2, 8);
    etl_interval i;
    assert_true(etl_decode_interval(&r, &i));
    assert_int_equal(i.source, 30);
    assert_int_equal(i.new_interval, 65537);
    assert_int_equal(i.old_interval, 10000);
    assert_int_equal(i.name.len, 0);
    assert_exact(&r, 0);
    bytes_utf16z(&b, "BranchInstructionRetired");
    r = hook(0x0F48, 3, 8);
    assert_true(etl_decode_interval(&r, &i));
    assert_utf16(i.name, "BranchInstructionRetired");
}

/* ------------------------------------------------------------------ last branches */

static void put_lbr(size_t head_size, unsigned ptr_size, uint64_t count)
{
    bytes_clear(&b);
    bytes_u64(&b, 0x123456789);
    bytes_u32(&b, 41);
    bytes_u32(&b, 51);
    bytes_u32(&b, 0x60);
    bytes_fill(&b, 0xCC, head_size - 20);
    for (uint64_t i = 1; i <= count; i++) {
        bytes_ptr(&b, i << 8, ptr_size);
        bytes_ptr(&b, i << 8 | 1, ptr_size);
        bytes_ptr(&b, 7, ptr_size);
    }
}

static void assert_lbr(const etl_record *r, unsigned ptr_size, size_t count)
{
    etl_lbr l;
    assert_int_equal(etl_record_event(r), ETL_EV_LBR);
    assert_true(etl_decode_lbr(r, &l));
    assert_int_equal(l.time, 0x123456789);
    assert_int_equal(l.pid, 41);
    assert_int_equal(l.tid, 51);
    assert_int_equal(l.options, 0x60);
    assert_int_equal(l.branch_count, count);
    assert_int_equal(l.branches.len, count * 3 * ptr_size);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *p = l.branches.ptr + i * 3 * ptr_size;
        assert_int_equal(ptr_size == 8 ? load_u64(p) : load_u32(p), (i + 1) << 8);
        p += ptr_size;
        assert_int_equal(ptr_size == 8 ? load_u64(p) : load_u32(p), (i + 1) << 8 | 1);
    }
}

static void branches_in_all_forms(void **state)
{
    (void)state;
    static const struct {
        size_t head_size;
        uint8_t ptr_size;
    } forms[] = {{24, 8}, {24, 4}, {20, 4}};
    for (size_t i = 0; i < 3; i++)
        for (size_t count = 0; count <= 32; count++) {
            put_lbr(forms[i].head_size, forms[i].ptr_size, count);
            etl_record h = hook(0x0C20, 2, forms[i].ptr_size);
            assert_lbr(&h, forms[i].ptr_size, count);
            etl_record c = classic(&ETL_GUID_LAST_BRANCH, 0x20, 2, forms[i].ptr_size);
            assert_lbr(&c, forms[i].ptr_size, count);
        }
}

static void branches_that_do_not_come_out_even_are_refused(void **state)
{
    (void)state;
    etl_lbr l;
    put_lbr(24, 8, 3);
    for (size_t len = 0; len <= b.len; len++) {
        etl_record r = hook(0x0C20, 2, 8);
        r.payload.len = len;
        assert_int_equal(etl_decode_lbr(&r, &l), len >= 24 && (len - 24) % 24 == 0);
    }
    put_lbr(24, 4, 3);
    for (size_t len = 0; len <= b.len; len++) {
        etl_record r = hook(0x0C20, 2, 4);
        r.payload.len = len;
        assert_int_equal(etl_decode_lbr(&r, &l), (len >= 24 && (len - 24) % 12 == 0) ||
                                                     (len >= 20 && (len - 20) % 12 == 0));
    }
}

/* ------------------------------------------------------------------ stacks */

static void stacks(void **state)
{
    (void)state;
    for (uint8_t ptr_size = 4; ptr_size <= 8; ptr_size = (uint8_t)(ptr_size + 4)) {
        bytes_clear(&b);
        bytes_u64(&b, 5000);
        bytes_u32(&b, 41);
        bytes_u32(&b, 51);
        bytes_ptr(&b, 0xAAAA, ptr_size);
        etl_stack s;
        etl_record use = hook(0x1826, 2, ptr_size);
        assert_true(etl_decode_stack(&use, &s));
        assert_int_equal(s.key, 0xAAAA);
        assert_int_equal(s.frame_count, 0);
        assert_int_equal(s.tid, 51);
        assert_exact(&use, 0);

        bytes_ptr(&b, 0xBBBB, ptr_size);
        etl_record stack = hook(0x1820, 2, ptr_size);
        assert_true(etl_decode_stack(&stack, &s));
        assert_int_equal(s.time, 5000);
        assert_int_equal(s.pid, 41);
        assert_int_equal(s.frame_count, 2);
        assert_int_equal(s.frames.len, 2 * ptr_size);
        assert_int_equal(load_u32(s.frames.ptr), 0xAAAA);
        stack.payload.len--;
        assert_false(etl_decode_stack(&stack, &s));

        etl_record definition = hook(0x1824, 2, ptr_size);
        definition.payload = (spgo_span){b.ptr + 16, 2u * ptr_size};
        assert_true(etl_decode_stack(&definition, &s));
        assert_int_equal(s.key, 0xAAAA);
        assert_int_equal(s.frame_count, 1);
        assert_int_equal(s.pid, 0);
    }
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_kernel_event_has_two_forms),
        T(ids_of_images_come_under_their_guid_only),
        T(event_headers_are_not_classic_events),
        T(the_lbr_class_is_written_as_windows_writes_it),
        T(every_event_has_a_name),
        T(processes_of_all_versions),
        T(classic_payloads_of_the_other_pointer_size),
        T(a_sid_of_absurd_length_is_refused),
        T(a_longer_payload_than_the_version_has_is_accepted),
        T(threads_of_all_versions),
        T(the_oldest_threads_have_their_ids_swapped),
        T(thread_names),
        T(context_switches),
        T(images_of_all_versions),
        T(image_ids_are_packed),
        T(image_ids_name_the_original_file),
        T(volumes),
        T(sampled_profiles),
        T(counter_interrupts),
        T(cached_samples_in_both_alignments),
        T(intervals),
        T(branches_in_all_forms),
        T(branches_that_do_not_come_out_even_are_refused),
        T(stacks),
    };
    return cmocka_run_group_tests_name("etl_decode", tests, NULL, free_all);
}
