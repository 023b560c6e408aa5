/*
 * A plugin for QEMU's user-mode emulator (x86-64) that counts and samples exactly, so that a
 * measurement gives the same numbers on any machine, with or without performance counters:
 *
 *   qemu-x86_64 -plugin branch_plugin.so,out=LOG[,branches=N][,ips=N][,seed=N] PROGRAM ...
 *
 * - out: how often each straight run of instructions ran and what came next (see branch_log.h),
 *   which gives instructions, taken branches, blocks and edges;
 * - branches: after each N taken branches, the last 32 of them;
 * - ips: an instruction pointer about each N executed instructions, at a distance drawn from N/2 to
 *   3N/2 by a fixed sequence, so that no loop of the program keeps step with it;
 * - seed: another sequence, for another recording of the same run.
 *
 * The unit of emulation, the translation block, ends at every branch, but also at page boundaries.
 * It is accounted when the next one starts: only then is it known whether it left by its branch,
 * and whether its last instruction ran at all. One that crosses a page is taken back by the
 * emulator and starts the next block; an iteration of a repeated string instruction looks the same.
 *
 * Only the first thread is recorded; the log says if there were others.
 */
#include "branch_log.h"
#include "qemu_plugin_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int qemu_plugin_version = QEMU_PLUGIN_VERSION;

typedef struct block block;

/* What came after a block; the most recently created stands first. */
typedef struct step {
    struct step *link;
    uint64_t to, count;
    uint32_t insn_count; /* executed: one less than the block's if its last was taken back */
    bool taken;
} step;

typedef enum transfer { TRANSFER_NONE, TRANSFER_CONDITIONAL, TRANSFER_ALWAYS } transfer;

struct block {
    step *steps;
    block *link; /* all blocks */
    uint64_t begin, last, end;
    transfer transfer; /* of the last instruction */
    uint32_t insn_count;
    uint16_t insn_off[]; /* from begin, of each instruction */
};

static struct recorder {
    FILE *log;
    pid_t pid;
    block *blocks;
    block *current; /* has started and is not yet accounted */
    bool has_threads;
    uint64_t taken_count;
    uint64_t branch_period, ip_period;
    int64_t branches_left, insns_left; /* until the next sample */
    uint64_t random;
    uint64_t ring[BRANCH_LOG_DEPTH][2]; /* {from, to}, the oldest at taken_count % depth */
} self = {.random = 0x9e3779b97f4a7c15};

static void die(const char *text)
{
    qemu_plugin_outs(text);
    _Exit(1);
}

static void *allocate(size_t size_bytes)
{
    void *p = calloc(1, size_bytes);
    if (!p)
        die("branch_plugin: out of memory\n");
    return p;
}

static void put(const uint64_t *words, size_t count)
{
    uint8_t bytes[8 * (4 + 2 * BRANCH_LOG_DEPTH)];
    for (size_t i = 0; i < 8 * count; i++)
        bytes[i] = (uint8_t)(words[i / 8] >> 8 * (i % 8));
    fwrite(bytes, 8, count, self.log);
}

/* ------------------------------------------------------------------ samples */

static uint64_t next_ip_distance(void)
{
    self.random ^= self.random << 13;
    self.random ^= self.random >> 7;
    self.random ^= self.random << 17;
    return self.ip_period / 2 + 1 + self.random % self.ip_period;
}

/* The countdown ran out within the last insn_count instructions. */
static void sample_ip(const block *b, uint32_t insn_count)
{
    while (self.insns_left <= 0) {
        /* -0: the last instruction, -1 the one before it, ... */
        uint32_t index = insn_count - 1 - (uint32_t)-self.insns_left;
        put((const uint64_t[]){BRANCH_LOG_IP, self.taken_count, b->begin + b->insn_off[index]}, 3);
        self.insns_left += (int64_t)next_ip_distance();
    }
}

static void sample_branches(void)
{
    uint64_t n = self.taken_count < BRANCH_LOG_DEPTH ? self.taken_count : BRANCH_LOG_DEPTH;
    uint64_t words[3 + 2 * BRANCH_LOG_DEPTH] = {BRANCH_LOG_BRANCHES, self.taken_count, n};
    for (uint64_t i = 0; i < n; i++)
        memcpy(&words[3 + 2 * i], self.ring[(self.taken_count - 1 - i) % BRANCH_LOG_DEPTH], 16);
    put(words, 3 + 2 * n);
    self.branches_left = (int64_t)self.branch_period;
}

/* ------------------------------------------------------------------ execution */

static step *new_step(block *b, uint64_t to)
{
    step *s = allocate(sizeof *s);
    bool taken_back = to == b->last;
    bool goes_on = to == b->end && b->transfer != TRANSFER_ALWAYS;
    s->to = to;
    s->insn_count = b->insn_count - taken_back;
    s->taken = b->transfer != TRANSFER_NONE && !taken_back && !goes_on;
    s->link = b->steps;
    b->steps = s;
    return s;
}

static void account(block *b, uint64_t to)
{
    step *s = b->steps;
    while (s && s->to != to)
        s = s->link;
    if (!s)
        s = new_step(b, to);
    s->count++;
    self.insns_left -= s->insn_count;
    if (self.insns_left <= 0 && self.ip_period)
        sample_ip(b, s->insn_count);
    if (!s->taken)
        return;
    uint64_t *slot = self.ring[self.taken_count++ % BRANCH_LOG_DEPTH];
    slot[0] = b->last;
    slot[1] = to;
    if (--self.branches_left == 0)
        sample_branches();
}

