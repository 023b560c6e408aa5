/*
 * The symbol records of a module: procedures and what is in them. Scopes nest by the order of the
 * records, from an opening one to its end. The records are walked twice: once to count, so that
 * each table is allocated once and at its size, and once to fill.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <string.h>

typedef struct record {
    uint16_t kind;
    uint32_t off; /* in the stream */
    reader body;
} record;

/* An open scope. */
typedef enum scope_kind { SCOPE_OTHER, SCOPE_PROC, SCOPE_SITE } scope_kind;

typedef struct scope {
    scope_kind kind;
    uint32_t proc, site; /* the innermost ones, PDB_NONE for none */
} scope;

typedef struct symbols {
    pdb_module *m;
    diag *d;
    uint32_t stream;
    pdb_proc *procs;
    pdb_inline_site *sites;
    pdb_block *blocks;
    pdb_label *labels;
    pdb_chunk *chunks;
    pdb_thunk *thunks;
    pdb_trampoline *trampolines;
    pdb_switch_table *switch_tables;
    pdb_call_site *call_sites;
    pdb_coff_group *coff_groups;
    pdb_mini_ref *mini_refs;
    scope *scopes;
    size_t depth;
    uint32_t last_proc; /* separated code follows its procedure */
} symbols;

/* How many records there are of each kind that is kept, and of scopes. */
typedef struct tally {
    size_t procs, sites, blocks, labels, chunks, thunks, trampolines, switch_tables, call_sites,
        coff_groups, mini_refs, scopes;
} tally;

static bool next_record(reader *r, record *rec)
{
    if (reader_left(r) == 0)
        return false;
    rec->off = (uint32_t)reader_offset(r);
    uint16_t size = reader_u16(r);
    if (!r->code && size < 2)
        reader_fail(r, SPGO_CORRUPT, rec->off);
    uint64_t start = reader_offset(r);
    rec->body = reader_from(reader_bytes(r, size), start);
    rec->kind = reader_u16(&rec->body);
    return r->code == SPGO_OK;
}

static reader all_records(const symbols *s, size_t end)
{
    reader r = pdb_part(s->m->stream, 4, end - 4);
    return r;
}

/* ------------------------------------------------------------------ findings */

static uint64_t file_offset(const symbols *s, uint64_t off)
{
    return msf_file_offset(&s->m->file->file, s->stream, off);
}

static void bad_record(const symbols *s, const record *rec)
{
    const char *name = pdb_symbol_name(rec->kind);
    diag_add(s->d, rec->body.code, file_offset(s, rec->body.bad_off),
             "module %" PRIu32 ": the record %s at byte %" PRIu32 " of stream %" PRIu32
             " ends too early; it is left out",
             s->m->index, name ? name : "of a symbol", rec->off, s->stream);
}

static void misplaced(const symbols *s, const record *rec, const char *what)
{
    diag_add(s->d, SPGO_CORRUPT, file_offset(s, rec->off),
             "module %" PRIu32 ": the record %s at byte %" PRIu32 " of stream %" PRIu32 " %s",
             s->m->index, pdb_symbol_name(rec->kind), rec->off, s->stream, what);
}

/* ------------------------------------------------------------------ counting */

static bool is_proc(uint16_t kind)
{
    switch (kind) {
    case PDB_S_LPROC32_ST:
    case PDB_S_GPROC32_ST:
    case PDB_S_LPROC32:
    case PDB_S_GPROC32:
    case PDB_S_LPROC32_ID:
    case PDB_S_GPROC32_ID:
    case PDB_S_LPROC32_DPC:
    case PDB_S_LPROC32_DPC_ID:
        return true;
    default:
        return false;
    }
}

static void count_record(tally *n, uint16_t kind)
{
    if (is_proc(kind)) {
        n->procs++;
        n->scopes++;
        return;
    }
    switch (kind) {
    case PDB_S_INLINESITE:
    case PDB_S_INLINESITE2:
        n->sites++;
        n->scopes++;
        break;
    case PDB_S_BLOCK32:
        n->blocks++;
        n->scopes++;
        break;
    case PDB_S_SEPCODE:
        n->chunks++;
        n->scopes++;
        break;
    case PDB_S_THUNK32:
        n->thunks++;
        n->scopes++;
        break;
    case PDB_S_GMANPROC:
    case PDB_S_LMANPROC:
    case PDB_S_WITH32:
        n->scopes++;
        break;
    case PDB_S_LABEL32:
        n->labels++;
        break;
    case PDB_S_TRAMPOLINE:
        n->trampolines++;
        break;
    case PDB_S_ARMSWITCHTABLE:
        n->switch_tables++;
        break;
    case PDB_S_CALLSITEINFO:
        n->call_sites++;
        break;
    case PDB_S_COFFGROUP:
        n->coff_groups++;
        break;
    case PDB_S_FASTLINK:
        n->mini_refs++;
        break;
    default:
        break;
    }
}

