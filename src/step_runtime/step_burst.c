/*
 * The two signal handlers. The timer's begins a burst by setting the trap flag in the interrupted
 * context; from then on each instruction ends in SIGTRAP, and its handler looks at where control
 * went. It sets the flag again each time, since a popf may have cleared it.
 *
 * A burst never enters a system call that makes another context out of this one (a thread, a
 * process, a program, the end of a signal handler) or that blocks signals: a trap that meets a
 * blocked SIGTRAP kills. It ends before them, and what it has seen so far is a shorter record.
 */
#include <step_runtime/step_internal.h>

#include <sys/ucontext.h>

enum {
    REGISTER_FLAGS_SET = 0x202, /* of user code: interrupts on, and the bit that is always 1 */
    FLAGS_STATUS = 0x8D5,       /* CF PF AF ZF SF OF */
    INSN_BYTES_MAX = 15
};

__thread step_self step_me;

/* ------------------------------------------------------------------ the end of a burst */

/* Recorded oldest first; the file has the newest first. */
static void reverse(step_record *r, uint32_t count)
{
    uint64_t(*pairs)[2] = (uint64_t(*)[2])(r + 1);
    uint8_t *kinds = (uint8_t *)(pairs + step_this.options.branches_max);
    for (uint32_t i = 0, j = count - 1; i < j; i++, j--) {
        for (unsigned side = 0; side < 2; side++) {
            uint64_t addr = pairs[i][side];
            pairs[i][side] = pairs[j][side];
            pairs[j][side] = addr;
        }
        uint8_t kind = kinds[i];
        kinds[i] = kinds[j];
        kinds[j] = kind;
    }
}

static void list_thread(step_self *self)
{
    uint64_t first;
    step_thread *t = self->listed ? NULL : step_slots_reserve(1, &first);
    if (!t)
        return;
    self->listed = true;
    t->slot.time_ns = self->begin_time_ns;
    t->tid = self->tid;
    t->cpu_ns = 0;
    step_slot_finish(t, STEP_SLOT_THREAD, 1);
}

static void write_record(step_self *self, uint32_t stop, uint64_t end_ip, uint64_t time_ns,
                         uint64_t cost_ns)
{
    step_record *r = self->record;
    uint32_t cpu;
    if (step_sys(SYS_getcpu, (long)&cpu, 0, 0, 0) != 0)
        cpu = UINT32_MAX;
    reverse(r, self->taken);
    r->slot.time_ns = time_ns;
    r->tid = self->tid;
    r->cpu = cpu;
    r->branch_count = (uint16_t)self->taken;
    r->stop = (uint16_t)stop;
    r->step_count = self->step_count;
    r->start_ip = self->start_ip;
    r->end_ip = end_ip;
    r->start_time_ns = self->start_time_ns;
    r->cpu_ns = cost_ns;
    step_slot_finish(r, STEP_SLOT_RECORD, 1);
    self->record = NULL;
}

static void count_burst(const step_self *self, uint32_t stop, uint64_t cost_ns)
{
    step_header *h = step_this.header;
    step_count(&h->step_count, self->step_count);
    step_count(&h->step_cpu_ns, cost_ns);
    if (self->taken == 0) {
        step_count(&h->empty_count, 1);
    } else {
        step_count(&h->record_count, 1);
        step_count(&h->branch_count, self->taken);
        step_count(&h->short_count, stop != STEP_STOP_FULL);
    }
    uint64_t cpu_ns = step_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - step_this.start_cpu_ns;
    __atomic_store_n(&h->process_cpu_ns, cpu_ns, __ATOMIC_RELAXED);
}

/* What that many steps cost, going by all that were taken so far. */
static uint64_t guess_cost_ns(uint32_t steps)
{
    const uint64_t guess_ns = 8000;
    uint64_t total = __atomic_load_n(&step_this.header->step_count, __ATOMIC_RELAXED);
    uint64_t cpu_ns = __atomic_load_n(&step_this.header->step_cpu_ns, __ATOMIC_RELAXED);
    return total ? cpu_ns / total * steps : guess_ns * steps;
}

static void end(step_self *self, uint32_t stop, uint64_t end_ip, bool broken)
{
    uint64_t time_ns = step_clock_ns(CLOCK_MONOTONIC);
    self->active = false;
    list_thread(self);
    step_images_refresh(time_ns);
    uint64_t cost_ns = step_clock_ns(CLOCK_THREAD_CPUTIME_ID) - self->start_cpu_ns;
    if (broken) {
        uint64_t guess_ns = guess_cost_ns(self->step_count);
        cost_ns = guess_ns < cost_ns ? guess_ns : cost_ns;
    }
    if (self->taken)
        write_record(self, stop, end_ip, time_ns, cost_ns);
    count_burst(self, stop, cost_ns);
    self->end_cpu_ns = self->start_cpu_ns + cost_ns;
    step_thread_arm(self, cost_ns);
}

/* ------------------------------------------------------------------ before an instruction */

