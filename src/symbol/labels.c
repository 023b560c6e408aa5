/* Names of places in code, as the linker kept them: more than the names of procedures. */
#include <symbol/labels.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

/* The full symbol table, which may only be in the debug file; false: there is none. */
static bool open_table(const symbol_image *image, elf_symbols *out)
{
    const spgo_span files[] = {image->debug, image->bytes};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        elf_sections sections;
        if (elf_sniff(files[i]) && elf_sections_open(files[i], &sections, NULL) == SPGO_OK &&
            elf_symbols_open(&sections, ELF_SECTION_TYPE_SYMBOLS, out, NULL) == SPGO_OK)
            return true;
    }
    return false;
}

static bool to_label(const symbol_image *image, const elf_symbol *s, symbol_label *out)
{
    uint64_t rva = s->value - image->code.base_addr;
    bool may_be_code = s->type == ELF_SYMBOL_FUNCTION || s->type == ELF_SYMBOL_NO_TYPE ||
                       s->type == ELF_SYMBOL_INDIRECT_FUNCTION;
    if (!may_be_code || s->name.len == 0 || !elf_symbol_has_place(s) || rva >= UINT32_MAX ||
        !code_is_executable(&image->code, (uint32_t)rva))
        return false;
    *out = (symbol_label){(uint32_t)rva, s->name};
    return true;
}

/* All that are labels; with out NULL they are only counted. */
static size_t list(const symbol_image *image, const elf_symbols *table, symbol_label *out)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        elf_symbol s = elf_symbol_at(table, i);
        symbol_label label;
        if (!to_label(image, &s, &label))
            continue;
        if (out)
            out[count] = label;
        count++;
    }
    return count;
}

static int by_rva(const void *a, const void *b)
{
    const symbol_label *x = a, *y = b;
    if (x->rva != y->rva)
        return x->rva < y->rva ? -1 : 1;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, len);
    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

spgo_code symbol_labels_list(const symbol_image *image, const symbol_label **out, size_t *count,
                             spgo_error *err)
{
    *out = NULL;
    *count = 0;
    elf_symbols table;
    if (image->is_pe || !open_table(image, &table))
        return SPGO_OK;
    size_t wanted = list(image, &table, NULL);
    symbol_label *rows = arena_push(image->mem, wanted, sizeof *rows);
    if (!rows)
        return spgo_fail_nomem(err, "symbol.labels", wanted * sizeof *rows);
    *count = list(image, &table, rows);
    if (*count > 0)
        qsort(rows, *count, sizeof *rows, by_rva);
    *out = rows;
    return SPGO_OK;
}
