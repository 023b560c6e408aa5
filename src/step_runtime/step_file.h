/*
 * The file that libspgo_step.so leaves of each process (doc/formats/step.md): what the runtime
 * writes through a shared mapping and what src/format/step reads. Little-endian, x86-64 Linux.
 *
 *     header                      STEP_HEADER_BYTES
 *     chunks of chunk_bytes       each chunk_bytes / slot_bytes slots, then padding
 *
 * Slot i lies at header_bytes + i / per_chunk * chunk_bytes + i % per_chunk * slot_bytes. A slot is
 * reserved by adding to the header's slot_count and becomes valid when its kind is stored, as the
 * last of its fields: a slot of kind 0 is one that a thread was still writing, and is passed over.
 * Slots stand in the order of reservation, which is nearly that of time; a record can stand before
 * images that its burst was the first to see, so readers go by time_ns. A process leaves no file
 * before its first burst, and one for each program that it becomes by exec.
 *
 * The file's size is a multiple of what was preallocated and says nothing; slot_count does.
 */
#ifndef STEP_RUNTIME_STEP_FILE_H
#define STEP_RUNTIME_STEP_FILE_H

#include <stdint.h>

#define STEP_FILE_MAGIC "SPGOSTEP" /* 8 bytes, stored last: a file without it was never begun */
#define STEP_FILE_SUFFIX ".step"   /* <folder>/<pid>-<n>.step, n counting the files of that pid */

/* What the runtime is told by: the folder, and key=value with commas between. All values are
 * decimal numbers or 0x hexadecimal ones:
 *     overhead=PPM      share of CPU time that stepping may take, in millionths (default 50000)
 *     interval=NS       CPU time between bursts, in place of the overhead
 *     branches=N        taken branches of a burst, STEP_BRANCHES_MIN to _MAX (default 32)
 *     filter=MASK       kinds of branches to leave out (STEP_FILTER_...)
 *     signal=N          the signal of the timers, a real-time one (default SIGRTMAX - 5)
 *     seed=N            of the jitter, for tests; by default from the kernel
 */
#define STEP_ENV_DIR "SPGO_STEP_DIR"
#define STEP_ENV_OPTIONS "SPGO_STEP_OPTIONS"

enum {
    STEP_FILE_VERSION = 1,
    STEP_HEADER_BYTES = 4096,
    STEP_CHUNK_BYTES = 256 * 1024, /* as the runtime makes them; readers take the header's */
    STEP_COMMAND_BYTES = 2048,
    STEP_SLOT_HEAD_BYTES = 16,
    STEP_RECORD_BYTES = 64, /* of a record before its pairs */
    STEP_IMAGE_BYTES = 64,  /* of an image before its path */
    STEP_BRANCHES_MIN = 4,
    STEP_BRANCHES_MAX = 512,
    STEP_BRANCHES_DEFAULT = 32
};

/* The bits of ETW's LBR flags: a set one leaves that kind out. User code is all that is seen. */
enum {
    STEP_FILTER_JCC = 0x4,
    STEP_FILTER_NEAR_REL_CALL = 0x8,
    STEP_FILTER_NEAR_IND_CALL = 0x10,
    STEP_FILTER_NEAR_RET = 0x20,
    STEP_FILTER_NEAR_IND_JMP = 0x40,
    STEP_FILTER_NEAR_REL_JMP = 0x80,
    STEP_FILTER_FAR = 0x100,
    STEP_FILTER_ALL = 0x1FC
};

/* How the process of a file began, and what ended its file. */
enum { STEP_START_PROGRAM = 0, STEP_START_FORK = 1 };
enum { STEP_END_UNKNOWN = 0, STEP_END_EXIT = 1, STEP_END_EXEC = 2 };

/* Counters grow while the process runs; those of a process that was killed are of its last burst.
 */
typedef struct step_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t slot_bytes; /* STEP_RECORD_BYTES + 17 * branches_max, rounded up to 8 */
    uint32_t chunk_bytes;
    uint32_t branches_max;
    uint32_t filter;
    uint32_t pid;
    uint32_t parent_pid;
    uint32_t start_kind;
    uint32_t end_kind;
    uint64_t start_time_ns;     /* CLOCK_MONOTONIC, as all times */
    uint64_t end_time_ns;       /* 0 unless end_kind says how */
    uint64_t start_realtime_ns; /* CLOCK_REALTIME at start_time_ns */
    uint64_t interval_ns;       /* 0: by overhead */
    uint32_t overhead_ppm;
    uint32_t command_size; /* bytes of command */

    uint64_t slot_count;       /* reserved */
    uint64_t record_count;     /* of bursts written, short ones too */
    uint64_t short_count;      /* of these: ended before branches_max */
    uint64_t branch_count;     /* in records */
    uint64_t step_count;       /* instructions stepped, of all bursts */
    uint64_t empty_count;      /* bursts that ended without any branch: no record */
    uint64_t broken_count;     /* bursts that a longjmp out of a signal handler or the like ended */
    uint64_t lost_count;       /* bursts not begun or slots not written for want of room */
    uint64_t blocked_count;    /* ticks without a burst: SIGTRAP blocked or taken, foreign code */
    uint64_t stray_count;      /* traps that no burst expected */
    uint64_t image_lost_count; /* mappings that found no place in the runtime's table */
    uint64_t thread_count;     /* threads that had a timer */
    uint64_t timerless_count;  /* threads that got none */
    uint64_t step_cpu_ns;      /* CPU time of bursts, of all threads: the cost of recording */
    uint64_t process_cpu_ns;   /* CPU time since start_time_ns, bursts included: the overhead is
                                  step_cpu_ns / (process_cpu_ns - step_cpu_ns) */

    uint8_t reserved[304];
    uint8_t command[STEP_COMMAND_BYTES]; /* as /proc/PID/cmdline, a NUL after each word */
} step_header;

