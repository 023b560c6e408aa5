/*
 * check_steps FILE...: holds the files of the stepping runtime against the images they name. Each
 * branch must be one, of that kind and to that target; between two neighbouring branches there must
 * be instructions that lead from one to the other without a branch. Says what was checked; the exit
 * code is 1 when something was wrong. Code in memory of no file (the vdso, compiled at run time) is
 * counted and passed over.
 */
#include <code/code.h>
#include <format/elf/elf.h>
#include <format/step/step.h>
#include <os/file.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES_MAX = 4096, FILES_MAX = 512, SHOWN_MAX = 20, STEPS_MAX = 100000 };

/* An image on disk, opened once. */
typedef struct file {
    char path[STEP_IMAGE_PATH_MAX];
    os_input *in;
    elf_image elf;
    code_segment segments[ELF_SEGMENT_MAX];
    code_image code;
    code_decoder *decoder; /* NULL: no image that can be decoded */
} file;

typedef struct mapping {
    uint64_t start, end, rva;  /* of start */
    uint64_t seen_ns, gone_ns; /* UINT64_MAX: never */
    file *f;
} mapping;

typedef struct checker {
    mapping mappings[IMAGES_MAX];
    size_t mapping_count;
    uint64_t time_ns; /* of the record at hand */
    uint64_t kinds[STEP_BRANCH_FAR + 1];
    bool filtered; /* branches were left out: ranges say nothing */
    uint64_t records, branches, ranges, unknown, wrong, taken_to_next;
    const char *name;
} checker;

static file files[FILES_MAX];
static size_t file_count;

static void open_code(file *f)
{
    spgo_span bytes = os_input_bytes(f->in);
    if (elf_read(bytes, &f->elf, NULL) != SPGO_OK || f->elf.machine != ELF_MACHINE_X86_64)
        return;
    f->code = (code_image){.machine = CODE_X64,
                           .base_addr = f->elf.base_vaddr,
                           .segments = f->segments,
                           .segment_count = f->elf.segment_count};
    for (size_t i = 0; i < f->elf.segment_count; i++) {
        const elf_segment *s = &f->elf.segments[i];
        uint64_t left = s->offset < bytes.len ? bytes.len - s->offset : 0;
        uint64_t size = s->file_size < left ? s->file_size : left;
        f->segments[i] = (code_segment){.rva = (uint32_t)(s->vaddr - f->elf.base_vaddr),
                                        .bytes = {bytes.ptr + s->offset, (size_t)size},
                                        .is_executable = s->flags & ELF_SEGMENT_EXECUTE};
    }
    if (code_decoder_new(&f->code, &f->decoder, NULL) != SPGO_OK)
        f->decoder = NULL;
}

static file *get_file(const char *path)
{
    for (size_t i = 0; i < file_count; i++) {
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    }
    if (file_count == FILES_MAX)
        return NULL;
    file *f = &files[file_count++];
    snprintf(f->path, sizeof f->path, "%s", path);
    if (path[0] == '/' && os_input_open(path, &f->in, NULL) == SPGO_OK)
        open_code(f);
    return f;
}

static void add_image(checker *c, const step_event *e)
{
    if (!(e->image.prot & STEP_PROT_EXEC) || c->mapping_count == IMAGES_MAX)
        return;
    uint64_t end = e->image.start_addr + e->image.size_bytes;
    mapping *m = &c->mappings[c->mapping_count++];
    *m = (mapping){.start = e->image.start_addr,
                   .end = end,
                   .seen_ns = e->time_ns,
                   .gone_ns = UINT64_MAX,
                   .f = get_file(e->image.path.ptr)};
    if (!m->f || !m->f->decoder ||
        !elf_rva_of_map(&m->f->elf, e->image.file_offset, e->image.size_bytes, &m->rva))
        m->f = NULL;
}

static void end_image(checker *c, const step_event *e)
{
    for (size_t i = 0; i < c->mapping_count; i++) {
        mapping *m = &c->mappings[i];
        if (m->start == e->image.start_addr && m->gone_ns == UINT64_MAX)
            m->gone_ns = e->time_ns;
    }
}

static const mapping *find(const checker *c, uint64_t addr)
{
    for (size_t i = 0; i < c->mapping_count; i++) {
        const mapping *m = &c->mappings[i];
        if (addr >= m->start && addr < m->end && c->time_ns >= m->seen_ns &&
            c->time_ns < m->gone_ns)
            return m;
    }
    return NULL;
}

static bool complain(checker *c, const step_event *e, const char *what, uint64_t from, uint64_t to)
{
    const mapping *m = find(c, from);
    if (c->wrong++ < SHOWN_MAX)
        printf("%s: 0x%" PRIx64 ": %s: 0x%" PRIx64 " -> 0x%" PRIx64 " (%s, rva 0x%" PRIx64 ")\n",
               c->name, e->offset, what, from, to, m && m->f ? m->f->path : "?",
               m ? from - m->start + m->rva : 0);
    return false;
}

/* The instruction at addr; false without code to look at. */
static bool decode(checker *c, uint64_t addr, code_instruction *i, uint64_t *target)
{
    const mapping *m = find(c, addr);
    if (!m || !m->f) {
        c->unknown++;
        return false;
    }
    *i = code_decode(m->f->decoder, (uint32_t)(addr - m->start + m->rva));
    *target = i->target_rva - m->rva + m->start;
    return true;
}

