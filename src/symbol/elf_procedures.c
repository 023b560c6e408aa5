/*
 * Procedures of an ELF image without its debug information: by its symbols, and where it has none
 * by .eh_frame, which has the extent of nearly every function of the machines of interest.
 */
#include <symbol/symbol_internal.h>

#include <stdlib.h>
#include <string.h>

#include <symbol/dwarf_leb.h>

static const char where[] = "elf.procedures";

/* A name for a place; size 0: not told. */
typedef struct named_place {
    uint32_t rva, size_bytes;
    spgo_str name;
    uint8_t rank; /* of names for one place the lowest counts */
    bool is_part; /* the cold part of another function, whose name is before ".cold" */
} named_place;

typedef struct place_list {
    named_place *rows;
    size_t count, capacity;
} place_list;

typedef struct extent_list {
    flow_extent *rows; /* by begin */
    size_t count, capacity;
} extent_list;

/* Room for one more; false without memory. */
static bool make_room(void **rows, size_t count, size_t *capacity, size_t row_size)
{
    if (count < *capacity)
        return true;
    size_t bigger = *capacity ? 2 * *capacity : 256;
    void *room = realloc(*rows, bigger * row_size);
    if (!room)
        return false;
    *rows = room;
    *capacity = bigger;
    return true;
}

/* ------------------------------------------------------------------ symbols */

static bool to_code_rva(const symbol_image *image, uint64_t addr, uint32_t *rva)
{
    const uint64_t value = addr - image->code.base_addr;
    *rva = (uint32_t)value;
    return addr >= image->code.base_addr && value < UINT32_MAX &&
           code_is_executable(&image->code, *rva);
}

static bool ends_with(spgo_str s, const char *suffix)
{
    const size_t len = strlen(suffix);
    return s.len > len && memcmp(s.ptr + s.len - len, suffix, len) == 0;
}

/* Assembly code may leave the type of its functions out; what is local there are labels. */
static bool is_function(const elf_symbol *s)
{
    return s->type == ELF_SYMBOL_FUNCTION || s->type == ELF_SYMBOL_INDIRECT_FUNCTION ||
           (s->type == ELF_SYMBOL_NO_TYPE && s->bind != ELF_BIND_LOCAL);
}

static uint8_t rank_of(const elf_symbol *s)
{
    uint8_t by_bind = s->bind == ELF_BIND_GLOBAL ? 0 : s->bind == ELF_BIND_WEAK ? 1 : 2;
    return s->type == ELF_SYMBOL_NO_TYPE ? (uint8_t)(by_bind + 3) : by_bind;
}

static bool add_symbols(const symbol_image *image, const elf_symbols *table, place_list *out)
{
    for (size_t i = 0; i < table->count; i++) {
        elf_symbol s = elf_symbol_at(table, i);
        uint32_t rva;
        if (s.name.len == 0 || !elf_symbol_has_place(&s) || !is_function(&s) ||
            !to_code_rva(image, s.value, &rva))
            continue;
        void *rows = out->rows;
        bool has_room = make_room(&rows, out->count, &out->capacity, sizeof *out->rows);
        out->rows = rows;
        if (!has_room)
            return false;
        const uint32_t room_bytes = UINT32_MAX - rva;
        out->rows[out->count++] = (named_place){
            .rva = rva,
            .size_bytes = s.size_bytes < room_bytes ? (uint32_t)s.size_bytes : room_bytes,
            .name = s.name,
            .rank = rank_of(&s),
            .is_part = s.type == ELF_SYMBOL_FUNCTION && ends_with(s.name, ".cold")};
    }
    return true;
}

