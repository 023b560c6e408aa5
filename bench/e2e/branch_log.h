/*
 * The log that branch_plugin.c writes and recording.c reads. 64-bit words, little-endian:
 *
 *   magic, start of the program's code, its end, 1 if other threads ran unrecorded else 0,
 *   taken branches between two samples, instructions between two (0: not sampled)
 *
 * Then records that begin with their kind:
 *   BRANCHES  time, n, then n times {from, to}, newest first
 *   IP        time, ip
 *   STEP      begin, last, instructions, to, count, taken: so often the instructions from begin to
 *             the one at last ran and the next one after them was at `to`; all addresses
 *   END       the last record
 *
 * A time is the number of taken branches until then.
 */
#ifndef BRANCH_LOG_H
#define BRANCH_LOG_H

#define BRANCH_LOG_MAGIC UINT64_C(0x31474f4c4f475053) /* "SPGOLOG1" */

enum {
    BRANCH_LOG_END,
    BRANCH_LOG_BRANCHES,
    BRANCH_LOG_IP,
    BRANCH_LOG_STEP,

    BRANCH_LOG_HEADER_WORDS = 6,
    BRANCH_LOG_DEPTH = 32 /* taken branches in a sample */
};

#endif
