/*
 * Checks the rules of doc/formats/spd.md that go beyond what can be read: header, modules, function
 * tables. spd_verify_function.c has those about the inside of a function.
 */
#include "spd_verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HEADER_FLAGS_NEW = 4,    /* as the linker makes a file */
    HEADER_FLAGS_FILLED = 7, /* with counts */
    MODULE_FLAGS_NEW = 1,
    MODULE_FLAGS_FILLED = 7,
    SYMBOL_FLAGS_KNOWN = 0x6d
};

static void pass_on(verifier *v, const spd_finding *f)
{
    if (v->stopped)
        return;
    v->verdict->notes += f->severity == SPD_NOTE;
    v->verdict->warnings += f->severity == SPD_WARNING;
    v->verdict->damages += f->severity == SPD_DAMAGE;
    if (v->found && !v->found(v->ctx, f))
        v->stopped = true;
}

void spd_report(verifier *v, spd_severity severity, const char *rule, uint64_t offset,
                const char *fmt, ...)
{
    spd_finding f = {.severity = severity, .rule = rule, .offset = offset};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f.sentence, sizeof f.sentence, fmt, ap);
    va_end(ap);
    pass_on(v, &f);
}

void spd_check_word(verifier *v, uint64_t offset, const char *what, uint32_t word, uint32_t usual)
{
    if (word != usual)
        spd_report(v, SPD_NOTE, "word", offset,
                   "%s, of unknown meaning, is 0x%" PRIx32 "; it is 0x%" PRIx32
                   " in all known files",
                   what, word, usual);
}

void spd_check_bits(verifier *v, uint64_t offset, const char *what, uint32_t flags, uint32_t known)
{
    if (flags & ~known)
        spd_report(v, SPD_NOTE, "flags", offset,
                   "%s are 0x%" PRIx32 "; no known file has 0x%" PRIx32, what, flags,
                   flags & ~known);
}

/* ------------------------------------------------------------------ header */

/* Which bytes of other characters are hashed is not known. */
static bool is_ascii(spgo_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((uint8_t)s.ptr[i] >= 0x80)
            return false;
    }
    return true;
}

static void check_header_words(verifier *v)
{
    const spd *doc = v->doc;
    uint64_t at = doc->origin;
    spd_check_word(v, at + 0x08, "header word 08", doc->word_08, 0);
    spd_check_word(v, at + 0x0c, "header word 0c", doc->word_0c, 0);
    spd_check_word(v, at + 0x10, "header word 10", doc->word_10, 0);
    spd_check_word(v, at + 0x1c, "header word 1c", doc->word_1c, 0);
    spd_check_word(v, at + 0x20, "header word 20", doc->word_20, SPD_HEADER_SIZE);
    spd_check_word(v, at + 0x24, "header word 24", doc->word_24, 0);
    spd_check_word(v, at + 0x3c, "header word 3c", doc->word_3c, 0);
    spd_check_word(v, at + 0x40, "header word 40", doc->word_40, 0);
    spd_check_word(v, at + 0x44, "header word 44", doc->word_44, 0);
    spd_check_word(v, at + 0x70, "header word 70", doc->word_70, 0);
    if (doc->flags != HEADER_FLAGS_NEW && doc->flags != HEADER_FLAGS_FILLED)
        spd_report(v, SPD_NOTE, "flags", at + 0x14,
                   "the header's flags are 0x%" PRIx32 "; known files have %d or %d", doc->flags,
                   HEADER_FLAGS_NEW, HEADER_FLAGS_FILLED);
    if (!doc->raw.ptr && is_ascii(doc->image_name) &&
        spd_image_hash(doc->image_name) != doc->image_hash)
        spd_report(v, SPD_WARNING, "image-hash", at + 0x18,
                   "the image's hash is %08" PRIx32 "; that of its name is %08" PRIx32,
                   doc->image_hash, spd_image_hash(doc->image_name));
}

static void check_total(verifier *v, const char *rule, uint64_t offset, uint64_t stored,
                        uint64_t computed)
{
    if (stored != computed)
        spd_report(v, SPD_WARNING, rule, v->doc->origin + offset,
                   "the header says %" PRIu64 "; the blocks give %" PRIu64, stored, computed);
}

