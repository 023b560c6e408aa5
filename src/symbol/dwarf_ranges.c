/*
 * Where the code of a DIE is. Lists of ranges are read here and not by libdw, which would go
 * through a list that only changes its base address to its end, however many DIEs share it.
 */
#include <symbol/dwarf_internal.h>

#if SPGO_HAVE_DWARF

/* What the entries of a list count from. */
typedef struct list_reader {
    dbg_file *f;
    reader r;
    uint64_t base_addr;
    unsigned address_size; /* 4 or 8 */
    spgo_span addrs;       /* the unit's part of .debug_addr */
} list_reader;

/* Ranges of code that the linker has left out start at 0 or 1, or outside of the image. */
static bool to_extent(const dbg_file *f, uint64_t begin, uint64_t end, flow_extent *out)
{
    const code_image *code = &f->image->code;
    if (begin == 0 || begin >= end || begin < code->base_addr)
        return false;
    const uint64_t begin_rva = begin - code->base_addr, end_rva = end - code->base_addr;
    if (end_rva >= UINT32_MAX || !code_is_executable(code, (uint32_t)begin_rva))
        return false;
    *out = (flow_extent){(uint32_t)begin_rva, (uint32_t)end_rva};
    return true;
}

static void add_extent(dbg_file *f, uint64_t begin, uint64_t end)
{
    flow_extent extent;
    if (!to_extent(f, begin, end, &extent))
        return;
    void *list = f->extents;
    f->no_memory |= !dbg_room(&list, f->extent_count, &f->extent_capacity, sizeof extent);
    f->extents = list;
    if (!f->no_memory)
        f->extents[f->extent_count++] = extent;
}

static bool take_budget(dbg_file *f)
{
    if (f->no_memory || f->ranges_left == 0)
        return false;
    f->ranges_left--;
    return true;
}

/* ------------------------------------------------------------------ .debug_ranges */

static void read_list_v2(list_reader *l)
{
    const uint64_t new_base = l->address_size == 8 ? UINT64_MAX : UINT32_MAX;
    while (take_budget(l->f)) {
        const uint64_t begin = reader_ptr(&l->r, l->address_size);
        const uint64_t end = reader_ptr(&l->r, l->address_size);
        if (l->r.code != SPGO_OK || (begin == 0 && end == 0))
            return;
        if (begin == new_base)
            l->base_addr = end;
        else
            add_extent(l->f, l->base_addr + begin, l->base_addr + end);
    }
}

/* ------------------------------------------------------------------ .debug_rnglists */

static uint64_t take_address(list_reader *l)
{
    return reader_ptr(&l->r, l->address_size);
}

static uint64_t take_address_index(list_reader *l)
{
    const uint64_t index = take_uleb(&l->r);
    if (index >= l->addrs.len / l->address_size) {
        reader_fail(&l->r, SPGO_CORRUPT, reader_offset(&l->r));
        return 0;
    }
    const uint8_t *p = l->addrs.ptr + index * l->address_size;
    return l->address_size == 8 ? load_u64(p) : load_u32(p);
}

/* False at the end of the list. */
static bool take_entry_v5(list_reader *l, uint64_t *begin, uint64_t *end)
{
    *begin = *end = 0;
    switch (reader_u8(&l->r)) {
    case DW_RLE_base_addressx:
        l->base_addr = take_address_index(l);
        break;
    case DW_RLE_base_address:
        l->base_addr = take_address(l);
        break;
    case DW_RLE_startx_endx:
        *begin = take_address_index(l);
        *end = take_address_index(l);
        break;
    case DW_RLE_startx_length:
        *begin = take_address_index(l);
        *end = *begin + take_uleb(&l->r);
        break;
    case DW_RLE_offset_pair:
        *begin = l->base_addr + take_uleb(&l->r);
        *end = l->base_addr + take_uleb(&l->r);
        break;
    case DW_RLE_start_end:
        *begin = take_address(l);
        *end = take_address(l);
        break;
    case DW_RLE_start_length:
        *begin = take_address(l);
        *end = *begin + take_uleb(&l->r);
        break;
    default:
        return false;
    }
    return l->r.code == SPGO_OK;
}

