/*
 * Functions as sets of ranges. A linker that moves cold code away, and a compiler that saves
 * registers late, leave several rows for one function; each of them names the row before it in the
 * chain, and the one at its end starts the function. ARM64 has no such names: there a fragment
 * belongs to the row that it follows without a gap.
 */
#include <format/pe/pe_internal.h>

#include <inttypes.h>
#include <stdlib.h>

#include <base/fail.h>

typedef struct build {
    const pe_image *image;
    pe_table table;
    pe_extents *out;
    diag *d;
} build;

static uint64_t row_offset(const build *b, size_t index)
{
    return b->table.off + (uint64_t)index * b->table.row_size;
}

/* Appends the range unless it is none of the image. */
static bool add(build *b, size_t index, uint32_t function_rva, uint32_t begin_rva, uint64_t end_rva,
                bool is_loose)
{
    if (begin_rva >= end_rva || end_rva > b->image->size_of_image) {
        b->out->rows_left_out++;
        diag_add(b->d, SPGO_CORRUPT, row_offset(b, index),
                 "function row %zu: 0x%" PRIx32 "..0x%" PRIx64
                 " is no range of an image of 0x%" PRIx32 " bytes",
                 index, begin_rva, end_rva, b->image->size_of_image);
        return false;
    }
    b->out->rows[b->out->count++] = (pe_extent){.function_rva = function_rva,
                                                .begin_rva = begin_rva,
                                                .end_rva = (uint32_t)end_rva,
                                                .is_loose = is_loose};
    return true;
}

static void keep_alone(build *b, size_t index, const spgo_error *why)
{
    b->out->rows_alone++;
    diag_add(b->d, why->code, row_offset(b, index), "function row %zu: %s", index, why->sentence);
}

static void add_x64(build *b, size_t index)
{
    pe_runtime_function row = pe_x64_function_at(&b->table, index), primary;
    spgo_error why = {0};
    if (row.begin_rva == 0 && row.end_rva == 0 && row.unwind_rva == 0)
        return; /* room that an incremental link has left */
    if (pe_x64_primary(b->image, &row, &primary, &why) == SPGO_OK &&
        primary.begin_rva >= b->image->size_of_image)
        (void)spgo_fail(&why, SPGO_CORRUPT, "pe.unwind", SPGO_NO_OFFSET,
                        "its function should start at 0x%" PRIx32 ", outside the image",
                        primary.begin_rva);
    bool is_alone = why.code != SPGO_OK;
    if (add(b, index, is_alone ? row.begin_rva : primary.begin_rva, row.begin_rva, row.end_rva,
            false) &&
        is_alone)
        keep_alone(b, index, &why);
}

static void add_arm64(build *b, size_t index)
{
    pe_arm64_function f;
    spgo_error why = {0};
    if (load_u32(pe_row(&b->table, index)) == 0 && load_u32(pe_row(&b->table, index) + 4) == 0)
        return;
    if (pe_arm64_function_at(b->image, &b->table, index, &f, &why) != SPGO_OK) {
        b->out->rows_left_out++; /* without its record even its size is unknown */
        diag_add(b->d, why.code, row_offset(b, index), "%s", why.sentence);
        return;
    }
    const pe_extent *before = b->out->count > 0 ? &b->out->rows[b->out->count - 1] : NULL;
    bool continues = f.is_fragment && before && before->end_rva == f.begin_rva;
    (void)add(b, index, continues ? before->function_rva : f.begin_rva, f.begin_rva,
              (uint64_t)f.begin_rva + f.size_bytes, continues ? before->is_loose : f.is_fragment);
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_extents(const void *left, const void *right)
{
    const pe_extent *a = left, *b = right;
    int order = compare_u32(a->function_rva, b->function_rva);
    if (order == 0)
        order = compare_u32(a->begin_rva, b->begin_rva);
    if (order == 0)
        order = compare_u32(a->end_rva, b->end_rva);
    return order != 0 ? order : a->is_loose - b->is_loose;
}

/* Joins neighbouring pieces of one function. */
static void join_pieces(pe_extents *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        pe_extent next = e->rows[i];
        pe_extent *last = kept > 0 ? &e->rows[kept - 1] : NULL;
        if (last && last->function_rva == next.function_rva && next.begin_rva <= last->end_rva) {
            if (next.end_rva > last->end_rva)
                last->end_rva = next.end_rva;
        } else {
            e->rows[kept++] = next;
        }
    }
    e->count = kept;
}

spgo_code pe_extents_build(const pe_image *image, arena *a, pe_extents *out, diag *d,
                           spgo_error *err)
{
    build b = {.image = image, .out = out, .d = d};
    *out = (pe_extents){0};
    SPGO_TRY(pe_functions_open(image, &b.table, err));
    out->rows = arena_push(a, b.table.count, sizeof *out->rows);
    if (!out->rows)
        return spgo_fail_nomem(err, "pe.functions", b.table.count * sizeof *out->rows);
    bool is_x64 = image->machine == PE_MACHINE_AMD64;
    for (size_t i = 0; i < b.table.count; i++) {
        if (is_x64)
            add_x64(&b, i);
        else
            add_arm64(&b, i);
    }
    if (out->count > 0)
        qsort(out->rows, out->count, sizeof *out->rows, compare_extents);
    join_pieces(out);
    return SPGO_OK;
}

bool pe_function_next(const pe_extents *e, size_t *at, pe_function *out)
{
    if (*at >= e->count)
        return false;
    const pe_extent *first = &e->rows[*at];
    *out = (pe_function){.rva = first->function_rva, .pieces = first};
    while (*at < e->count && e->rows[*at].function_rva == out->rva) {
        ++*at;
        out->piece_count++;
    }
    return true;
}