/* Would the call make another context, block SIGTRAP or change where thread-local data is? */
static bool must_not_be_stepped(const greg_t *regs)
{
    switch (regs[REG_RAX]) {
    case SYS_rt_sigprocmask:
        return regs[REG_RSI] != 0 && regs[REG_RDI] != SIG_UNBLOCK;
    case SYS_rt_sigaction:
        return regs[REG_RDI] == SIGTRAP;
    case SYS_rt_sigreturn:
    case SYS_clone:
    case SYS_clone3:
    case SYS_fork:
    case SYS_vfork:
    case SYS_execve:
    case SYS_execveat:
    case SYS_exit:
    case SYS_exit_group:
    case SYS_arch_prctl:
    case SYS_prctl:
    case SYS_seccomp:
    case SYS_ptrace:
        return true;
    default:
        return false;
    }
}

/* May the instruction at self->prev be stepped, or -1, or why not. */
static int refuse(step_self *self, const greg_t *regs)
{
    switch (self->prev.op) {
    case STEP_OP_REFUSED:
        return STEP_STOP_CODE;
    case STEP_OP_POPF: /* the program may want the trap flag for itself */
        return *(const uint16_t *)regs[REG_RSP] & STEP_FLAG_TRAP ? STEP_STOP_CODE : -1;
    case STEP_OP_SYSCALL:
        if (must_not_be_stepped(regs))
            return STEP_STOP_SYSCALL;
        /* The kernel returns with the flag set, and the next trap comes an instruction later. */
        self->after_syscall = true;
        self->prev = step_decode(self->prev.next, self->code_addr + self->code_size);
        return self->prev.op > STEP_BRANCH_FAR ? STEP_STOP_SYSCALL : -1;
    default:
        return -1;
    }
}

/* Looks at the instruction that is about to run; -1, or why the burst must end before it. */
static int look_ahead(step_self *self, uint64_t ip, const greg_t *regs)
{
    if (ip - self->code_addr >= self->code_size) {
        self->code_size = 0;
        if (!step_images_find(ip, &self->code_addr, &self->code_size))
            return STEP_STOP_CODE;
    }
    self->prev = step_decode(ip, self->code_addr + self->code_size);
    return self->prev.op <= STEP_BRANCH_FAR ? -1 : refuse(self, regs);
}

/* ------------------------------------------------------------------ behind an instruction */

enum { WENT_ON, WENT_AWAY, BRANCHED };

/* How control came from the instruction that ran to ip. */
static int follow(const step_insn *ran, uint64_t ip, const greg_t *regs)
{
    if (ran->op > STEP_BRANCH_FAR || ran->op == STEP_OP_PLAIN)
        return ip - ran->addr <= INSN_BYTES_MAX ? WENT_ON : WENT_AWAY; /* 0: a rep goes on */
    if (!step_is_direct(ran))
        return BRANCHED;
    if (ip == ran->target && ran->op != STEP_BRANCH_JCC)
        return BRANCHED;
    if (ip == ran->target && ip == ran->next) {
        const step_condition c = {(uint64_t)regs[REG_EFL], (uint64_t)regs[REG_RCX]};
        return step_jumps(ran, &c) ? BRANCHED : WENT_ON;
    }
    if (ran->op == STEP_BRANCH_JCC && (ip == ran->target || ip == ran->next))
        return ip == ran->target ? BRANCHED : WENT_ON;
    return WENT_AWAY;
}

/* Takes the trap flag out of what the instruction left in the program's view. */
static void hide_flag(step_self *self, greg_t *regs)
{
    if (self->prev.op == STEP_OP_PUSHF) {
        /* Not when it faulted and a handler sent control elsewhere: the stack is another then. */
        uint64_t length = (uint64_t)regs[REG_RIP] - self->prev.addr;
        if (length > 0 && length <= INSN_BYTES_MAX)
            *(uint16_t *)regs[REG_RSP] &= (uint16_t)~STEP_FLAG_TRAP;
    } else if (self->after_syscall) {
        /* r11 holds the flags, unless the instruction behind the call has overwritten it. */
        greg_t differs = (regs[REG_R11] ^ regs[REG_EFL]) & ~(greg_t)(FLAGS_STATUS | STEP_FLAG_TRAP);
        if (differs == 0 && (regs[REG_R11] & REGISTER_FLAGS_SET) == REGISTER_FLAGS_SET)
            regs[REG_R11] &= ~(greg_t)STEP_FLAG_TRAP;
    }
}

static bool is_wanted(unsigned kind)
{
    static const uint16_t filters[] = {
        [STEP_BRANCH_JCC] = STEP_FILTER_JCC,
        [STEP_BRANCH_NEAR_REL_CALL] = STEP_FILTER_NEAR_REL_CALL,
        [STEP_BRANCH_NEAR_IND_CALL] = STEP_FILTER_NEAR_IND_CALL,
        [STEP_BRANCH_NEAR_RET] = STEP_FILTER_NEAR_RET,
        [STEP_BRANCH_NEAR_IND_JMP] = STEP_FILTER_NEAR_IND_JMP,
        [STEP_BRANCH_NEAR_REL_JMP] = STEP_FILTER_NEAR_REL_JMP,
        [STEP_BRANCH_FAR] = STEP_FILTER_FAR,
    };
    return !(filters[kind] & step_this.options.filter);
}