static spgo_code check_totals(verifier *v, spgo_error *err)
{
    const spd *doc = v->doc;
    spd_totals totals;
    SPGO_TRY(spd_compute_totals(doc, &totals, err));
    check_total(v, "hot-threshold", 0x5c, doc->hot_threshold, totals.hot_threshold);
    check_total(v, "dynamic-total", 0x64, doc->dynamic_total, totals.dynamic_total);
    /* A file that was never filled has none. */
    if (doc->static_total || totals.dynamic_total)
        check_total(v, "static-total", 0x6c, doc->static_total, totals.static_total);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ function table */

static void check_symbol(verifier *v, const spd_function *f)
{
    char label[SPD_LABEL_SIZE];
    uint64_t hash = spd_name_hash(SPD_HASH_START, f->name);
    bool is_static = f->symbol_flags & SPD_SYMBOL_STATIC;
    spd_check_bits(v, f->symbol_offset + 0x0c, "flags of a symbol", f->symbol_flags,
                   SYMBOL_FLAGS_KNOWN);
    spd_check_word(v, f->symbol_offset + 0x14, "word 14 of a symbol", f->symbol_word_14, 0);
    if (!is_static && f->name.len && hash != f->hash)
        spd_report(v, SPD_WARNING, "name-hash", f->symbol_offset,
                   "function %s has the hash %016" PRIx64 ", and its name %016" PRIx64,
                   spd_label(label, f), f->hash, hash);
    if (f->hash != f->blob_hash && !f->raw.ptr)
        spd_report(v, SPD_WARNING, "blob-hash", f->offset,
                   "function %s has the hash %016" PRIx64 " in the table and %016" PRIx64
                   " in the data",
                   spd_label(label, f), f->hash, f->blob_hash);
}

static void check_folding(verifier *v, const spd_module *m, const spd_function *f)
{
    char label[SPD_LABEL_SIZE];
    bool is_folded = f->symbol_flags & SPD_SYMBOL_FOLDED;
    const spd_function *into = is_folded ? spd_by_rva(m, f->folded_rva) : NULL;
    if (is_folded && (!into || into->rva != f->folded_rva))
        spd_report(v, SPD_WARNING, "folded", f->symbol_offset + 0x18,
                   "function %s is folded into one at RVA 0x%" PRIx32 ", where no function begins",
                   spd_label(label, f), f->folded_rva);
    if (!is_folded && f->folded_rva)
        spd_report(v, SPD_WARNING, "folded", f->symbol_offset + 0x18,
                   "function %s is not folded and names the RVA 0x%" PRIx32, spd_label(label, f),
                   f->folded_rva);
    if (is_folded && f->length)
        spd_report(v, SPD_WARNING, "folded", f->symbol_offset + 0x0c,
                   "function %s is folded and has code of its own", spd_label(label, f));
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static spgo_code check_ids(verifier *v, const spd_module *m, spgo_error *err)
{
    size_t n = 0;
    uint32_t *ids = calloc(m->function_count + 1, sizeof *ids);
    if (!ids)
        return spgo_fail_nomem(err, "spd.verify", m->function_count * sizeof *ids);
    for (size_t i = 0; i < m->function_count; i++) {
        if (m->functions[i].has_symbol)
            ids[n++] = m->functions[i].id;
    }
    qsort(ids, n, sizeof *ids, by_number);
    for (size_t i = 1; i < n; i++) {
        if (ids[i] == ids[i - 1])
            spd_report(v, SPD_WARNING, "function-id", m->offset,
                       "two functions have the id %" PRIu32, ids[i]);
    }
    free(ids);
    return SPGO_OK;
}

static void check_code(verifier *v, const spd_module *m)
{
    char label[SPD_LABEL_SIZE], other[SPD_LABEL_SIZE];
    for (size_t i = 1; i < m->by_rva_count; i++) {
        const spd_function *a = &m->functions[m->by_rva[i - 1]];
        const spd_function *b = &m->functions[m->by_rva[i]];
        if ((uint64_t)a->rva + a->length > b->rva)
            spd_report(v, SPD_WARNING, "code-overlap", b->offset + 0x20,
                       "the code of function %s begins at RVA 0x%" PRIx32
                       ", inside that of function %s",
                       spd_label(label, b), b->rva, spd_label(other, a));
    }
}

/* ------------------------------------------------------------------ modules */

static void check_module_words(verifier *v, const spd_module *m)
{
    uint64_t list = v->doc->origin + SPD_HEADER_SIZE + v->doc->gap_header.len;
    uint64_t entry = list + (uint64_t)(m - v->doc->modules) * SPD_LIST_ENTRY_SIZE;
    spd_check_word(v, entry + 0x04, "word 04 of a module in the list", m->list_word_04, 0);
    spd_check_word(v, entry + 0x08, "word 08 of a module in the list", m->list_word_08, 0);
    spd_check_word(v, m->offset + 0x18, "module word 18", m->word_18, 0);
    spd_check_word(v, m->offset + 0x20, "module word 20", m->word_20, 0);
    if (m->flags != MODULE_FLAGS_NEW && m->flags != MODULE_FLAGS_FILLED)
        spd_report(v, SPD_NOTE, "flags", m->offset + 0x04,
                   "the module's flags are 0x%" PRIx32 "; known files have %d or %d", m->flags,
                   MODULE_FLAGS_NEW, MODULE_FLAGS_FILLED);
    if (spd_bucket_count(m->function_count) != m->bucket_count)
        spd_report(v, SPD_NOTE, "bucket-count", m->offset + 0x2c,
                   "the table of %zu functions has %" PRIu32 " buckets; %" PRIu32 " are usual",
                   m->function_count, m->bucket_count, spd_bucket_count(m->function_count));
}

static spgo_code check_module(verifier *v, const spd_module *m, spgo_error *err)
{
    v->verdict->module_count++;
    v->verdict->function_count += m->function_count;
    if (!m->raw.ptr)
        check_module_words(v, m);
    SPGO_TRY(check_ids(v, m, err));
    for (size_t i = 0; i < m->function_count && !v->stopped; i++) {
        const spd_function *f = &m->functions[i];
        if (f->has_symbol) {
            check_symbol(v, f);
            check_folding(v, m, f);
        }
        if (!f->raw.ptr)
            spd_verify_function(v, f);
    }
    check_code(v, m);
    return SPGO_OK;
}

/* Room for what the largest function has. */
static spgo_code make_room(verifier *v, spgo_error *err)
{
    size_t blocks = 0, ranges = 0;
    for (size_t i = 0; i < v->doc->module_count; i++) {
        for (size_t k = 0; k < v->doc->modules[i].function_count; k++) {
            const spd_function *f = &v->doc->modules[i].functions[k];
            size_t n = 0;
            for (uint32_t b = 0; b < f->block_count; b++)
                n += f->blocks[b].range_count;
            ranges = n > ranges ? n : ranges;
            blocks = f->block_count > blocks ? f->block_count : blocks;
        }
    }
    v->sums = calloc(blocks + 1, sizeof *v->sums);
    v->ranges = calloc(ranges + 1, sizeof *v->ranges);
    return v->sums && v->ranges ? SPGO_OK : spgo_fail_nomem(err, "spd.verify", blocks + ranges);
}

static spgo_code check_document(verifier *v, spgo_error *err)
{
    const spd *doc = v->doc;
    for (size_t i = 0; i < doc->finding_count; i++)
        pass_on(v, &doc->findings[i]);
    if (doc->finding_total > doc->finding_count) {
        uint64_t more = doc->finding_total - doc->finding_count;
        spd_report(v, SPD_DAMAGE, "too-many", SPGO_NO_OFFSET,
                   "%" PRIu64 " more findings of reading the file were not kept", more);
    }
    check_header_words(v);
    if (!doc->damage_total) /* else they count what cannot be read */
        SPGO_TRY(check_totals(v, err));
    SPGO_TRY(make_room(v, err));
    for (size_t i = 0; i < doc->module_count && !v->stopped; i++)
        SPGO_TRY(check_module(v, &doc->modules[i], err));
    return SPGO_OK;
}

spgo_code spd_verify(const spd *doc, bool (*found)(void *ctx, const spd_finding *finding),
                     void *ctx, spd_verdict *verdict, spgo_error *err)
{
    verifier v = {.doc = doc, .found = found, .ctx = ctx, .verdict = verdict};
    *verdict = (spd_verdict){0};
    spgo_code code = check_document(&v, err);
    free(v.sums);
    free(v.ranges);
    return code;
}
