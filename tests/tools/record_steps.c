/*
 * record_steps OUT.etl PERIOD PROGRAM ARGS...: real branch records of a real program on any
 * x86-64 Linux machine. The program runs one instruction at a time under ptrace; every PERIOD-th
 * taken branch makes a sample with the last 32, written as a PMC interrupt and its LBR event. Slow
 * (50,000 instructions a second) and exact: this is where tests/data/demo.etl comes from.
 */
#include <format/elf/elf.h>
#include <format/etl/etl_write.h>
#include <os/file.h>

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 32, IMAGES_MAX = 64, SOURCE = 30, TICK = 100, CODE_BYTES = 16 };

typedef struct image {
    uint64_t base, end;
    char path[512];
} image;

typedef struct recorder {
    pid_t pid;
    etl_writer *w;
    bytes payload;
    uint64_t time;
    uint64_t taken, period;
    uint64_t ring[DEPTH][2]; /* from, to; the newest at (taken - 1) % DEPTH */
    image images[IMAGES_MAX];
    size_t image_count;
    uint64_t samples;
} recorder;

static void add(recorder *r, const etl_event_head *head)
{
    spgo_error err;
    if (r->payload.failed || etl_writer_add(r->w, head, bytes_span(&r->payload), &err) != SPGO_OK) {
        fprintf(stderr, "record_steps: %s\n", err.sentence);
        exit(1);
    }
    bytes_clear(&r->payload);
}

static void add_hook(recorder *r, uint8_t type, uint16_t hook, uint16_t version)
{
    uint32_t id = (uint32_t)r->pid;
    bool has_ids = type == ETL_SYSTEM64;
    add(r, &(etl_event_head){.type = type,
                             .time = r->time,
                             .pid = has_ids ? id : 0,
                             .tid = has_ids ? id : 0,
                             .hook = hook,
                             .version = version});
}

/* The build-id stands in for GUID and age, as for every ELF image. */
static void add_identity(recorder *r, const image *i)
{
    os_input *in;
    elf_image elf;
    if (os_input_open(i->path, &in, NULL) != SPGO_OK)
        return;
    bool ok = elf_read(os_input_bytes(in), &elf, NULL) == SPGO_OK && elf.build_id_size;
    os_input_close(in);
    if (!ok)
        return;
    const char *name = strrchr(i->path, '/') + 1;
    etl_image_id id = {.base = i->base,
                       .size = i->end - i->base,
                       .pid = (uint32_t)r->pid,
                       .id = elf.id,
                       .pdb = {name, strlen(name)}};
    const etl_event_head head = {.type = ETL_FULL64,
                                 .time = r->time,
                                 .pid = id.pid,
                                 .tid = id.pid,
                                 .guid = ETL_GUID_IMAGE_ID,
                                 .version = 2};
    etl_event_head rsds = head;
    rsds.opcode = 0x24;
    etl_encode_image_id(&r->payload, &id, name, 8);
    add(r, &head);
    etl_encode_image_rsds(&r->payload, &id, 8);
    add(r, &rsds);
}

static void add_image(recorder *r, const image *i)
{
    add_identity(r, i);
    etl_image load = {.base = i->base, .size = i->end - i->base, .pid = (uint32_t)r->pid};
    etl_encode_image(&r->payload, &load, i->path, 3, 8);
    add_hook(r, ETL_SYSTEM64, 0x030A, 3);
}

/* Takes in what the program has mapped since the last look; the first line of a file is its base.
 */
static void look_at_maps(recorder *r)
{
    char name[64], line[1024];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)r->pid);
    FILE *f = fopen(name, "r");
    size_t known = r->image_count;
    image *now = NULL;
    while (f && fgets(line, sizeof line, f)) {
        uint64_t start, end;
        char path[512] = "";
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %511s", &start, &end, path) < 3 ||
            path[0] != '/')
            continue;
        if (now && strcmp(now->path, path) == 0) {
            now->end = end;
            continue;
        }
        bool seen = false;
        for (size_t i = 0; i < known; i++)
            seen |= r->images[i].base == start;
        now = seen || r->image_count == IMAGES_MAX ? NULL : &r->images[r->image_count++];
        if (now) {
            *now = (image){.base = start, .end = end};
            memcpy(now->path, path, sizeof path);
        }
    }
    if (f)
        fclose(f);
    for (size_t i = known; i < r->image_count; i++)
        add_image(r, &r->images[i]);
}

static bool is_known(const recorder *r, uint64_t addr)
{
    for (size_t i = 0; i < r->image_count; i++) {
        if (addr >= r->images[i].base && addr < r->images[i].end)
            return true;
    }
    return false;
}

/* The length of the branch instruction at code, or 0 if it is none. */
static size_t branch_length(const uint8_t *code)
{
    size_t n = 0;
    while (code[n] == 0xF2 || code[n] == 0xF3 || code[n] == 0x3E || code[n] == 0x2E ||
           code[n] == 0x66)
        n++;
    n += (code[n] & 0xF0) == 0x40;
    const uint8_t op = code[n], modrm = code[n + 1];
    if ((op & 0xF0) == 0x70 || op == 0xEB || (op >= 0xE0 && op <= 0xE3))
        return n + 2;
    if (op == 0xE8 || op == 0xE9)
        return n + 5;
    if (op == 0x0F && (modrm & 0xF0) == 0x80)
        return n + 6;
    if (op == 0xC3)
        return n + 1;
    if (op == 0xC2)
        return n + 3;
    unsigned kind = modrm >> 3 & 7;
    return op == 0xFF && (kind == 2 || kind == 4) ? CODE_BYTES : 0; /* indirect: always taken */
}

