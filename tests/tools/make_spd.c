/*
 * make_spd NAME OUT.spd [SEED]: writes an SPD file to test with; make_spd --list prints the names.
 * "object:NAME" puts it into the middle of other bytes, as in an object file; "pdb:NAME" into a
 * stream of a PDB, in pages that do not follow each other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <os/file.h>

#include "spd_build.h"

enum { PAGE_SIZE = 512, STREAM_PAGES_AT = 4 };

/* What stands around it holds the signature too, which alone does not make an SPD. */
static void put_object(bytes *out, const bytes *spd_bytes)
{
    static const char before[] = "\x64\x86 an object file H_Q_ H H_Q_ with a section";
    bytes_put(out, before, sizeof before);
    bytes_fill(out, 0, 0x100);
    bytes_put(out, spd_bytes->ptr, spd_bytes->len);
    bytes_fill(out, 0xcc, 0x80);
}

static void put_page_end(bytes *out)
{
    bytes_fill(out, 0, (PAGE_SIZE - out->len % PAGE_SIZE) % PAGE_SIZE);
}

/* Page 0: header. 1, 2: free pages. 3: where the directory is. Then the stream, its pages in
 * falling order, and the directory. */
static void put_pdb(bytes *out, const bytes *spd_bytes)
{
    static const char magic[] = "Microsoft C/C++ MSF 7.00\r\n\x1a"
                                "DS\0\0";
    uint32_t pages = (uint32_t)((spd_bytes->len + PAGE_SIZE - 1) / PAGE_SIZE);
    bytes_put(out, magic, sizeof magic);
    bytes_u32(out, PAGE_SIZE);
    bytes_u32(out, 1);
    bytes_u32(out, STREAM_PAGES_AT + pages + 1);
    bytes_u32(out, 4 * (2 + pages));
    bytes_u32(out, 0);
    bytes_u32(out, 3);
    put_page_end(out);
    bytes_fill(out, 0xff, (size_t)2 * PAGE_SIZE);
    bytes_u32(out, STREAM_PAGES_AT + pages);
    put_page_end(out);
    for (uint32_t i = pages; i-- > 0;) {
        size_t left = spd_bytes->len - (size_t)i * PAGE_SIZE;
        bytes_put(out, spd_bytes->ptr + (size_t)i * PAGE_SIZE, left < PAGE_SIZE ? left : PAGE_SIZE);
        put_page_end(out);
    }
    bytes_u32(out, 1);
    bytes_u32(out, (uint32_t)spd_bytes->len);
    for (uint32_t i = 0; i < pages; i++)
        bytes_u32(out, STREAM_PAGES_AT + pages - 1 - i);
    put_page_end(out);
}

static bool write_file(const char *path, const bytes *b)
{
    os_output *out;
    spgo_error err;
    if (os_output_open(path, &out, &err) == SPGO_OK) {
        spgo_sink sink = os_output_sink(out);
        (void)sink.write(sink.ctx, b->ptr, b->len); /* the commit tells */
        if (os_output_commit(out, &err) == SPGO_OK)
            return true;
    }
    fprintf(stderr, "make_spd: %s: %s\n", path, err.sentence);
    return false;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; spd_build_name(i); i++)
            puts(spd_build_name(i));
        return 0;
    }
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: make_spd [object:|pdb:]NAME OUT.spd [SEED] | make_spd --list\n");
        return 2;
    }
    const char *colon = strchr(argv[1], ':');
    const char *name = colon ? colon + 1 : argv[1];
    spd *doc = spd_build(name, argc == 4 ? strtoull(argv[3], NULL, 0) : 1);
    if (!doc) {
        fprintf(stderr, "make_spd: no document is called '%s'\n", name);
        return 2;
    }
    bytes spd_bytes = spd_built_bytes(doc), around = {0};
    if (argv[1][0] == 'o' && colon)
        put_object(&around, &spd_bytes);
    else if (colon)
        put_pdb(&around, &spd_bytes);
    bool ok = write_file(argv[2], colon ? &around : &spd_bytes);
    bytes_free(&spd_bytes);
    bytes_free(&around);
    spd_free(doc);
    return ok ? 0 : 1;
}