static void add_branch(step_self *self, uint64_t to)
{
    uint64_t(*pairs)[2] = (uint64_t(*)[2])(self->record + 1);
    uint8_t *kinds = (uint8_t *)(pairs + step_this.options.branches_max);
    if (!is_wanted(self->prev.op))
        return;
    pairs[self->taken][0] = self->prev.addr;
    pairs[self->taken][1] = to;
    kinds[self->taken++] = self->prev.op;
}

/* One instruction ran. -1 when the burst goes on, else why it ended. */
static int step(step_self *self, greg_t *regs)
{
    uint64_t ip = (uint64_t)regs[REG_RIP];
    self->step_count++;
    hide_flag(self, regs);
    /* Where the trap does come right behind a system call, prev has not run yet. */
    bool ran = !self->after_syscall || ip != self->prev.addr;
    self->after_syscall = false;
    int went = ran ? follow(&self->prev, ip, regs) : WENT_ON;
    if (went == WENT_AWAY)
        return STEP_STOP_JUMP;
    if (went == BRANCHED)
        add_branch(self, ip);
    if (self->taken == step_this.options.branches_max)
        return STEP_STOP_FULL;
    if (self->step_count >= self->step_limit)
        return self->step_limit ? STEP_STOP_STEPS : STEP_STOP_THREAD_END;
    return look_ahead(self, ip, regs);
}

/* ------------------------------------------------------------------ the handlers */

/* A signal of the program's own, perhaps within a burst: its handler finds the flag as it was. */
static void forward(step_self *self, int sig, siginfo_t *info, ucontext_t *context)
{
    greg_t *flags = &context->uc_mcontext.gregs[REG_EFL];
    greg_t ours = self->active ? *flags & STEP_FLAG_TRAP : 0;
    *flags &= ~ours;
    step_signals_forward(sig, info, context);
    *flags |= ours;
}

void step_on_trap(int sig, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    greg_t *regs = c->uc_mcontext.gregs;
    step_self *self = &step_me;
    if (info->si_code == TRAP_TRACE && self->active) {
        int stop = step(self, regs);
        if (stop < 0) {
            regs[REG_EFL] |= STEP_FLAG_TRAP;
            return;
        }
        regs[REG_EFL] &= ~(greg_t)STEP_FLAG_TRAP;
        end(self, (uint32_t)stop, (uint64_t)regs[REG_RIP], false);
    } else if (info->si_code == TRAP_TRACE && self->stray_count > 0) {
        self->stray_count--;
        step_count(&step_this.header->stray_count, 1);
        regs[REG_EFL] &= ~(greg_t)STEP_FLAG_TRAP;
    } else {
        forward(self, sig, info, c);
    }
}

/* A burst that no trap comes from any more: control left it through a signal handler, and what came
 * then was not stepped. */
static void end_broken(step_self *self)
{
    step_count(&step_this.header->broken_count, 1);
    self->stray_count++;
    end(self, STEP_STOP_JUMP, self->prev.addr, true);
}

static bool begin(step_self *self, greg_t *regs)
{
    uint64_t first;
    if (!step_output_open())
        return false;
    self->taken = self->step_count = 0;
    self->after_syscall = false;
    self->start_ip = (uint64_t)regs[REG_RIP];
    self->start_time_ns = step_clock_ns(CLOCK_MONOTONIC);
    self->start_cpu_ns = step_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    self->owed_ns -= (int64_t)(self->start_cpu_ns - self->end_cpu_ns);
    self->step_limit = step_this.steps_max;
    self->code_size = 0;
    int stop = look_ahead(self, self->start_ip, regs);
    if (!self->record) /* after a first look at the images: they should come first */
        self->record = step_slots_reserve(1, &first);
    if (!self->record)
        return false;
    if (stop >= 0) {
        end(self, (uint32_t)stop, self->start_ip, false);
        return true;
    }
    self->active = true;
    step_thread_watch(self);
    regs[REG_EFL] |= STEP_FLAG_TRAP;
    return true;
}

void step_on_timer(int sig, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    greg_t *regs = c->uc_mcontext.gregs;
    step_self *self = &step_me;
    if (info->si_code != SI_TIMER || info->si_value.sival_ptr != &step_this) {
        forward(self, sig, info, c);
        return;
    }
    if (!self->timed || atomic_load_explicit(&step_this.stopped, memory_order_relaxed))
        return;
    if (self->active && regs[REG_EFL] & STEP_FLAG_TRAP)
        return;
    if (self->active) {
        end_broken(self);
    } else if (regs[REG_EFL] & STEP_FLAG_TRAP || !step_signals_ready(c)) {
        step_count(&step_this.header->blocked_count, 1);
        step_thread_arm(self, 0);
    } else if (!begin(self, regs)) {
        step_thread_arm(self, 0);
    }
}
