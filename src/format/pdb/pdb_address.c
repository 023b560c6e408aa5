/*
 * Addresses: section and offset in the image as linked, RVAs in the image as shipped, and the way
 * between them, which an OMAP makes longer. Of what starts at an OMAP row all bytes up to the next
 * row have moved together.
 */
#include <format/pdb/pdb_internal.h>

size_t pdb_section_count(const pdb *p)
{
    return p->sections.count;
}

const pdb_section *pdb_get_section(const pdb *p, size_t i)
{
    return i < p->sections.count ? &p->sections.rows[i] : NULL;
}

size_t pdb_original_section_count(const pdb *p)
{
    return p->original_sections.count;
}

const pdb_section *pdb_get_original_section(const pdb *p, size_t i)
{
    return i < p->original_sections.count ? &p->original_sections.rows[i] : NULL;
}

/* The RVA in the image as linked. */
static uint32_t linked_rva(const pdb *p, uint16_t section, uint32_t off)
{
    if (section == 0 || section > p->original_sections.count)
        return PDB_NO_RVA;
    uint32_t start = p->original_sections.rows[section - 1].rva;
    return off < PDB_NO_RVA - start ? start + off : PDB_NO_RVA;
}

/* The number of rows that start at or before rva. */
static size_t rows_before(const pdb_omaps *map, uint32_t rva)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (map->rows[mid].rva <= rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Nowhere: 0, or what no image reaches; Syzygy writes 0x80000000. */
static bool is_nowhere(uint32_t to)
{
    return to == 0 || to >= 0x80000000u;
}

static uint32_t moved(const pdb_omaps *map, uint32_t rva)
{
    size_t n = rows_before(map, rva);
    if (n == 0 || is_nowhere(map->rows[n - 1].to))
        return PDB_NO_RVA;
    uint32_t to = map->rows[n - 1].to, distance = rva - map->rows[n - 1].rva;
    return distance < PDB_NO_RVA - to ? to + distance : PDB_NO_RVA;
}

/*
 * Where the way back says that a linked byte is. Syzygy stretches code and sends what it cannot
 * place byte by byte nowhere, although rows of the way back run on over it.
 */
static uint32_t find_source(const pdb *p, uint32_t linked)
{
    enum { ROWS_MAX = 16 }; /* of one source: one for each instruction that was put in there */
    size_t low = 0, high = p->source_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->sources[mid].linked <= linked)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i > 0 && low - i < ROWS_MAX; i--) {
        const pdb_source *s = &p->sources[i - 1];
        if (linked - s->linked < s->length)
            return s->rva + (linked - s->linked);
    }
    return PDB_NO_RVA;
}

static uint32_t shipped_rva(const pdb *p, uint32_t linked)
{
    const pdb_omaps *map = &p->from_source;
    size_t n = rows_before(map, linked);
    if (n > 0 && map->rows[n - 1].to >= 0x80000000u)
        return find_source(p, linked);
    return moved(map, linked);
}

uint32_t pdb_rva(const pdb *p, uint16_t section, uint32_t off)
{
    uint32_t rva = linked_rva(p, section, off);
    if (rva == PDB_NO_RVA || p->from_source.count == 0)
        return rva;
    return shipped_rva(p, rva);
}

bool pdb_section_offset(const pdb *p, uint32_t rva, uint16_t *section, uint32_t *off)
{
    if (p->info.has_omap)
        rva = moved(&p->to_source, rva);
    if (rva == PDB_NO_RVA)
        return false;
    for (size_t i = 0; i < p->original_sections.count && i < UINT16_MAX; i++) {
        const pdb_section *s = &p->original_sections.rows[i];
        uint32_t size = s->virtual_size ? s->virtual_size : s->raw_size;
        if (rva >= s->rva && rva - s->rva < size) {
            *section = (uint16_t)(i + 1);
            *off = rva - s->rva;
            return true;
        }
    }
    return false;
}

/*
 * The shipped bytes from `to` on as far as they come from the linked ones of [rva, end). The way
 * back is asked, because a tool may have stretched a piece, so that it is longer than it was.
 */
static uint32_t shipped_end(const pdb *p, uint32_t to, uint32_t rva, uint32_t end)
{
    const pdb_omaps *back = &p->to_source;
    uint32_t at = to;
    for (size_t n = rows_before(back, to); n > 0 && n <= back->count; n++) {
        uint32_t linked = moved(back, at);
        if (linked < rva || linked >= end)
            break;
        uint32_t row_end = n < back->count ? back->rows[n].rva : PDB_NO_RVA;
        if (row_end - at >= end - linked)
            return at + (end - linked);
        at = row_end;
    }
    return at;
}

size_t pdb_ranges(const pdb *p, uint16_t section, uint32_t off, uint32_t length, pdb_range *out,
                  size_t max)
{
    uint32_t rva = linked_rva(p, section, off);
    if (rva == PDB_NO_RVA || length == 0 || length > PDB_NO_RVA - rva)
        return 0;
    const pdb_omaps *map = &p->from_source;
    pdb_range last = {rva, length, off};
    size_t count = 0;
    if (map->count == 0) {
        if (max > 0)
            out[0] = last;
        return 1;
    }
    const uint32_t start = rva, end = rva + length;
    for (size_t n = rows_before(map, rva); rva < end; n++) {
        uint32_t stop = n < map->count && map->rows[n].rva < end ? map->rows[n].rva : end;
        uint32_t to = stop > rva ? shipped_rva(p, rva) : PDB_NO_RVA;
        bool known = count > 0 && to >= last.rva && to - last.rva < last.length;
        uint32_t to_end = to;
        if (to != PDB_NO_RVA && !known)
            to_end = p->to_source.count ? shipped_end(p, to, start, end) : to + (stop - rva);
        if (to_end != to) {
            last = (pdb_range){to, to_end - to, off + (rva - start)};
            if (count < max)
                out[count] = last;
            count++;
        }
        rva = stop;
    }
    return count;
}

const pdb_contribution *pdb_contribution_at(const pdb *p, uint16_t section, uint32_t off)
{
    size_t low = 0, high = p->contribution_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const pdb_contribution *c = &p->contributions[mid];
        if (c->section < section || (c->section == section && c->off <= off))
            low = mid + 1;
        else
            high = mid;
    }
    while (low > 0 && p->contributions[low - 1].size == 0)
        low--; /* empty ones stand in the middle of others */
    if (low == 0)
        return NULL;
    const pdb_contribution *c = &p->contributions[low - 1];
    return c->section == section && off - c->off < c->size ? c : NULL;
}