static spgo_code allocate(symbols *s, const tally *n, spgo_error *err)
{
    arena *mem = s->m->mem;
    s->procs = arena_push(mem, n->procs, sizeof *s->procs);
    s->sites = arena_push(mem, n->sites, sizeof *s->sites);
    s->blocks = arena_push(mem, n->blocks, sizeof *s->blocks);
    s->labels = arena_push(mem, n->labels, sizeof *s->labels);
    s->chunks = arena_push(mem, n->chunks, sizeof *s->chunks);
    s->thunks = arena_push(mem, n->thunks, sizeof *s->thunks);
    s->trampolines = arena_push(mem, n->trampolines, sizeof *s->trampolines);
    s->switch_tables = arena_push(mem, n->switch_tables, sizeof *s->switch_tables);
    s->call_sites = arena_push(mem, n->call_sites, sizeof *s->call_sites);
    s->coff_groups = arena_push(mem, n->coff_groups, sizeof *s->coff_groups);
    s->mini_refs = arena_push(mem, n->mini_refs, sizeof *s->mini_refs);
    s->scopes = arena_push(mem, n->scopes + 1, sizeof *s->scopes);
    bool all = s->procs && s->sites && s->blocks && s->labels && s->chunks && s->thunks &&
               s->trampolines && s->switch_tables && s->call_sites && s->coff_groups &&
               s->mini_refs && s->scopes;
    uint64_t about = (uint64_t)n->procs * sizeof *s->procs + (uint64_t)n->sites * sizeof *s->sites;
    return all ? SPGO_OK : pdb_no_room(s->m->file, mem, "pdb.symbols", about, err);
}

/* ------------------------------------------------------------------ scopes */

static scope *top(const symbols *s)
{
    return &s->scopes[s->depth];
}

static void open_scope(symbols *s, scope_kind kind, uint32_t proc, uint32_t site)
{
    s->scopes[++s->depth] = (scope){kind, proc, site};
}

static void close_scope(symbols *s)
{
    const scope *closed = top(s);
    if (closed->kind == SCOPE_SITE) {
        s->sites[closed->site].end = (uint32_t)s->m->site_count;
    } else if (closed->kind == SCOPE_PROC) {
        pdb_proc *proc = &s->procs[closed->proc];
        proc->site_count = (uint32_t)s->m->site_count - proc->first_site;
    }
    s->depth--;
}

static void take_end(symbols *s, const record *rec)
{
    if (s->depth == 0) {
        misplaced(s, rec, "ends a scope where none is open");
        return;
    }
    if ((rec->kind == PDB_S_INLINESITE_END) != (top(s)->kind == SCOPE_SITE))
        misplaced(s, rec, "ends a scope of another kind");
    close_scope(s);
}

/* ------------------------------------------------------------------ records with a scope */

/* The records before 2002 have names with a length byte before them. */
static spgo_str take_name(record *rec, bool is_old)
{
    if (!is_old)
        return reader_cstr(&rec->body);
    uint8_t size = reader_u8(&rec->body);
    spgo_span text = reader_bytes(&rec->body, size);
    return (spgo_str){(const char *)text.ptr, text.len};
}

static void take_proc(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_proc proc = {.kind = rec->kind, .symbol_off = rec->off};
    reader_skip(r, 3 * 4); /* parent, end, next */
    proc.length = reader_u32(r);
    proc.debug_start = reader_u32(r);
    proc.debug_end = reader_u32(r);
    proc.type = reader_u32(r);
    proc.off = reader_u32(r);
    proc.section = reader_u16(r);
    proc.flags = reader_u8(r);
    proc.name = take_name(rec, rec->kind == PDB_S_LPROC32_ST || rec->kind == PDB_S_GPROC32_ST);
    if (r->code) {
        bad_record(s, rec);
        open_scope(s, SCOPE_OTHER, PDB_NONE, PDB_NONE);
        return;
    }
    proc.rva = pdb_rva(s->m->file, proc.section, proc.off);
    proc.first_site = (uint32_t)s->m->site_count;
    uint32_t index = (uint32_t)s->m->proc_count++;
    s->procs[index] = proc;
    s->last_proc = index;
    open_scope(s, SCOPE_PROC, index, PDB_NONE);
}