static void add_sample(recorder *r, uint64_t ip)
{
    uint64_t branches[DEPTH][3];
    for (size_t i = 0; i < DEPTH; i++) {
        const uint64_t *b = r->ring[(r->taken - 1 - i) % DEPTH];
        branches[i][0] = b[0];
        branches[i][1] = b[1];
        branches[i][2] = 0;
        if (!is_known(r, b[0]) || !is_known(r, b[1]))
            look_at_maps(r);
    }
    uint32_t id = (uint32_t)r->pid;
    etl_sample pmc = {.ip = ip, .tid = id, .source = SOURCE};
    etl_encode_pmc_interrupt(&r->payload, &pmc, 8);
    add_hook(r, ETL_PERFINFO64, 0x0F2F, 2);
    etl_lbr lbr = {.time = r->time, .pid = id, .tid = id, .options = 1};
    etl_encode_lbr(&r->payload, &lbr, (const uint64_t(*)[3])branches, DEPTH, 8);
    add_hook(r, ETL_PERFINFO64, 0x0C20, 2);
    r->samples++;
}

/* Steps until the program ends; returns its wait status. */
static int step_through(recorder *r)
{
    struct user_regs_struct regs;
    uint64_t before = 0;
    uint8_t code[CODE_BYTES] = {0};
    int status = 0;
    for (;;) {
        if (ptrace(PTRACE_GETREGS, r->pid, NULL, &regs) != 0)
            break;
        size_t length = before ? branch_length(code) : 0;
        if (length && (length == CODE_BYTES || regs.rip != before + length)) {
            uint64_t *b = r->ring[r->taken++ % DEPTH];
            b[0] = before;
            b[1] = regs.rip;
            r->time += TICK;
            if (r->taken >= DEPTH && r->taken % r->period == 0)
                add_sample(r, regs.rip);
        }
        before = regs.rip;
        for (size_t i = 0; i < CODE_BYTES; i += 8) {
            long word = ptrace(PTRACE_PEEKTEXT, r->pid, regs.rip + i, NULL);
            memcpy(code + i, &word, sizeof word);
        }
        if (ptrace(PTRACE_SINGLESTEP, r->pid, NULL, NULL) != 0 || waitpid(r->pid, &status, 0) < 0 ||
            !WIFSTOPPED(status))
            break;
    }
    return status;
}

static pid_t start_program(char **argv)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    personality(ADDR_NO_RANDOMIZE);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    execvp(argv[0], argv);
    _exit(127);
}

static void begin_trace(recorder *r, const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    etl_process p = {.pid = (uint32_t)r->pid, .parent_pid = 1, .image_name = {name, strlen(name)}};
    etl_encode_process(&r->payload, &p, program, 4, 8);
    add_hook(r, ETL_SYSTEM64, 0x0301, 4);
    etl_thread t = {.pid = p.pid, .tid = p.pid};
    etl_encode_thread(&r->payload, &t, "", 4, 8);
    add_hook(r, ETL_SYSTEM64, 0x0501, 4);
    etl_interval i = {
        .source = SOURCE, .new_interval = (uint32_t)r->period, .old_interval = (uint32_t)r->period};
    etl_encode_interval(&r->payload, &i, "BranchInstructionRetired", 3);
    add_hook(r, ETL_SYSTEM64, 0x0F49, 3);
    look_at_maps(r);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: record_steps OUT.etl PERIOD PROGRAM ARGS...\n");
        return 2;
    }
    os_output *file;
    spgo_error err;
    recorder r = {.time = 10000, .period = strtoull(argv[2], NULL, 10)};
    etl_writer_opts opts = {.compress = true,
                            .cpu_count = 1,
                            .start_time = 10000,
                            .start_filetime = UINT64_C(134000000000000000)};
    if (r.period == 0 || os_output_open(argv[1], &file, &err) != SPGO_OK ||
        etl_writer_new(os_output_sink(file), &opts, &r.w, &err) != SPGO_OK) {
        fprintf(stderr, "record_steps: cannot begin %s\n", argv[1]);
        return 1;
    }
    int status;
    r.pid = start_program(argv + 3);
    if (r.pid < 0 || waitpid(r.pid, &status, 0) < 0 || !WIFSTOPPED(status)) {
        fprintf(stderr, "record_steps: cannot start %s\n", argv[3]);
        return 1;
    }
    begin_trace(&r, argv[3]);
    step_through(&r);
    bytes_free(&r.payload);
    if (etl_writer_finish(r.w, 0, &err) != SPGO_OK || os_output_commit(file, &err) != SPGO_OK) {
        fprintf(stderr, "record_steps: %s\n", err.sentence);
        return 1;
    }
    fprintf(stderr, "%" PRIu64 " taken branches, %" PRIu64 " samples\n", r.taken, r.samples);
    return 0;
}
