/* Line programs: see dbg_lines.h. The names of opcodes and forms are those of the standard. */
#include <symbol/dwarf_lines.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <symbol/dwarf_leb.h>

enum {
    VERSION_MIN = 2,
    VERSION_MAX = 5,

    DW_LNS_copy = 1,
    DW_LNS_advance_pc = 2,
    DW_LNS_advance_line = 3,
    DW_LNS_set_file = 4,
    DW_LNS_const_add_pc = 8,
    DW_LNS_fixed_advance_pc = 9,

    DW_LNE_end_sequence = 1,
    DW_LNE_set_address = 2,
    DW_LNE_set_discriminator = 4,

    DW_LNCT_path = 1,
    DW_LNCT_directory_index = 2,

    DW_FORM_data2 = 0x05,
    DW_FORM_data4 = 0x06,
    DW_FORM_data8 = 0x07,
    DW_FORM_string = 0x08,
    DW_FORM_block = 0x09,
    DW_FORM_block1 = 0x0a,
    DW_FORM_data1 = 0x0b,
    DW_FORM_strp = 0x0e,
    DW_FORM_udata = 0x0f,
    DW_FORM_data16 = 0x1e,
    DW_FORM_line_strp = 0x1f,

    PATH_SIZE_MAX = 4096 /* longer ones are cut */
};

static const char where[] = "dwarf.lines";

/* ------------------------------------------------------------------ header, versions 2 to 4 */

/* How many texts there are up to the empty one that ends their list. */
static size_t count_texts(reader r, unsigned numbers_each)
{
    size_t count = 0;
    while (reader_cstr(&r).len > 0) {
        for (unsigned i = 0; i < numbers_each; i++)
            (void)take_uleb(&r);
        count += r.code == SPGO_OK;
    }
    return count;
}

/* Directory 0 is the one of the compilation and is not listed; files count from 1. */
static bool read_tables_v2(reader *r, arena *mem, dbg_lines *l)
{
    l->dir_count = count_texts(*r, 0) + 1;
    l->dirs = arena_push(mem, l->dir_count, sizeof *l->dirs);
    for (size_t i = 1; l->dirs && i < l->dir_count; i++)
        l->dirs[i] = reader_cstr(r);
    (void)reader_u8(r);
    l->file_count = count_texts(*r, 3) + 1;
    l->files = arena_push(mem, l->file_count, sizeof *l->files);
    for (size_t i = 1; l->files && i < l->file_count; i++) {
        l->files[i].name = reader_cstr(r);
        l->files[i].dir = take_uleb(r);
        (void)take_uleb(r); /* time */
        (void)take_uleb(r); /* size */
    }
    return l->dirs && l->files;
}

/* ------------------------------------------------------------------ header, version 5 */

static spgo_str text_of_section(spgo_span section, uint64_t off)
{
    if (off >= section.len)
        return (spgo_str){0};
    /* Many entries may name one text, so it is not looked through without a bound. */
    size_t left = section.len - (size_t)off;
    size_t size = left < PATH_SIZE_MAX ? left : PATH_SIZE_MAX;
    reader r = reader_from((spgo_span){section.ptr + off, size}, off);
    return reader_cstr(&r);
}

typedef struct entry_value {
    spgo_str text;
    uint64_t number;
} entry_value;

static entry_value take_form(reader *r, const dbg_line_sections *s, uint64_t form, bool is_64bit)
{
    entry_value v = {0};
    switch (form) {
    case DW_FORM_string:
        v.text = reader_cstr(r);
        break;
    case DW_FORM_line_strp:
        v.text = text_of_section(s->line_str, reader_ptr(r, is_64bit ? 8 : 4));
        break;
    case DW_FORM_strp:
        v.text = text_of_section(s->str, reader_ptr(r, is_64bit ? 8 : 4));
        break;
    case DW_FORM_udata:
        v.number = take_uleb(r);
        break;
    case DW_FORM_data1:
        v.number = reader_u8(r);
        break;
    case DW_FORM_data2:
        v.number = reader_u16(r);
        break;
    case DW_FORM_data4:
        v.number = reader_u32(r);
        break;
    case DW_FORM_data8:
        v.number = reader_u64(r);
        break;
    case DW_FORM_data16:
        reader_skip(r, 16);
        break;
    case DW_FORM_block:
        reader_skip(r, take_uleb(r));
        break;
    case DW_FORM_block1:
        reader_skip(r, reader_u8(r));
        break;
    default:
        reader_fail(r, SPGO_UNSUPPORTED, reader_offset(r));
        break;
    }
    return v;
}