static void take_site(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_inline_site site = {
        .proc = top(s)->proc, .parent = top(s)->site, .file = PDB_NONE, .invocations = PDB_NONE};
    reader_skip(r, 2 * 4); /* parent, end */
    site.inlinee = reader_u32(r);
    if (rec->kind == PDB_S_INLINESITE2)
        site.invocations = reader_u32(r);
    if (r->code || site.proc == PDB_NONE) {
        if (r->code)
            bad_record(s, rec);
        else
            misplaced(s, rec, "stands in no procedure");
        open_scope(s, SCOPE_OTHER, site.proc, site.parent);
        return;
    }
    site.annotations = reader_bytes(r, reader_left(r));
    const pdb_inlinee_line *line = pdb_find_inlinee(s->m, site.inlinee);
    if (line) {
        site.file = line->file;
        site.line = line->line;
    }
    uint32_t index = (uint32_t)s->m->site_count++;
    s->sites[index] = site;
    open_scope(s, SCOPE_SITE, site.proc, index);
}

static void take_block(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_block block = {.proc = top(s)->proc};
    reader_skip(r, 2 * 4);
    block.length = reader_u32(r);
    block.off = reader_u32(r);
    block.section = reader_u16(r);
    block.name = reader_cstr(r);
    if (r->code)
        bad_record(s, rec);
    else
        s->blocks[s->m->block_count++] = block;
    open_scope(s, SCOPE_OTHER, top(s)->proc, top(s)->site);
}

static bool starts_at(const pdb_proc *proc, const pdb_chunk *chunk)
{
    return proc->section == chunk->parent_section && proc->off == chunk->parent_off;
}

static void take_chunk(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_chunk chunk = {.proc = top(s)->proc};
    reader_skip(r, 2 * 4);
    chunk.length = reader_u32(r);
    chunk.flags = reader_u32(r);
    chunk.off = reader_u32(r);
    chunk.parent_off = reader_u32(r);
    chunk.section = reader_u16(r);
    chunk.parent_section = reader_u16(r);
    if (r->code) {
        bad_record(s, rec);
        open_scope(s, SCOPE_OTHER, PDB_NONE, PDB_NONE);
        return;
    }
    chunk.rva = pdb_rva(s->m->file, chunk.section, chunk.off);
    if (chunk.proc == PDB_NONE && s->last_proc != PDB_NONE &&
        starts_at(&s->procs[s->last_proc], &chunk))
        chunk.proc = s->last_proc;
    s->chunks[s->m->chunk_count++] = chunk;
    open_scope(s, SCOPE_OTHER, chunk.proc, top(s)->site);
}

static void take_thunk(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_thunk thunk = {0};
    reader_skip(r, 3 * 4);
    thunk.off = reader_u32(r);
    thunk.section = reader_u16(r);
    thunk.length = reader_u16(r);
    thunk.ordinal = reader_u8(r);
    thunk.name = reader_cstr(r);
    if (r->code) {
        bad_record(s, rec);
    } else {
        thunk.rva = pdb_rva(s->m->file, thunk.section, thunk.off);
        s->thunks[s->m->thunk_count++] = thunk;
    }
    open_scope(s, SCOPE_OTHER, PDB_NONE, PDB_NONE);
}

/* ------------------------------------------------------------------ records without */

static void take_label(symbols *s, record *rec)
{
    pdb_label label = {.proc = top(s)->proc};
    label.off = reader_u32(&rec->body);
    label.section = reader_u16(&rec->body);
    label.flags = reader_u8(&rec->body);
    label.name = reader_cstr(&rec->body);
    if (rec->body.code)
        bad_record(s, rec);
    else
        s->labels[s->m->label_count++] = label;
}

static void take_trampoline(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_trampoline t = {0};
    t.kind = reader_u16(r);
    t.length = reader_u16(r);
    t.off = reader_u32(r);
    t.target_off = reader_u32(r);
    t.section = reader_u16(r);
    t.target_section = reader_u16(r);
    if (r->code) {
        bad_record(s, rec);
        return;
    }
    t.rva = pdb_rva(s->m->file, t.section, t.off);
    t.target_rva = pdb_rva(s->m->file, t.target_section, t.target_off);
    s->trampolines[s->m->trampoline_count++] = t;
}