static void on_exec(unsigned vcpu, void *user)
{
    if (vcpu != 0)
        return;
    block *b = user;
    if (self.current)
        account(self.current, b->begin);
    self.current = b;
}

/* ------------------------------------------------------------------ translation */

static transfer transfer_of(const uint8_t *code, size_t size)
{
    size_t i = 0;
    /* Prefixes before branches: operand size, segments (also hints and notrack), rep, bnd, REX. */
    while (i < size && (memchr("\x66\x2e\x3e\x64\x65\xf2\xf3", code[i], 7) || code[i] >> 4 == 4))
        i++;
    if (i >= size)
        return TRANSFER_NONE;
    uint8_t op = code[i];
    uint8_t next = i + 1 < size ? code[i + 1] : 0;
    if (op >> 4 == 7 || (op >= 0xe0 && op <= 0xe3) || (op == 0x0f && next >> 4 == 8))
        return TRANSFER_CONDITIONAL;
    uint8_t reg = next >> 3 & 7; /* of FF: 2 and 3 call, 4 and 5 jump */
    bool always = op == 0xe8 || op == 0xe9 || op == 0xeb || op == 0xc2 || op == 0xc3 ||
                  (op == 0xff && reg >= 2 && reg <= 5);
    return always ? TRANSFER_ALWAYS : TRANSFER_NONE;
}

static void on_translate(qemu_plugin_id_t id, qemu_plugin_tb *tb)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(tb);
    block *b = allocate(sizeof *b + n * sizeof b->insn_off[0]);
    b->begin = qemu_plugin_tb_vaddr(tb);
    b->insn_count = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        b->insn_off[i] =
            (uint16_t)(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i)) - b->begin);
    const qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
    size_t size = qemu_plugin_insn_size(last);
    b->last = qemu_plugin_insn_vaddr(last);
    b->end = b->last + size;
    b->transfer = transfer_of(qemu_plugin_insn_data(last), size);
    b->link = self.blocks;
    self.blocks = b;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_exec, QEMU_PLUGIN_CB_NO_REGS, b);
}

static void on_vcpu(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    self.has_threads |= vcpu != 0;
}

/* ------------------------------------------------------------------ start and end */

static void put_header(void)
{
    put((const uint64_t[BRANCH_LOG_HEADER_WORDS]){BRANCH_LOG_MAGIC, qemu_plugin_start_code(),
                                                  qemu_plugin_end_code(), self.has_threads,
                                                  self.branch_period, self.ip_period},
        BRANCH_LOG_HEADER_WORDS);
}

static void on_program_exit(qemu_plugin_id_t id, void *user)
{
    (void)id, (void)user;
    if (getpid() != self.pid) { /* a fork; the records it has buffered are its parent's */
        close(fileno(self.log));
        return;
    }
    if (self.current)
        account(self.current, self.current->end);
    for (const block *b = self.blocks; b; b = b->link)
        for (const step *s = b->steps; s; s = s->link)
            if (s->insn_count)
                put((const uint64_t[]){BRANCH_LOG_STEP, b->begin,
                                       b->begin + b->insn_off[s->insn_count - 1], s->insn_count,
                                       s->to, s->count, s->taken},
                    7);
    put((const uint64_t[]){BRANCH_LOG_END}, 1);
    rewind(self.log);
    put_header();
    if (fflush(self.log) != 0 || ferror(self.log) || fclose(self.log) != 0)
        die("branch_plugin: the log cannot be written\n");
}

static bool parse_number(const char *text, uint64_t *value)
{
    char *end;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

static bool parse_option(const char *text)
{
    uint64_t seed;
    if (strncmp(text, "out=", 4) == 0)
        return (self.log = fopen(text + 4, "wb")) != NULL;
    if (strncmp(text, "branches=", 9) == 0)
        return parse_number(text + 9, &self.branch_period);
    if (strncmp(text, "ips=", 4) == 0)
        return parse_number(text + 4, &self.ip_period);
    if (strncmp(text, "seed=", 5) != 0 || !parse_number(text + 5, &seed))
        return false;
    self.random += seed * 0xbf58476d1ce4e5b9;
    return true;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0) {
        fputs("branch_plugin: runs in qemu-x86_64 only\n", stderr);
        return 1;
    }
    for (int i = 0; i < argc; i++) {
        if (!parse_option(argv[i])) {
            fprintf(stderr, "branch_plugin: bad option '%s'\n", argv[i]);
            return 1;
        }
    }
    if (!self.log) {
        fputs("branch_plugin: say where the log goes: out=FILE\n", stderr);
        return 1;
    }
    self.pid = getpid();
    self.branches_left = (int64_t)self.branch_period;
    self.insns_left = self.ip_period ? (int64_t)next_ip_distance() : 0;
    put((const uint64_t[BRANCH_LOG_HEADER_WORDS]){0}, BRANCH_LOG_HEADER_WORDS);
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_atexit_cb(id, on_program_exit, NULL);
    return 0;
}