static void read_list_v5(list_reader *l)
{
    uint64_t begin, end;
    while (take_budget(l->f) && take_entry_v5(l, &begin, &end))
        add_extent(l->f, begin, end);
}

/* ------------------------------------------------------------------ a DIE */

static spgo_span addresses_of(const dbg_file *f, Dwarf_Die *unit_die)
{
    const uint64_t base_off = dbg_number(unit_die, DW_AT_addr_base);
    spgo_span all = f->addr_section;
    return base_off < all.len ? (spgo_span){all.ptr + base_off, all.len - (size_t)base_off}
                              : (spgo_span){0};
}

/* DW_FORM_rnglistx: the attribute is an index into offsets at the unit's DW_AT_rnglists_base, and
 * what is there counts from that place. libdw resolves it only for itself. */
static bool list_by_index(const dbg_file *f, Dwarf_Die *unit_die, const Dwarf_Attribute *a,
                          unsigned offset_size, uint64_t *off)
{
    const uint8_t *info_end = f->info_section.ptr + f->info_section.len;
    const uint8_t *value = a->valp;
    if (!value || value < f->info_section.ptr || value >= info_end)
        return false;
    reader attribute = reader_from((spgo_span){value, (size_t)(info_end - value)}, 0);
    const uint64_t index = take_uleb(&attribute);
    const uint64_t base_off = dbg_number(unit_die, DW_AT_rnglists_base);
    reader r = reader_from(f->rnglists_section, 0);
    reader_seek(&r, base_off);
    reader_skip(&r, index > UINT32_MAX ? UINT64_MAX : index * offset_size);
    *off = base_off + reader_ptr(&r, offset_size);
    return r.code == SPGO_OK && attribute.code == SPGO_OK;
}

static void read_list(dbg_file *f, const dbg_unit *unit, Dwarf_Attribute *a)
{
    Dwarf_Half version;
    uint8_t address_size, offset_size;
    Dwarf_Word off;
    Dwarf_Addr base_addr;
    Dwarf_Die unit_die = unit->die;
    if (dwarf_cu_info(unit_die.cu, &version, NULL, NULL, NULL, NULL, &address_size, &offset_size) !=
            0 ||
        (address_size != 4 && address_size != 8))
        return;
    if (dwarf_whatform(a) == DW_FORM_rnglistx ? !list_by_index(f, &unit_die, a, offset_size, &off)
                                              : dwarf_formudata(a, &off) != 0)
        return;
    if (dwarf_lowpc(&unit_die, &base_addr) != 0)
        base_addr = 0;
    list_reader l = {.f = f,
                     .r = reader_from(version < 5 ? f->ranges_section : f->rnglists_section, 0),
                     .base_addr = base_addr,
                     .address_size = address_size,
                     .addrs = addresses_of(f, &unit_die)};
    reader_seek(&l.r, off);
    if (version < 5)
        read_list_v2(&l);
    else
        read_list_v5(&l);
}

/* Those of a .dwo file are libdw's business: its sections are elsewhere. */
static void read_split(dbg_file *f, Dwarf_Die *die)
{
    Dwarf_Addr base = 0, begin, end;
    ptrdiff_t at = 0;
    while (take_budget(f) && (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0)
        add_extent(f, begin, end);
}

void dbg_extents(dbg_file *f, const dbg_unit *unit, Dwarf_Die *die)
{
    Dwarf_Attribute a;
    Dwarf_Addr begin, end;
    f->extent_count = 0;
    if (die->cu != unit->die.cu)
        read_split(f, die);
    else if (dwarf_attr(die, DW_AT_ranges, &a))
        read_list(f, unit, &a);
    else if (dwarf_lowpc(die, &begin) == 0 && dwarf_highpc(die, &end) == 0)
        add_extent(f, begin, end);
}

#else
typedef int dwarf_ranges_are_not_built;
#endif
