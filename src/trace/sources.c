/* What samples come from: the counters of a run, and what their names stand for. */
#include <trace/trace_internal.h>

#include <base/limits.h>
#include <base/text.h>

#include <stdlib.h>

trace_counter trace_counter_of_name(spgo_str name)
{
    static const struct {
        const char *name; /* may end in *, for the modifiers that perf appends */
        trace_counter counter;
    } known[] = {
        {"Timer", TRACE_COUNTER_TIMER},
        {"cpu-clock*", TRACE_COUNTER_TIMER},
        {"task-clock*", TRACE_COUNTER_TIMER},
        {"UnhaltedCoreCycles", TRACE_COUNTER_CYCLES},
        {"TotalCycles", TRACE_COUNTER_CYCLES},
        {"cycles*", TRACE_COUNTER_CYCLES},
        {"cpu-cycles*", TRACE_COUNTER_CYCLES},
        {"cpu_clk_unhalted.*", TRACE_COUNTER_CYCLES},
        {"InstructionRetired", TRACE_COUNTER_INSTRUCTIONS},
        {"InstructionsRetired", TRACE_COUNTER_INSTRUCTIONS},
        {"instructions*", TRACE_COUNTER_INSTRUCTIONS},
        {"inst_retired.*", TRACE_COUNTER_INSTRUCTIONS},
        {"BranchInstructions", TRACE_COUNTER_BRANCHES},
        {"BranchInstructionRetired", TRACE_COUNTER_BRANCHES},
        {"BranchInstructionsRetired", TRACE_COUNTER_BRANCHES},
        {"branches*", TRACE_COUNTER_BRANCHES},
        {"branch-instructions*", TRACE_COUNTER_BRANCHES},
        {"br_inst_retired.*", TRACE_COUNTER_BRANCHES},
        {"ex_ret_brn*", TRACE_COUNTER_BRANCHES},
        {"br_retired*", TRACE_COUNTER_BRANCHES},
        {"IcacheMisses", TRACE_COUNTER_ICACHE_MISSES},
        {"ICacheMiss", TRACE_COUNTER_ICACHE_MISSES},
        {"InstructionCacheMisses", TRACE_COUNTER_ICACHE_MISSES},
        {"L1-icache-load-misses*", TRACE_COUNTER_ICACHE_MISSES},
        {"DcacheMisses", TRACE_COUNTER_DCACHE_MISSES},
        {"DCacheMiss", TRACE_COUNTER_DCACHE_MISSES},
        {"DataCacheMisses", TRACE_COUNTER_DCACHE_MISSES},
        {"L1-dcache-load-misses*", TRACE_COUNTER_DCACHE_MISSES},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (text_match(text_str(known[i].name), name))
            return known[i].counter;
    }
    return TRACE_COUNTER_OTHER;
}

uint32_t trace_add_source(trace *t, spgo_str name, trace_counter counter, uint64_t interval)
{
    for (size_t i = 0; i < t->source_count; i++) {
        trace_source *known = &t->sources[i];
        if (!text_equal(known->name, name))
            continue;
        known->interval = interval ? interval : known->interval;
        return (uint32_t)i;
    }
    if (t->source_count == LIMIT_SOURCES)
        return LIMIT_SOURCES - 1; /* the last one stands for all that follow */
    if (t->source_count == LIMIT_SOURCES - 1) {
        name = text_str("further counters");
        counter = TRACE_COUNTER_OTHER;
    }
    if (t->source_count == t->source_cap) {
        size_t cap = t->source_cap ? t->source_cap * 2 : 16;
        trace_source *grown = realloc(t->sources, cap * sizeof *grown);
        if (!grown)
            return TIMELINE_NONE;
        t->sources = grown;
        t->source_cap = cap;
    }
    spgo_str kept = intern_add(&t->names, name);
    if (t->names.failed)
        return TIMELINE_NONE;
    t->sources[t->source_count] =
        (trace_source){.name = kept, .counter = counter, .interval = interval};
    return (uint32_t)t->source_count++;
}

trace_counter trace_note_sample(trace *t, uint32_t source)
{
    if (source >= t->source_count)
        return TRACE_COUNTER_OTHER;
    t->sources[source].samples++;
    return t->sources[source].counter;
}