/* What each entry of a table consists of: pairs of content and form. */
typedef struct entry_format {
    uint64_t content[256], form[256];
    size_t count;
} entry_format;

static void take_entry_format(reader *r, entry_format *f)
{
    f->count = reader_u8(r);
    for (size_t i = 0; i < f->count; i++) {
        f->content[i] = take_uleb(r);
        f->form[i] = take_uleb(r);
    }
}

static void take_entry(reader *r, const dbg_line_sections *s, const entry_format *f, bool is_64bit,
                       dbg_line_file *out)
{
    for (size_t i = 0; i < f->count; i++) {
        entry_value v = take_form(r, s, f->form[i], is_64bit);
        if (f->content[i] == DW_LNCT_path)
            out->name = v.text;
        else if (f->content[i] == DW_LNCT_directory_index)
            out->dir = v.number;
    }
}

static bool read_tables_v5(reader *r, const dbg_line_sections *s, bool is_64bit, arena *mem,
                           dbg_lines *l)
{
    entry_format format;
    dbg_line_file entry = {0};
    take_entry_format(r, &format);
    l->dir_count = reader_count(r, take_uleb(r), format.count ? 1 : SIZE_MAX);
    l->dirs = arena_push(mem, l->dir_count, sizeof *l->dirs);
    for (size_t i = 0; l->dirs && i < l->dir_count; i++) {
        take_entry(r, s, &format, is_64bit, &entry);
        l->dirs[i] = entry.name;
    }
    take_entry_format(r, &format);
    l->file_count = reader_count(r, take_uleb(r), format.count ? 1 : SIZE_MAX);
    l->files = arena_push(mem, l->file_count, sizeof *l->files);
    for (size_t i = 0; l->files && i < l->file_count; i++)
        take_entry(r, s, &format, is_64bit, &l->files[i]);
    return l->dirs && l->files;
}

/* ------------------------------------------------------------------ header */

/* Of 4 or, in 64-bit DWARF, 8 bytes behind a mark. */
static uint64_t take_length(reader *r, bool *is_64bit)
{
    uint64_t length = reader_u32(r);
    *is_64bit = length == UINT32_MAX;
    return *is_64bit ? reader_u64(r) : length;
}

static void take_parameters(reader *r, dbg_lines *l)
{
    l->instruction_size_min = reader_u8(r);
    if (l->version >= 4)
        (void)reader_u8(r); /* operations an instruction: 1 on all machines of interest */
    (void)reader_u8(r);     /* default_is_stmt */
    l->line_base = (int8_t)reader_u8(r);
    l->line_range = reader_u8(r);
    l->opcode_base = reader_u8(r);
    l->operand_counts = reader_bytes(r, l->opcode_base ? l->opcode_base - 1u : 0);
    if (r->code == SPGO_OK && (l->opcode_base == 0 || l->line_range == 0))
        reader_fail(r, SPGO_CORRUPT, reader_offset(r));
}

spgo_code dbg_lines_open(const dbg_line_sections *sections, uint64_t off, spgo_str comp_dir,
                         arena *mem, dbg_lines *out, spgo_error *err)
{
    *out = (dbg_lines){.comp_dir = comp_dir};
    reader section = reader_from(sections->line, 0);
    reader_seek(&section, off);
    bool is_64bit;
    reader unit = reader_sub(&section, take_length(&section, &is_64bit));
    out->version = reader_u16(&unit);
    SPGO_TRY(reader_finish(&section, where, err));
    if (out->version < VERSION_MIN || out->version > VERSION_MAX)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, off,
                         "the line table at 0x%llx has version %u; versions 2 to 5 are read",
                         (unsigned long long)off, out->version);
    if (out->version >= 5)
        reader_skip(&unit, 2); /* sizes of an address and of a segment selector */
    reader header = reader_sub(&unit, reader_ptr(&unit, is_64bit ? 8 : 4));
    out->program = unit;
    take_parameters(&header, out);
    bool has_room = out->version >= 5 ? read_tables_v5(&header, sections, is_64bit, mem, out)
                                      : read_tables_v2(&header, mem, out);
    if (!has_room)
        return spgo_fail_nomem(err, where, (out->dir_count + out->file_count) * sizeof *out->files);
    SPGO_TRY(reader_finish(&unit, where, err));
    return reader_finish(&header, where, err);
}

