/*
 * Which events of a file are wanted: by kind, by time, by process.
 *
 * Traces name a process in a few events and identify it by numbers in all others, and the naming
 * event may stand behind the others (a rundown at the end). So a first pass gathers the ids, and
 * an id that served several processes counts when any of them was asked for.
 */
#include "dump.h"

#include <base/text.h>

#include <string.h>

enum { NS_PER_SECOND = 1000000000, FRACTION_DIGITS = 7 };

/* ------------------------------------------------------------------ time */

typedef struct scanner {
    const char *p;
    bool failed;
} scanner;

static void skip_char(scanner *s, char c)
{
    if (*s->p != c)
        s->failed = true;
    else
        s->p++;
}

/* Exactly `digits` digits. */
static uint64_t scan_fixed(scanner *s, int digits)
{
    uint64_t v = 0;
    for (int i = 0; i < digits && !s->failed; i++) {
        if (*s->p < '0' || *s->p > '9')
            s->failed = true;
        else
            v = 10 * v + (uint64_t)(*s->p++ - '0');
    }
    return v;
}

/* A fraction of up to `digits` digits in units of 10^-digits; more digits are dropped. */
static uint64_t scan_fraction(scanner *s, int digits)
{
    uint64_t v = 0;
    int seen = 0;
    for (; *s->p >= '0' && *s->p <= '9'; s->p++) {
        if (seen < digits) {
            v = 10 * v + (uint64_t)(*s->p - '0');
            seen++;
        }
    }
    for (; seen < digits; seen++)
        v *= 10;
    return v;
}

/* Days from 1601-01-01 to the date, in the Gregorian calendar. */
static uint64_t days_since_1601(uint64_t year, uint64_t month, uint64_t day)
{
    static const uint16_t before[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    uint64_t past = year - 1601; /* a cycle of leap years starts at 1601 */
    uint64_t days = 365 * past + past / 4 - past / 100 + past / 400;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days + before[month - 1] + (leap && month > 2 ? 1 : 0) + day - 1;
}

static bool parse_wall_clock(const char *text, uint64_t *filetime)
{
    scanner s = {.p = text};
    uint64_t year = scan_fixed(&s, 4);
    skip_char(&s, '-');
    uint64_t month = scan_fixed(&s, 2);
    skip_char(&s, '-');
    uint64_t day = scan_fixed(&s, 2);
    skip_char(&s, 'T');
    uint64_t hour = scan_fixed(&s, 2);
    skip_char(&s, ':');
    uint64_t minute = scan_fixed(&s, 2);
    skip_char(&s, ':');
    uint64_t second = scan_fixed(&s, 2);
    uint64_t fraction = 0;
    if (!s.failed && *s.p == '.') {
        s.p++;
        fraction = scan_fraction(&s, FRACTION_DIGITS);
    }
    if (!s.failed && *s.p == 'Z')
        s.p++;
    if (s.failed || *s.p || year < 1601 || month < 1 || month > 12 || day < 1 || day > 31 ||
        hour > 23 || minute > 59 || second > 60)
        return false;
    uint64_t seconds =
        ((days_since_1601(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *filetime = seconds * 10000000 + fraction;
    return true;
}

static bool parse_seconds(const char *text, uint64_t *ns)
{
    const char *point = strchr(text, '.');
    size_t len = point ? (size_t)(point - text) : strlen(text);
    uint64_t seconds = 0;
    uint64_t fraction = 0;
    if (len && !cli_number(text, len, 10, &seconds))
        return false;
    if (point) {
        scanner s = {.p = point + 1};
        fraction = scan_fraction(&s, 9);
        if (*s.p || (len == 0 && point[1] == '\0'))
            return false;
    }
    if ((len == 0 && !point) || seconds > UINT64_MAX / NS_PER_SECOND - 1)
        return false;
    *ns = seconds * NS_PER_SECOND + fraction;
    return true;
}

bool dump_parse_limit(const char *text, dump_limit *limit)
{
    size_t len = strlen(text);
    if (len > 3 && text_equal_nocase(text_str(text + len - 3), text_str("raw"))) {
        limit->clock = DUMP_RAW;
        return cli_number(text, len - 3, 10, &limit->value);
    }
    if (strchr(text, 'T')) {
        limit->clock = DUMP_WALL;
        return parse_wall_clock(text, &limit->value);
    }
    limit->clock = DUMP_SECONDS;
    return parse_seconds(text, &limit->value);
}

static uint64_t in_clock(const dump_time *t, dump_clock clock)
{
    return clock == DUMP_RAW ? t->raw : clock == DUMP_WALL ? t->filetime : t->relative_ns;
}

bool dump_in_window(const dump *d, const dump_time *t)
{
    if (d->from.clock != DUMP_NO_LIMIT && in_clock(t, d->from.clock) < d->from.value)
        return false;
    return d->to.clock == DUMP_NO_LIMIT || in_clock(t, d->to.clock) <= d->to.value;
}

/* ------------------------------------------------------------------ kinds */

bool dump_wants_event(const dump *d, spgo_str name, uint64_t number)
{
    if (!d->events->given || cli_match_any(d->events, name))
        return true;
    for (size_t i = 0; number != UINT64_MAX && i < d->events->item_count; i++) {
        const char *item = d->events->items[i];
        uint64_t wanted;
        if (cli_number(item, strlen(item), 10, &wanted) && wanted == number)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ processes */

bool dump_wants_name(const dump *d, spgo_str process_name)
{
    return cli_match_any(d->processes, text_base_name(process_name));
}

void dump_saw_process(dump_processes *p, const dump *d, uint32_t pid, spgo_str name)
{
    uint64_t key = pid;
    if (dump_wants_name(d, name))
        counts_add(&p->pids, &key, 1, 1);
}

void dump_saw_thread(dump_processes *p, uint32_t pid, uint32_t tid)
{
    uint64_t key = (uint64_t)pid << 32 | tid;
    counts_add(&p->threads, &key, 1, 1);
}

bool dump_end_gathering(dump_processes *p, const dump *d)
{
    for (size_t i = 0; i < d->processes->item_count; i++) {
        const char *item = d->processes->items[i];
        uint64_t pid;
        if (cli_number(item, strlen(item), 10, &pid))
            counts_add(&p->pids, &pid, 1, 1);
    }
    for (size_t i = 0; i < p->threads.slot_count; i++) {
        const counts_slot *slot = &p->threads.slots[i];
        uint64_t tid = (uint32_t)slot->key;
        if (slot->count && counts_get(&p->pids, slot->key >> 32))
            counts_add(&p->tids, &tid, 1, 1);
    }
    bool complete = !p->pids.failed && !p->threads.failed && !p->tids.failed;
    counts_free(&p->threads);
    return complete;
}

bool dump_wants_pid(const dump_processes *p, uint32_t pid)
{
    return p->any || counts_get(&p->pids, pid) != 0;
}

bool dump_wants_tid(const dump_processes *p, uint32_t tid)
{
    return p->any || counts_get(&p->tids, tid) != 0;
}

void dump_processes_free(dump_processes *p)
{
    counts_free(&p->pids);
    counts_free(&p->tids);
    counts_free(&p->threads);
}