static bool kind_fits(uint8_t recorded, uint8_t kind)
{
    switch (recorded) {
    case STEP_BRANCH_JCC:
        return kind == CODE_BRANCH;
    case STEP_BRANCH_NEAR_REL_CALL:
        return kind == CODE_CALL;
    case STEP_BRANCH_NEAR_IND_CALL:
        return kind == CODE_CALL_INDIRECT;
    case STEP_BRANCH_NEAR_RET:
        return kind == CODE_RETURN;
    case STEP_BRANCH_NEAR_IND_JMP:
        return kind == CODE_JUMP_INDIRECT;
    case STEP_BRANCH_NEAR_REL_JMP:
        return kind == CODE_JUMP;
    default:
        return false;
    }
}

static bool check_branch(checker *c, const step_event *e, step_branch b, uint8_t recorded)
{
    code_instruction i;
    uint64_t target;
    c->branches++;
    c->kinds[recorded]++;
    if (!decode(c, b.from, &i, &target))
        return true;
    c->taken_to_next += b.to == b.from + i.size_bytes;
    if (!kind_fits(recorded, i.kind))
        return complain(c, e, "no branch of this kind", b.from, b.to);
    if (i.has_target && target != b.to)
        return complain(c, e, "another target", b.from, b.to);
    return true;
}

/* From `to` on, instruction by instruction, to the next branch; `last` is not yet executed. */
static bool check_range(checker *c, const step_event *e, uint64_t to, uint64_t last)
{
    code_instruction i;
    uint64_t target, addr = to;
    if (c->filtered)
        return true;
    c->ranges++;
    for (unsigned steps = 0; addr != last; steps++) {
        if (addr > last || steps == STEPS_MAX)
            return complain(c, e, "a range that no code leads through", to, last);
        if (!decode(c, addr, &i, &target))
            return true;
        if (i.kind == CODE_INVALID || code_always_leaves(i.kind))
            return complain(c, e, "a range with a branch in it", to, last);
        addr += i.size_bytes;
    }
    return true;
}

static void check_record(checker *c, const step_event *e)
{
    uint32_t count = e->record.branch_count;
    step_branch newest = step_branch_at(e, 0), oldest = step_branch_at(e, count - 1);
    c->records++;
    c->time_ns = e->time_ns;
    for (uint32_t i = 0; i < count; i++) {
        step_branch b = step_branch_at(e, i);
        check_branch(c, e, b, e->record.kinds[i]);
        if (i > 0)
            check_range(c, e, b.to, step_branch_at(e, i - 1).from);
    }
    check_range(c, e, e->record.start_ip, oldest.from);
    check_range(c, e, newest.to, e->record.end_ip);
}

/* Images first: a record can stand before those that its burst was the first to see. */
static void check_events(checker *c, const step_document *doc, diag *findings)
{
    step_walk w;
    step_event e;
    c->filtered = doc->header.filter != 0;
    step_walk_begin(&w, doc, findings);
    while (step_walk_next(&w, &e)) {
        if (e.kind == STEP_EVENT_IMAGE)
            add_image(c, &e);
        else if (e.kind == STEP_EVENT_IMAGE_END)
            end_image(c, &e);
    }
    step_walk_begin(&w, doc, NULL);
    while (step_walk_next(&w, &e)) {
        if (e.kind == STEP_EVENT_RECORD)
            check_record(c, &e);
    }
}

static bool check_file(checker *c, const char *path)
{
    os_input *in;
    spgo_error err;
    diag findings = {0};
    step_document doc;
    c->name = path;
    c->mapping_count = 0;
    if (os_input_open(path, &in, &err) != SPGO_OK) {
        printf("%s\n", err.sentence);
        return false;
    }
    spgo_code code = step_open(os_input_bytes(in), &doc, &findings, &err);
    if (code == SPGO_OK)
        check_events(c, &doc, &findings);
    else
        printf("%s: %s\n", path, err.sentence);
    for (size_t i = 0; i < findings.kept_count; i++)
        printf("%s: %s\n", path, findings.kept[i].sentence);
    os_input_close(in);
    return (code == SPGO_OK || code == SPGO_NOT_FOUND) && findings.total == 0;
}

int main(int argc, char **argv)
{
    static checker c;
    bool whole = true;
    for (int i = 1; i < argc; i++)
        whole &= check_file(&c, argv[i]);
    printf("records %" PRIu64 " branches %" PRIu64 " ranges %" PRIu64 " unknown %" PRIu64
           " to-next %" PRIu64 " wrong %" PRIu64 "\n",
           c.records, c.branches, c.ranges, c.unknown, c.taken_to_next, c.wrong);
    printf("kinds");
    for (size_t i = STEP_BRANCH_JCC; i <= STEP_BRANCH_FAR; i++)
        printf(" %" PRIu64, c.kinds[i]);
    printf("\n");
    for (size_t i = 0; i < file_count; i++) {
        code_decoder_free(files[i].decoder);
        os_input_close(files[i].in);
    }
    return c.wrong || !whole;
}