/* ------------------------------------------------------------------ files */

static bool is_absolute(spgo_str path)
{
    return (path.len > 0 && (path.ptr[0] == '/' || path.ptr[0] == '\\')) ||
           (path.len > 2 && path.ptr[1] == ':' && (path.ptr[2] == '\\' || path.ptr[2] == '/'));
}

typedef struct path_text {
    char text[PATH_SIZE_MAX];
    size_t len;
} path_text;

static void append(path_text *p, spgo_str part)
{
    if (part.len == 0)
        return;
    if (p->len > 0 && p->len < PATH_SIZE_MAX && p->text[p->len - 1] != '/' &&
        p->text[p->len - 1] != '\\')
        p->text[p->len++] = '/';
    size_t room = PATH_SIZE_MAX - p->len;
    size_t taken = part.len < room ? part.len : room;
    memcpy(p->text + p->len, part.ptr, taken);
    p->len += taken;
}

spgo_str dbg_text_keep(dbg_texts *t, spgo_str text)
{
    if (text.len > t->left_bytes)
        text.len = 0;
    t->left_bytes -= text.len;
    return intern_add(t->names, text);
}

spgo_str dbg_lines_path(dbg_lines *l, uint64_t file, dbg_texts *texts)
{
    if (file >= l->file_count || l->files[file].name.len == 0)
        return dbg_text_keep(texts, (spgo_str){0});
    dbg_line_file *f = &l->files[file];
    if (f->path.len == 0) {
        path_text path = {.len = 0};
        spgo_str dir = f->dir < l->dir_count ? l->dirs[f->dir] : (spgo_str){0};
        if (!is_absolute(f->name)) {
            if (!is_absolute(dir))
                append(&path, l->comp_dir);
            append(&path, dir);
        }
        append(&path, f->name);
        f->path = dbg_text_keep(texts, (spgo_str){path.text, path.len});
    }
    return f->path;
}

/* ------------------------------------------------------------------ running */

typedef struct machine {
    const dbg_lines *l;
    const code_image *code;
    dbg_line_rows *out;
    bool no_memory;

    uint64_t addr, file, line, discriminator; /* registers */
    bool is_open, is_live; /* a sequence that has rows; one whose code is in the image */
    uint64_t row_addr;     /* of the last row, which ends where the next one begins */
    dbg_line_row row;
} machine;

static void reset(machine *m)
{
    m->addr = 0;
    m->file = 1;
    m->line = 1;
    m->discriminator = 0;
    m->is_open = false;
}

