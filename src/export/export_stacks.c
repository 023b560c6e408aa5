/* Walking all that counts, with the stack of each instruction: see export_stacks.h. */
#include <export/export_stacks.h>

#include <stdlib.h>

#include <base/fail.h>
#include <base/saturate.h>
#include <base/text.h>
#include <profile/coverage.h>

typedef struct gathering {
    coverage *cover;
    symbols *s;
    export_stacks *out;
    size_t capacity;
    symbol_run run;     /* of the last instruction; end_rva 0: none */
    uint32_t procedure; /* of the last stack */
    bool failed;
} gathering;

static bool append(gathering *g, const coverage_step *step)
{
    export_stacks *all = g->out;
    if (all->count == g->capacity) {
        size_t capacity = g->capacity ? 2 * g->capacity : 256;
        export_stack *grown = realloc(all->list, capacity * sizeof *grown);
        if (!grown)
            return false;
        all->list = grown;
        g->capacity = capacity;
    }
    all->list[all->count++] =
        (export_stack){.rva = step->instruction.rva,
                       .leaf = g->run.leaf,
                       .procedure = g->cover->procedures[step->procedure].name};
    return true;
}

static bool take_step(void *ctx, const coverage_step *step)
{
    gathering *g = ctx;
    uint32_t rva = step->instruction.rva;
    if (step->count == 0)
        return true;
    bool is_known = rva >= g->run.begin_rva && rva < g->run.end_rva;
    if (!is_known && symbols_run_at(g->s, rva, &g->run, NULL) != SPGO_OK)
        g->run = (symbol_run){rva, rva + 1u, NULL};
    const size_t count = g->out->count;
    bool continues =
        count > 0 && g->procedure == step->procedure && g->out->list[count - 1].leaf == g->run.leaf;
    if (!continues && !append(g, step)) {
        g->failed = true;
        return false;
    }
    g->procedure = step->procedure;
    export_stack *stack = &g->out->list[g->out->count - 1];
    stack->weight = saturating_add(stack->weight, step->count);
    g->out->total = saturating_add(g->out->total, step->count);
    return true;
}

spgo_code export_stacks_gather(const address_profile *profile, symbols *s, code_decoder *d,
                               export_stacks *stacks, spgo_error *err)
{
    coverage cover;
    *stacks = (export_stacks){0};
    spgo_code code = coverage_open(&cover, profile, s, err);
    if (code == SPGO_OK) {
        gathering g = {.cover = &cover, .s = s, .out = stacks};
        (void)coverage_walk(&cover, d, take_step, &g);
        if (g.failed)
            code = spgo_fail_nomem(err, "stacks", g.capacity * sizeof *stacks->list);
    }
    coverage_close(&cover);
    if (code != SPGO_OK) {
        free(stacks->list);
        *stacks = (export_stacks){0};
    }
    return code;
}

size_t export_stack_frames(const export_stack *stack,
                           const symbol_frame *frames[EXPORT_STACK_DEPTH_MAX])
{
    size_t n = 0;
    for (const symbol_frame *f = stack->leaf; f && n < EXPORT_STACK_DEPTH_MAX; f = f->caller)
        frames[n++] = f;
    for (size_t i = 0; i < n / 2; i++) {
        const symbol_frame *swapped = frames[i];
        frames[i] = frames[n - 1 - i];
        frames[n - 1 - i] = swapped;
    }
    return n;
}

spgo_str export_stack_name(const export_stack *stack)
{
    return stack->procedure.len ? stack->procedure : text_str("[unknown]");
}
