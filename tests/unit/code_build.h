/* Code by the byte, as an image, and flow graphs as text. */
#ifndef CODE_BUILD_H
#define CODE_BUILD_H

#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <code/flow_graph.h>

enum { CODE_RVA = 0x1000 }; /* where the bytes of a test begin */
#define CODE_BASE UINT64_C(0x400000)

typedef struct code_fixture {
    uint8_t *bytes; /* a copy of exactly that size */
    code_segment segment;
    code_image image;
    code_decoder *d;
    arena *mem;
    flow_graph g;
    spgo_error err;
    char text[4096];
} code_fixture;

/* Skips the test if this build cannot decode the machine. */
static inline code_fixture *code_fixture_new(code_machine machine, const uint8_t *bytes,
                                             size_t size)
{
    if (!code_can_decode(machine))
        skip();
    code_fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->bytes = malloc(size + (size == 0));
    assert_non_null(f->bytes);
    memcpy(f->bytes, bytes, size);
    f->segment = (code_segment){CODE_RVA, {f->bytes, size}, true};
    f->image = (code_image){machine, CODE_BASE, &f->segment, 1};
    f->mem = arena_new(0);
    assert_non_null(f->mem);
    assert_int_equal(code_decoder_new(&f->image, &f->d, &f->err), SPGO_OK);
    return f;
}

static inline void code_fixture_free(code_fixture *f)
{
    code_decoder_free(f->d);
    arena_free(f->mem);
    free(f->bytes);
    free(f);
}

/* The graph of a function at CODE_RVA of one extent. */
static inline spgo_code code_fixture_graph(code_fixture *f, uint32_t size, const flow_hints *hints)
{
    flow_extent extent = {CODE_RVA, CODE_RVA + size};
    return flow_graph_build(f->d, CODE_RVA, &extent, 1, hints, f->mem, &f->g, &f->err);
}

/*
 * A line for each block: where it begins, its flags (E entry, X exit, N no return, U unknown exit,
 * L landing), its edges (f falls through, t taken, s by a table, o observed) and where they lead.
 */
static inline const char *code_fixture_text(code_fixture *f)
{
    static const char flag_letters[] = "EXNUL", edge_letters[] = "ftso";
    size_t at = 0;
    f->text[0] = '\0';
    for (size_t i = 0; i < f->g.block_count; i++) {
        const flow_block *b = &f->g.blocks[i];
        char flags[8] = "";
        for (unsigned bit = 0; bit < 5; bit++) {
            if (b->flags >> bit & 1)
                strncat(flags, &flag_letters[bit], 1);
        }
        at += (size_t)snprintf(f->text + at, sizeof(f->text) - at, "%x%s%s", b->begin_rva,
                               flags[0] ? " " : "", flags);
        for (uint32_t e = b->first_edge; e < b->first_edge + b->edge_count; e++) {
            const flow_edge *edge = &f->g.edges[e];
            assert_int_equal(edge->from, i);
            at += (size_t)snprintf(f->text + at, sizeof(f->text) - at, " %c%x",
                                   edge_letters[edge->kind], f->g.blocks[edge->to].begin_rva);
        }
        at += (size_t)snprintf(f->text + at, sizeof(f->text) - at, "\n");
        assert_true(at < sizeof(f->text));
    }
    return f->text;
}

#endif