static void take_switch_table(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_switch_table t = {.proc = top(s)->proc};
    t.base_off = reader_u32(r);
    t.base_section = reader_u16(r);
    t.entry_type = reader_u16(r);
    t.branch_off = reader_u32(r);
    t.table_off = reader_u32(r);
    t.branch_section = reader_u16(r);
    t.table_section = reader_u16(r);
    t.entry_count = reader_u32(r);
    if (r->code)
        bad_record(s, rec);
    else
        s->switch_tables[s->m->switch_table_count++] = t;
}

static void take_call_site(symbols *s, record *rec)
{
    pdb_call_site c = {.proc = top(s)->proc};
    c.off = reader_u32(&rec->body);
    c.section = reader_u16(&rec->body);
    reader_skip(&rec->body, 2);
    c.type = reader_u32(&rec->body);
    if (rec->body.code)
        bad_record(s, rec);
    else
        s->call_sites[s->m->call_site_count++] = c;
}

static void take_coff_group(symbols *s, record *rec)
{
    pdb_coff_group g = {0};
    g.length = reader_u32(&rec->body);
    g.characteristics = reader_u32(&rec->body);
    g.off = reader_u32(&rec->body);
    g.section = reader_u16(&rec->body);
    g.name = reader_cstr(&rec->body);
    if (rec->body.code)
        bad_record(s, rec);
    else
        s->coff_groups[s->m->coff_group_count++] = g;
}

static void take_mini_ref(symbols *s, record *rec)
{
    pdb_mini_ref ref = {.module = s->m->index};
    ref.coff_section_or_type = reader_u32(&rec->body);
    ref.flags = reader_u16(&rec->body);
    ref.name = reader_cstr(&rec->body);
    if (rec->body.code)
        bad_record(s, rec);
    else
        s->mini_refs[s->m->mini_ref_count++] = ref;
}

static void take_compiler(symbols *s, record *rec)
{
    reader *r = &rec->body;
    pdb_compiler c = {.present = true};
    uint32_t flags = reader_u32(r);
    c.language = flags & 0xff;
    c.flags = flags >> 8;
    c.machine = reader_u16(r);
    int parts = rec->kind == PDB_S_COMPILE3 ? 4 : 3;
    for (int i = 0; i < parts; i++)
        c.front[i] = reader_u16(r);
    for (int i = 0; i < parts; i++)
        c.back[i] = reader_u16(r);
    c.name = reader_cstr(r);
    if (r->code)
        bad_record(s, rec);
    else
        s->m->compiler = c;
}

static void take_object_name(symbols *s, record *rec)
{
    reader_skip(&rec->body, 4);
    spgo_str name = reader_cstr(&rec->body);
    if (rec->body.code)
        bad_record(s, rec);
    else
        s->m->object_name = name;
}

static void take_pogo(symbols *s, record *rec)
{
    pdb_pogo pogo;
    pogo.invocations = reader_u32(&rec->body);
    pogo.dynamic_count = (int64_t)reader_u64(&rec->body);
    pogo.instruction_count = reader_u32(&rec->body);
    pogo.static_instruction_count = reader_u32(&rec->body);
    if (rec->body.code) {
        bad_record(s, rec);
    } else if (top(s)->proc != PDB_NONE) {
        s->procs[top(s)->proc].pogo = pogo;
        s->procs[top(s)->proc].has_pogo = true;
    }
}