static uint32_t clamped(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void put_row(machine *m)
{
    dbg_line_rows *o = m->out;
    if (o->count == o->capacity) {
        size_t capacity = o->capacity ? 2 * o->capacity : 256;
        dbg_line_row *rows = realloc(o->rows, capacity * sizeof *rows);
        if (!rows) {
            m->no_memory = true;
            return;
        }
        o->rows = rows;
        o->capacity = capacity;
    }
    o->rows[o->count++] = m->row;
}

/* Closes the last row, if it has any bytes. Rows that go back are no code. */
static void close_row(machine *m)
{
    if (!m->is_open || !m->is_live || m->addr <= m->row_addr)
        return;
    m->row.begin_rva = (uint32_t)(m->row_addr - m->code->base_addr);
    m->row.end_rva = clamped(m->addr - m->code->base_addr);
    if (m->row.begin_rva < m->row.end_rva)
        put_row(m);
}

static bool is_in_image(const code_image *code, uint64_t addr)
{
    uint64_t rva = addr - code->base_addr;
    return addr != 0 && addr >= code->base_addr && rva < UINT32_MAX &&
           code_is_executable(code, (uint32_t)rva);
}

static void emit(machine *m)
{
    close_row(m);
    if (!m->is_open)
        m->is_live = is_in_image(m->code, m->addr);
    m->is_open = true;
    m->is_live = m->is_live && m->addr - m->code->base_addr < UINT32_MAX;
    m->row_addr = m->addr;
    m->row.file = clamped(m->file);
    m->row.line = clamped(m->line);
    m->row.discriminator = clamped(m->discriminator);
    m->discriminator = 0;
}

static void advance(machine *m, uint64_t operations)
{
    m->addr += operations * m->l->instruction_size_min;
}

static void special_opcode(machine *m, uint8_t opcode)
{
    const unsigned adjusted = (unsigned)opcode - m->l->opcode_base;
    advance(m, adjusted / m->l->line_range);
    m->line += (uint64_t)(int64_t)(m->l->line_base + (int)(adjusted % m->l->line_range));
    emit(m);
}

static void extended_opcode(machine *m, reader *r)
{
    reader operands = reader_sub(r, take_uleb(r));
    switch (reader_u8(&operands)) {
    case DW_LNE_end_sequence:
        close_row(m);
        reset(m);
        break;
    case DW_LNE_set_address:
        m->addr = reader_ptr(&operands, reader_left(&operands) == 8 ? 8 : 4);
        break;
    case DW_LNE_set_discriminator:
        m->discriminator = take_uleb(&operands);
        break;
    default:
        break;
    }
}

static void standard_opcode(machine *m, uint8_t opcode, reader *r)
{
    switch (opcode) {
    case DW_LNS_copy:
        emit(m);
        break;
    case DW_LNS_advance_pc:
        advance(m, take_uleb(r));
        break;
    case DW_LNS_advance_line:
        m->line += (uint64_t)take_sleb(r);
        break;
    case DW_LNS_set_file:
        m->file = take_uleb(r);
        break;
    case DW_LNS_const_add_pc:
        advance(m, (255u - m->l->opcode_base) / m->l->line_range);
        break;
    case DW_LNS_fixed_advance_pc:
        m->addr += reader_u16(r);
        break;
    default:
        for (unsigned i = m->l->operand_counts.ptr[opcode - 1]; i > 0; i--)
            (void)take_uleb(r);
        break;
    }
}

static int by_begin(const void *a, const void *b)
{
    const dbg_line_row *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    if (x->end_rva != y->end_rva)
        return x->end_rva < y->end_rva ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line; /* so that the order is always the same */
}

static void sort_and_clip(dbg_line_row *rows, size_t *count)
{
    bool is_sorted = true;
    for (size_t i = 1; i < *count && is_sorted; i++)
        is_sorted = rows[i - 1].end_rva <= rows[i].begin_rva;
    if (is_sorted)
        return;
    qsort(rows, *count, sizeof *rows, by_begin);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        dbg_line_row row = rows[i];
        if (kept > 0 && row.begin_rva < rows[kept - 1].end_rva)
            row.begin_rva = rows[kept - 1].end_rva;
        if (row.begin_rva < row.end_rva)
            rows[kept++] = row;
    }
    *count = kept;
}

spgo_code dbg_lines_run(const dbg_lines *l, const code_image *code, dbg_line_rows *out,
                        spgo_error *err)
{
    machine m = {.l = l, .code = code, .out = out};
    reader r = l->program;
    reset(&m);
    while (reader_left(&r) > 0 && !m.no_memory) {
        uint8_t opcode = reader_u8(&r);
        if (opcode >= l->opcode_base)
            special_opcode(&m, opcode);
        else if (opcode == 0)
            extended_opcode(&m, &r);
        else
            standard_opcode(&m, opcode, &r);
    }
    sort_and_clip(out->rows, &out->count);
    if (m.no_memory)
        return spgo_fail_nomem(err, where, 2 * out->capacity * sizeof *out->rows);
    return reader_finish(&r, where, err);
}