/* Kinds of slots. Other kinds are passed over by their span. */
enum {
    STEP_SLOT_UNFINISHED = 0,
    STEP_SLOT_RECORD = 1,
    STEP_SLOT_IMAGE = 2,     /* a mapping is there */
    STEP_SLOT_IMAGE_END = 3, /* a mapping is gone; no path */
    STEP_SLOT_TEXT = 4,      /* more of the path of the image before it */
    STEP_SLOT_THREAD = 5,    /* a thread's first burst; its time is the thread's start */
    STEP_SLOT_THREAD_END = 6 /* only of threads that had a burst */
};

typedef struct step_slot {
    uint32_t kind;
    uint32_t span;    /* slots that belong together, this one included: 1 but for images */
    uint64_t time_ns; /* record: the end of its burst. Image: when it was first seen */
} step_slot;

/* Why a burst ended. */
enum {
    STEP_STOP_FULL = 0,      /* branches_max branches */
    STEP_STOP_SYSCALL = 1,   /* before a system call that must not be stepped over */
    STEP_STOP_CODE = 2,      /* before an instruction or code that must not be stepped */
    STEP_STOP_STEPS = 3,     /* too many steps: a long rep, code with few branches */
    STEP_STOP_JUMP = 4,      /* control went elsewhere without a branch: a signal handler's doing */
    STEP_STOP_THREAD_END = 5 /* or an exec */
};

/*
 * A burst: branch_count pairs { from u64, to u64 }, the newest first, at STEP_RECORD_BYTES, and
 * branches_max bytes of STEP_BRANCH_ kinds in the same order behind the room for branches_max
 * pairs. Neighbouring pairs are adjacent in execution: from the older one's `to` to the newer one's
 * `from` no branch was taken, unless a filter left it out. The same holds from start_ip to the
 * oldest pair's `from` and from the newest pair's `to` to end_ip.
 */
typedef struct step_record {
    step_slot slot;
    uint32_t tid;
    uint32_t cpu; /* at the end of the burst; UINT32_MAX: unknown */
    uint16_t branch_count;
    uint16_t stop;
    uint32_t step_count;
    uint64_t start_ip; /* where the timer interrupted the program */
    uint64_t end_ip;
    uint64_t start_time_ns;
    uint64_t cpu_ns; /* CPU time of the burst */
} step_record;

enum {
    STEP_BRANCH_JCC = 1, /* loop and jrcxz too */
    STEP_BRANCH_NEAR_REL_CALL = 2,
    STEP_BRANCH_NEAR_IND_CALL = 3,
    STEP_BRANCH_NEAR_RET = 4,
    STEP_BRANCH_NEAR_IND_JMP = 5,
    STEP_BRANCH_NEAR_REL_JMP = 6,
    STEP_BRANCH_FAR = 7
};

enum { STEP_PROT_READ = 1, STEP_PROT_WRITE = 2, STEP_PROT_EXEC = 4 };

/*
 * A mapping: each executable one, and of each file also those that begin it (file_offset 0), where
 * an ELF or PE image has its base. The path follows at STEP_IMAGE_BYTES and goes on in the slots of
 * kind STEP_SLOT_TEXT behind it, from STEP_SLOT_HEAD_BYTES of each. It is as /proc/PID/maps gives
 * it: empty for anonymous memory, "[vdso]" and the like for the kernel's.
 */
typedef struct step_image {
    step_slot slot;
    uint64_t start_addr;
    uint64_t size_bytes;
    uint64_t file_offset;
    uint64_t inode;
    uint32_t dev_major;
    uint32_t dev_minor;
    uint32_t prot;
    uint32_t path_size;
} step_image;

typedef struct step_thread {
    step_slot slot;
    uint32_t tid;
    uint32_t reserved;
    uint64_t cpu_ns; /* the thread's CPU time at that moment */
} step_thread;

#ifdef __cplusplus
#define STEP_ASSERT(condition, text) static_assert(condition, text)
#else
#define STEP_ASSERT(condition, text) _Static_assert(condition, text)
#endif
STEP_ASSERT(sizeof(step_header) == 2560, "no padding");
STEP_ASSERT(sizeof(step_slot) == STEP_SLOT_HEAD_BYTES, "no padding");
STEP_ASSERT(sizeof(step_record) == STEP_RECORD_BYTES, "no padding");
STEP_ASSERT(sizeof(step_image) == STEP_IMAGE_BYTES, "no padding");
STEP_ASSERT(sizeof(step_thread) == 32, "no padding");

#endif
