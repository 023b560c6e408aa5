/*
 * Where functions of several pieces are entered. DWARF has an attribute for it, but compilers leave
 * it out for functions that they split, and the order of the pieces says nothing; the symbol of the
 * function's name does.
 */
#include <symbol/entries.h>

#include <stdlib.h>
#include <string.h>

static int compare_names(spgo_str a, spgo_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_name(const void *a, const void *b)
{
    const symbol_procedure *p = *(const symbol_procedure *const *)a;
    const symbol_procedure *q = *(const symbol_procedure *const *)b;
    int order = compare_names(p->name, q->name);
    if (order != 0)
        return order;
    return p->entry_rva < q->entry_rva ? -1 : p->entry_rva > q->entry_rva;
}

static size_t first_of_name(const symbol_procedure *const *named, size_t count, spgo_str name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_names(named[mid]->name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_in_pieces(const symbol_procedure *p, uint32_t rva)
{
    for (uint32_t i = 0; i < p->piece_count; i++) {
        if (p->pieces[i].begin_rva <= rva && rva < p->pieces[i].end_rva)
            return true;
    }
    return false;
}

/* Whether there is a choice: pieces that touch have become one, so a single one may still be
 * entered in its middle. */
static bool is_split(const symbol_procedure *p)
{
    return p->name.len > 0 &&
           (p->piece_count > 1 || (p->piece_count == 1 && p->entry_rva != p->pieces[0].begin_rva));
}

static void move_entry(symbol_procedure *p, const symbol_procedure *const *named, size_t count)
{
    for (size_t i = first_of_name(named, count, p->name);
         i < count && compare_names(named[i]->name, p->name) == 0; i++) {
        if (is_in_pieces(p, named[i]->entry_rva)) {
            p->entry_rva = named[i]->entry_rva;
            return;
        }
    }
}

bool symbol_entries_by_name(symbol_found *backend, const symbol_found *tables)
{
    size_t first = 0;
    while (first < backend->count && !is_split(&backend->procedures[first]))
        first++;
    if (first == backend->count)
        return true;
    const symbol_procedure **named = calloc(tables->count + 1, sizeof *named);
    if (!named)
        return false;
    for (size_t i = 0; i < tables->count; i++)
        named[i] = &tables->procedures[i];
    qsort(named, tables->count, sizeof *named, by_name);
    for (size_t i = first; i < backend->count; i++) {
        if (is_split(&backend->procedures[i]))
            move_entry(&backend->procedures[i], named, tables->count);
    }
    free(named);
    return true;
}