/* The full table, which may only be in the debug file, else the dynamic one. */
static spgo_code read_symbols(const symbol_image *image, place_list *out, spgo_error *err)
{
    const uint32_t types[] = {ELF_SECTION_TYPE_SYMBOLS, ELF_SECTION_TYPE_DYNAMIC_SYMBOLS};
    const spgo_span files[] = {image->debug, image->bytes};
    for (size_t i = 0; i < 4; i++) {
        elf_sections sections;
        elf_symbols table;
        const spgo_span file = files[i % 2];
        if (!elf_sniff(file) || elf_sections_open(file, &sections, NULL) != SPGO_OK ||
            elf_symbols_open(&sections, types[i / 2], &table, NULL) != SPGO_OK)
            continue;
        if (!add_symbols(image, &table, out))
            return spgo_fail_nomem(err, where, 2 * out->capacity * sizeof *out->rows);
        if (out->count > 0)
            return SPGO_OK;
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ .eh_frame */

enum { /* encodings of pointers: how they are stored, and what they count from */
       ENCODING_ABSOLUTE = 0x00,
       ENCODING_ULEB = 0x01,
       ENCODING_U16 = 0x02,
       ENCODING_U32 = 0x03,
       ENCODING_U64 = 0x04,
       ENCODING_SLEB = 0x09,
       ENCODING_S16 = 0x0a,
       ENCODING_S32 = 0x0b,
       ENCODING_S64 = 0x0c,
       ENCODING_FORMAT_MASK = 0x0f,
       ENCODING_FROM_HERE = 0x10,
       ENCODING_BASE_MASK = 0xf0, /* with the flag that the pointer is indirect */
       ENCODING_OMITTED = 0xff,
       AUGMENTATION_MAX = 16
};

typedef struct eh_frame {
    spgo_span bytes;
    uint64_t addr;
    unsigned pointer_size;
    uint64_t cie_off; /* of the entry that `encoding` was read from */
    uint8_t encoding; /* of the addresses of its FDEs; ENCODING_OMITTED: not to be read */
} eh_frame;

static uint64_t take_encoded(const eh_frame *e, reader *r, uint8_t encoding)
{
    const uint64_t here_addr = e->addr + reader_offset(r);
    uint64_t value = 0;
    switch (encoding & ENCODING_FORMAT_MASK) {
    case ENCODING_ABSOLUTE:
        value = reader_ptr(r, e->pointer_size);
        break;
    case ENCODING_ULEB:
        value = take_uleb(r);
        break;
    case ENCODING_U16:
        value = reader_u16(r);
        break;
    case ENCODING_U32:
        value = reader_u32(r);
        break;
    case ENCODING_U64:
    case ENCODING_S64:
        value = reader_u64(r);
        break;
    case ENCODING_SLEB:
        value = (uint64_t)take_sleb(r);
        break;
    case ENCODING_S16:
        value = (uint64_t)(int64_t)(int16_t)reader_u16(r);
        break;
    case ENCODING_S32:
        value = (uint64_t)(int64_t)(int32_t)reader_u32(r);
        break;
    default:
        reader_fail(r, SPGO_UNSUPPORTED, reader_offset(r));
        break;
    }
    if ((encoding & ENCODING_BASE_MASK) == ENCODING_FROM_HERE)
        value += here_addr;
    else if ((encoding & ENCODING_BASE_MASK) != ENCODING_ABSOLUTE)
        reader_fail(r, SPGO_UNSUPPORTED, reader_offset(r));
    return e->pointer_size == 4 ? (uint32_t)value : value;
}

static reader reader_at(const eh_frame *e, uint64_t off)
{
    reader r = reader_from(e->bytes, 0);
    reader_seek(&r, off);
    return r;
}

/* The augmentation, a text of letters, says what stands in the data that follow. */
static uint8_t encoding_of_augmentation(const eh_frame *e, reader *r, const char *letters)
{
    (void)take_uleb(r); /* size of the data */
    for (const char *p = letters + 1; *p && r->code == SPGO_OK; p++) {
        if (*p == 'R')
            return reader_u8(r);
        if (*p == 'L') {
            reader_skip(r, 1);
        } else if (*p == 'P') {
            const uint8_t encoding = reader_u8(r);
            /* only its size matters: it may count from anywhere */
            (void)take_encoded(e, r, encoding & ENCODING_FORMAT_MASK);
        } else if (*p != 'S' && *p != 'B' && *p != 'G') {
            return ENCODING_OMITTED;
        }
    }
    return ENCODING_ABSOLUTE;
}

static uint8_t read_cie(const eh_frame *e, uint64_t off)
{
    char letters[AUGMENTATION_MAX + 1] = {0};
    reader all = reader_at(e, off);
    uint64_t length = reader_u32(&all);
    reader r = reader_sub(&all, length == UINT32_MAX ? reader_u64(&all) : length);
    if (reader_u32(&r) != 0)
        return ENCODING_OMITTED;
    const uint8_t version = reader_u8(&r);
    for (size_t i = 0; i <= AUGMENTATION_MAX; i++) {
        char letter = (char)reader_u8(&r);
        if (letter == '\0')
            break;
        if (i == AUGMENTATION_MAX)
            return ENCODING_OMITTED;
        letters[i] = letter;
    }
    (void)take_uleb(&r); /* alignments of code and data */
    (void)take_sleb(&r);
    if (version == 1)
        (void)reader_u8(&r); /* the register of the return address */
    else
        (void)take_uleb(&r);
    uint8_t encoding = ENCODING_ABSOLUTE;
    if (letters[0] == 'z')
        encoding = encoding_of_augmentation(e, &r, letters);
    else if (letters[0] != '\0')
        encoding = ENCODING_OMITTED;
    return r.code == SPGO_OK ? encoding : ENCODING_OMITTED;
}

/* r stands behind the entry's length. */
static bool read_fde(eh_frame *e, reader *r, uint64_t *begin_addr, uint64_t *size_bytes)
{
    const uint64_t id_off = reader_offset(r);
    const uint32_t to_cie = reader_u32(r);
    if (to_cie == 0 || to_cie > id_off)
        return false;
    if (id_off - to_cie != e->cie_off) {
        e->cie_off = id_off - to_cie;
        e->encoding = read_cie(e, e->cie_off);
    }
    if (e->encoding == ENCODING_OMITTED)
        return false;
    *begin_addr = take_encoded(e, r, e->encoding);
    *size_bytes = take_encoded(e, r, e->encoding & ENCODING_FORMAT_MASK);
    return r->code == SPGO_OK && *size_bytes > 0;
}

static int by_begin(const void *a, const void *b)
{
    const flow_extent *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->end_rva < y->end_rva ? -1 : x->end_rva > y->end_rva;
}

static bool add_extent(const symbol_image *image, uint64_t addr, uint64_t size_bytes,
                       extent_list *out)
{
    uint32_t rva;
    if (!to_code_rva(image, addr, &rva) || size_bytes >= UINT32_MAX - rva)
        return true;
    void *rows = out->rows;
    bool has_room = make_room(&rows, out->count, &out->capacity, sizeof *out->rows);
    out->rows = rows;
    if (has_room)
        out->rows[out->count++] = (flow_extent){rva, rva + (uint32_t)size_bytes};
    return has_room;
}

static spgo_code read_eh_frame(const symbol_image *image, extent_list *out, diag *d,
                               spgo_error *err)
{
    elf_sections sections;
    elf_section section;
    if (image->elf.is_big_endian || elf_sections_open(image->bytes, &sections, NULL) != SPGO_OK ||
        !elf_section_find(&sections, ".eh_frame", &section))
        return SPGO_OK;
    eh_frame e = {section.data, section.addr, image->elf.is_64bit ? 8 : 4, UINT64_MAX, 0};
    reader all = reader_from(e.bytes, 0);
    while (reader_left(&all) >= 4) {
        uint64_t begin_addr, size_bytes, length = reader_u32(&all);
        if (length == UINT32_MAX)
            length = reader_u64(&all);
        reader entry = reader_sub(&all, length); /* an empty one ends an object file's part */
        if (read_fde(&e, &entry, &begin_addr, &size_bytes) &&
            !add_extent(image, begin_addr, size_bytes, out))
            return spgo_fail_nomem(err, where, 2 * out->capacity * sizeof *out->rows);
    }
    if (all.code != SPGO_OK)
        diag_add(d, all.code, section.offset + all.bad_off,
                 ".eh_frame is damaged: extents of functions may be missing");
    if (out->count > 0)
        qsort(out->rows, out->count, sizeof *out->rows, by_begin);
    return SPGO_OK;
}

/* Tables of jumps into other images have unwind entries, but are no functions of this one. */
static bool is_jump_table(spgo_str name)
{
    return (name.len >= 4 && memcmp(name.ptr, ".plt", 4) == 0) ||
           (name.len == 5 && memcmp(name.ptr, ".iplt", 5) == 0);
}

static spgo_code list_sections(const symbol_image *image, extent_list *all, extent_list *tables,
                               spgo_error *err)
{
    elf_sections sections;
    if (elf_sections_open(image->bytes, &sections, NULL) != SPGO_OK)
        return SPGO_OK;
    for (size_t i = 0; i < sections.count; i++) {
        const elf_section s = elf_section_at(&sections, i);
        if (!(s.flags & ELF_SECTION_EXECUTE) || s.size_bytes == 0)
            continue;
        if (!add_extent(image, s.addr, s.size_bytes, all) ||
            (is_jump_table(s.name) && !add_extent(image, s.addr, s.size_bytes, tables)))
            return spgo_fail_nomem(err, where, sections.count * sizeof *all->rows);
    }
    if (all->count > 0)
        qsort(all->rows, all->count, sizeof *all->rows, by_begin);
    if (tables->count > 0)
        qsort(tables->rows, tables->count, sizeof *tables->rows, by_begin);
    return SPGO_OK;
}

/* The extent that starts last at or before an RVA; NULL: none. */
static const flow_extent *extent_before(const extent_list *list, uint32_t rva)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->rows[middle].begin_rva <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &list->rows[low - 1] : NULL;
}

/* ------------------------------------------------------------------ putting them together */

static int compare_names(spgo_str a, spgo_str b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

static int by_place(const void *a, const void *b)
{
    const named_place *x = a, *y = b;
    if (x->rva != y->rva)
        return x->rva < y->rva ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return compare_names(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const named_place *x = *(named_place *const *)a, *y = *(named_place *const *)b;
    int order = compare_names(x->name, y->name);
    return order ? order : x->rva < y->rva ? -1 : x->rva > y->rva;
}

/* Where the size is not told: up to the end of the unwind entry that holds the place, or to the
 * next name or entry, or to the end of the section or segment. */
static uint32_t guess_end(const symbol_image *image, const place_list *places, size_t index,
                          const extent_list *extents, const extent_list *sections)
{
    const uint32_t rva = places->rows[index].rva;
    uint64_t end_rva = (uint64_t)rva + code_bytes_at(&image->code, rva).len;
    const flow_extent *section = extent_before(sections, rva);
    if (section && section->end_rva > rva && section->end_rva < end_rva)
        end_rva = section->end_rva;
    const flow_extent *e = extent_before(extents, rva);
    if (e && e->end_rva > rva && e->end_rva < end_rva)
        end_rva = e->end_rva;
    const flow_extent *next_extent = e ? e + 1 : extents->rows;
    if (next_extent && next_extent < extents->rows + extents->count &&
        next_extent->begin_rva < end_rva)
        end_rva = next_extent->begin_rva;
    while (index < places->count && places->rows[index].rva == rva)
        index++;
    if (index < places->count && places->rows[index].rva < end_rva)
        end_rva = places->rows[index].rva;
    return end_rva < UINT32_MAX ? (uint32_t)end_rva : UINT32_MAX;
}

/* The one place of a name among pointers sorted by name; NULL: none, or more than one. */
static named_place *find_only(named_place **sorted, size_t count, spgo_str name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_names(sorted[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || compare_names(sorted[low]->name, name) != 0 ||
        (low + 1 < count && compare_names(sorted[low + 1]->name, name) == 0))
        return NULL;
    return sorted[low];
}

typedef struct builder {
    const symbol_image *image;
    place_list places;
    extent_list extents;
    extent_list sections, jump_tables; /* of code */
    named_place **by_name;             /* those that are no parts */
    uint32_t *part_of;                 /* by place: 1 + the index of its cold part; 0: none */
    symbol_found *out;
} builder;

static bool add_procedure(builder *b, const named_place *p, const flow_extent *pieces,
                          uint32_t piece_count, uint32_t flags)
{
    flow_extent *kept = arena_push(b->image->mem, piece_count, sizeof *kept);
    if (!kept)
        return false;
    memcpy(kept, pieces, piece_count * sizeof *kept);
    const symbol_procedure made = {.entry_rva = p ? p->rva : pieces[0].begin_rva,
                                   .name = p ? p->name : (spgo_str){0},
                                   .pieces = kept,
                                   .piece_count = piece_count,
                                   .flags = flags,
                                   .thunk_target_rva = UINT32_MAX};
    return symbol_found_add(b->out, &made);
}

/* Which functions have a cold part elsewhere: by name, where that is the name of one only. */
static bool find_parts(builder *b)
{
    const place_list *places = &b->places;
    size_t count = 0;
    b->by_name = calloc(places->count + 1, sizeof *b->by_name);
    b->part_of = calloc(places->count + 1, sizeof *b->part_of);
    if (!b->by_name || !b->part_of)
        return false;
    for (size_t i = 0; i < places->count; i++) {
        if (!places->rows[i].is_part)
            b->by_name[count++] = &places->rows[i];
    }
    qsort(b->by_name, count, sizeof *b->by_name, by_name);
    for (size_t i = 0; i < places->count; i++) {
        named_place *part = &places->rows[i];
        if (!part->is_part)
            continue;
        spgo_str name = {part->name.ptr, part->name.len - strlen(".cold")};
        named_place *whole = find_only(b->by_name, count, name);
        size_t at = whole ? (size_t)(whole - places->rows) : 0;
        /* Two statics of one name have two cold parts of one name: neither is told apart. */
        part->is_part = whole && part->size_bytes > 0 && whole->size_bytes > 0 && !b->part_of[at];
        if (part->is_part)
            b->part_of[at] = (uint32_t)i + 1;
    }
    return true;
}

static bool add_named(builder *b)
{
    for (size_t i = 0; i < b->places.count; i++) {
        const named_place *p = &b->places.rows[i];
        flow_extent pieces[2];
        uint32_t count = 1, flags = 0;
        if (p->is_part)
            continue;
        pieces[0] = (flow_extent){p->rva, p->rva + p->size_bytes};
        if (p->size_bytes == 0) {
            flags = SYMBOL_SIZE_GUESSED;
            pieces[0].end_rva = guess_end(b->image, &b->places, i, &b->extents, &b->sections);
        }
        if (b->part_of[i]) {
            const named_place *part = &b->places.rows[b->part_of[i] - 1];
            pieces[1] = (flow_extent){part->rva, part->rva + part->size_bytes};
            count = 2;
            if (pieces[1].begin_rva < pieces[0].begin_rva) {
                flow_extent swapped = pieces[0];
                pieces[0] = pieces[1];
                pieces[1] = swapped;
            }
        }
        if (pieces[0].begin_rva < pieces[0].end_rva && !add_procedure(b, p, pieces, count, flags))
            return false;
    }
    return true;
}

static bool is_in_jump_table(const builder *b, uint32_t rva)
{
    const flow_extent *e = extent_before(&b->jump_tables, rva);
    return e && rva < e->end_rva;
}

/* Entries of .eh_frame whose start is in nothing that has a name. */
static bool add_nameless(builder *b)
{
    size_t at = 0;
    uint32_t named_end_rva = 0;
    for (size_t i = 0; i < b->extents.count; i++) {
        const flow_extent *e = &b->extents.rows[i];
        for (; at < b->places.count && b->places.rows[at].rva <= e->begin_rva; at++) {
            const named_place *p = &b->places.rows[at];
            uint32_t end_rva = p->size_bytes ? p->rva + p->size_bytes : p->rva + 1;
            if (end_rva > named_end_rva)
                named_end_rva = end_rva;
        }
        if (e->begin_rva >= named_end_rva && !is_in_jump_table(b, e->begin_rva) &&
            !add_procedure(b, NULL, e, 1, SYMBOL_SIZE_GUESSED))
            return false;
    }
    return true;
}

spgo_code symbol_elf_procedures(const symbol_image *image, symbol_found *out, diag *d,
                                spgo_error *err)
{
    builder b = {.image = image, .out = out};
    spgo_code code = read_symbols(image, &b.places, err);
    if (code == SPGO_OK)
        code = read_eh_frame(image, &b.extents, d, err);
    if (code == SPGO_OK)
        code = list_sections(image, &b.sections, &b.jump_tables, err);
    if (code == SPGO_OK && b.places.count > 0)
        qsort(b.places.rows, b.places.count, sizeof *b.places.rows, by_place);
    if (code == SPGO_OK && !(find_parts(&b) && add_named(&b) && add_nameless(&b)))
        code = spgo_fail_nomem(err, where, b.places.count * sizeof *b.places.rows);
    if (code == SPGO_OK && b.places.count == 0 && b.extents.count == 0)
        code = spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                         "the image has neither symbols of functions nor .eh_frame");
    free(b.places.rows);
    free(b.extents.rows);
    free(b.sections.rows);
    free(b.jump_tables.rows);
    free(b.by_name);
    free(b.part_of);
    return code;
}
