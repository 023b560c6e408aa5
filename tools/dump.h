/*
 * spgo dump: what its files share. cmd_dump.c reads the command line and opens each file;
 * dump_filter.c decides which events are wanted; one file per format walks and prints.
 */
#ifndef DUMP_H
#define DUMP_H

#include <base/counts.h>
#include <base/diag.h>
#include <base/json.h>

#include "cli.h"

/* A limit of the time window, in the unit it was given in. */
typedef enum dump_clock { DUMP_NO_LIMIT, DUMP_SECONDS, DUMP_RAW, DUMP_WALL } dump_clock;
typedef struct dump_limit {
    dump_clock clock;
    uint64_t value; /* ns from the start, raw units, or 100 ns since 1601 */
} dump_limit;

/* The time of one event in all clocks. Formats without wall-clock times leave it 0. */
typedef struct dump_time {
    uint64_t relative_ns, raw, filetime;
} dump_time;

/* The processes asked for, as the ids that a first pass over the file found for them. */
typedef struct dump_processes {
    bool any; /* all are wanted */
    counts pids;
    counts tids;
    counts threads; /* pid << 32 | tid of every thread seen, until tids is made from it */
} dump_processes;

typedef struct dump {
    const cli_args *args;
    const char *file;
    os_input *in;
    spgo_span bytes;
    out *o;
    json j;
    bool show_headers, show_buffers, show_events, show_counts;
    bool in_file_order;
    const cli_value *events;    /* names, patterns or numbers */
    const cli_value *processes; /* names, patterns or ids */
    dump_limit from, to;
    uint64_t shown; /* events printed or counted */
} dump;

/* Each walks over one file and returns an exit code. */
int dump_etl(dump *d);
int dump_perfdata(dump *d);
int dump_spt(dump *d);
int dump_pe(dump *d);
int dump_elf(dump *d);
int dump_pdb(dump *d);
int dump_sampleprof(dump *d);

/* ------------------------------------------------------------------ printing (cmd_dump.c) */

/* A JSON line with its "type"; what a format names itself goes into its object "fields". */
void dump_open_line(dump *d, const char *type);
void dump_open_fields(dump *d);
void dump_close_fields(dump *d);
void dump_close_line(dump *d);
void dump_member_u64(dump *d, const char *key, uint64_t value);
void dump_member_text(dump *d, const char *key, const char *value);

/* Reports the findings as warnings; CLI_PARTIAL if one of them is damage. */
int dump_report(const dump *d, const diag *found);

/* ------------------------------------------------------------------ choosing (dump_filter.c) */

/* "12.5" (seconds from the start), "123456raw", "2024-05-01T12:00:00.5Z". */
bool dump_parse_limit(const char *text, dump_limit *limit);
bool dump_in_window(const dump *d, const dump_time *t);

/* Is an event of this name, and this number (a hook, type or opcode; UINT64_MAX: none), wanted? */
bool dump_wants_event(const dump *d, spgo_str name, uint64_t number);
bool dump_wants_name(const dump *d, spgo_str process_name);

/* Gathering: a process by its name, and a thread of a process. False without memory. */
void dump_saw_process(dump_processes *p, const dump *d, uint32_t pid, spgo_str name);
void dump_saw_thread(dump_processes *p, uint32_t pid, uint32_t tid);
bool dump_end_gathering(dump_processes *p, const dump *d);
bool dump_wants_pid(const dump_processes *p, uint32_t pid);
bool dump_wants_tid(const dump_processes *p, uint32_t tid);
void dump_processes_free(dump_processes *p);

#endif