static void take_record(symbols *s, record *rec)
{
    if (is_proc(rec->kind)) {
        take_proc(s, rec);
        return;
    }
    switch (rec->kind) {
    case PDB_S_END:
    case PDB_S_INLINESITE_END:
    case PDB_S_PROC_ID_END:
        take_end(s, rec);
        break;
    case PDB_S_INLINESITE:
    case PDB_S_INLINESITE2:
        take_site(s, rec);
        break;
    case PDB_S_BLOCK32:
        take_block(s, rec);
        break;
    case PDB_S_SEPCODE:
        take_chunk(s, rec);
        break;
    case PDB_S_THUNK32:
        take_thunk(s, rec);
        break;
    case PDB_S_GMANPROC:
    case PDB_S_LMANPROC:
    case PDB_S_WITH32:
        open_scope(s, SCOPE_OTHER, top(s)->proc, top(s)->site);
        break;
    case PDB_S_LABEL32:
        take_label(s, rec);
        break;
    case PDB_S_TRAMPOLINE:
        take_trampoline(s, rec);
        break;
    case PDB_S_ARMSWITCHTABLE:
        take_switch_table(s, rec);
        break;
    case PDB_S_CALLSITEINFO:
        take_call_site(s, rec);
        break;
    case PDB_S_COFFGROUP:
        take_coff_group(s, rec);
        break;
    case PDB_S_FASTLINK:
        take_mini_ref(s, rec);
        break;
    case PDB_S_COMPILE2:
    case PDB_S_COMPILE3:
        take_compiler(s, rec);
        break;
    case PDB_S_OBJNAME:
        take_object_name(s, rec);
        break;
    case PDB_S_POGODATA:
        take_pogo(s, rec);
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------ separated code */

typedef struct proc_address {
    uint64_t key; /* section and offset */
    uint32_t proc;
} proc_address;

static int proc_by_address(const void *a, const void *b)
{
    const proc_address *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

static uint64_t address_key(uint16_t section, uint32_t off)
{
    return (uint64_t)section << 32 | off;
}

static uint32_t find_proc(const proc_address *index, size_t count, uint64_t key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (index[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && index[low].key == key ? index[low].proc : PDB_NONE;
}

/* Code whose procedure is not the one before it is found by the address it names. */
static bool find_parents(symbols *s)
{
    size_t lost = 0;
    for (size_t i = 0; i < s->m->chunk_count; i++)
        lost += s->chunks[i].proc == PDB_NONE;
    if (lost == 0)
        return true;
    size_t count = s->m->proc_count;
    proc_address *index = arena_push(s->m->mem, count, sizeof *index);
    if (!index)
        return false;
    for (size_t i = 0; i < count; i++)
        index[i] = (proc_address){address_key(s->procs[i].section, s->procs[i].off), (uint32_t)i};
    if (!pdb_stable_sort(index, count, sizeof *index, proc_by_address))
        return false;
    for (size_t i = 0; i < s->m->chunk_count; i++) {
        pdb_chunk *c = &s->chunks[i];
        if (c->proc == PDB_NONE)
            c->proc = find_proc(index, count, address_key(c->parent_section, c->parent_off));
    }
    return true;
}

static int chunk_by_proc(const void *a, const void *b)
{
    const pdb_chunk *x = a, *y = b;
    return x->proc < y->proc ? -1 : x->proc > y->proc;
}

static bool settle_chunks(symbols *s)
{
    size_t count = s->m->chunk_count;
    if (!find_parents(s) || !pdb_stable_sort(s->chunks, count, sizeof *s->chunks, chunk_by_proc))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (s->chunks[i].proc == PDB_NONE)
            break; /* the last ones */
        pdb_proc *proc = &s->procs[s->chunks[i].proc];
        if (proc->chunk_count++ == 0)
            proc->first_chunk = (uint32_t)i;
    }
    return true;
}

/* ------------------------------------------------------------------ the whole */

static void publish(symbols *s)
{
    pdb_module *m = s->m;
    m->procs = s->procs;
    m->sites = s->sites;
    m->blocks = s->blocks;
    m->labels = s->labels;
    m->chunks = s->chunks;
    m->thunks = s->thunks;
    m->trampolines = s->trampolines;
    m->switch_tables = s->switch_tables;
    m->call_sites = s->call_sites;
    m->coff_groups = s->coff_groups;
    m->mini_refs = s->mini_refs;
}

spgo_code pdb_read_symbols(pdb_module *m, size_t end, diag *d, spgo_error *err)
{
    if (end <= 4)
        return SPGO_OK;
    symbols s = {
        .m = m, .d = d, .stream = m->file->modules[m->index].stream, .last_proc = PDB_NONE};
    tally n = {0};
    record rec;
    reader r = all_records(&s, end);
    while (next_record(&r, &rec))
        count_record(&n, rec.kind);
    SPGO_TRY(allocate(&s, &n, err));
    s.scopes[0] = (scope){SCOPE_OTHER, PDB_NONE, PDB_NONE};
    r = all_records(&s, end);
    while (next_record(&r, &rec))
        take_record(&s, &rec);
    if (r.code)
        diag_add(d, r.code, file_offset(&s, r.bad_off),
                 "module %" PRIu32 ": the symbols are damaged at byte %" PRIu64
                 " of stream %" PRIu32 "; the rest of them is left out",
                 m->index, r.bad_off, s.stream);
    if (s.depth > 0)
        diag_add(d, SPGO_CORRUPT, file_offset(&s, end),
                 "module %" PRIu32 ": %zu scopes are still open behind the last symbol", m->index,
                 s.depth);
    while (s.depth > 0)
        close_scope(&s);
    if (!settle_chunks(&s))
        return pdb_no_room(m->file, m->mem, "pdb.symbols", m->proc_count * sizeof(proc_address),
                           err);
    publish(&s);
    return SPGO_OK;
}
