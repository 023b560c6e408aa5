/* Folded stacks, as flame graphs take them: "outer;inner 123", a line for each distinct stack. */
#include <export/export_stacks.h>

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/fail.h>
#include <base/intern.h>
#include <base/saturate.h>

typedef struct folded {
    spgo_str text;
    uint64_t weight;
} folded;

/* Separators and line ends cannot stand in a name. */
static void put_name(bytes *line, spgo_str name)
{
    if (line->len > 0)
        bytes_u8(line, ';');
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        bytes_u8(line, c == ';' ? ':' : c < ' ' ? '?' : c);
    }
}

static void put_stack(bytes *line, const export_stack *stack)
{
    const symbol_frame *frames[EXPORT_STACK_DEPTH_MAX];
    size_t n = export_stack_frames(stack, frames);
    bytes_clear(line);
    for (size_t i = 0; i < n; i++)
        put_name(line, frames[i]->function->name);
    if (n == 0)
        put_name(line, export_stack_name(stack));
}

static int by_text(const void *pa, const void *pb)
{
    const folded *a = pa, *b = pb;
    size_t n = a->text.len < b->text.len ? a->text.len : b->text.len;
    int order = memcmp(a->text.ptr, b->text.ptr, n);
    return order ? order : (a->text.len > b->text.len) - (a->text.len < b->text.len);
}

static void write_folded(folded *all, size_t count, out *o)
{
    if (count > 0)
        qsort(all, count, sizeof *all, by_text);
    for (size_t i = 0; i < count;) {
        uint64_t weight = 0;
        size_t first = i;
        for (; i < count && by_text(&all[first], &all[i]) == 0; i++)
            weight = saturating_add(weight, all[i].weight);
        out_str(o, all[first].text);
        out_bytes(o, " ", 1);
        out_u64(o, weight);
        out_bytes(o, "\n", 1);
    }
}

spgo_code export_folded(const address_profile *profile, symbols *s, code_decoder *d, out *o,
                        spgo_error *err)
{
    export_stacks stacks;
    SPGO_TRY(export_stacks_gather(profile, s, d, &stacks, err));
    bytes line = {0};
    intern texts = {0};
    folded *all = malloc((stacks.count + 1) * sizeof *all);
    for (size_t i = 0; all && i < stacks.count; i++) {
        put_stack(&line, &stacks.list[i]);
        spgo_str text = {(const char *)line.ptr, line.len};
        all[i] = (folded){intern_add(&texts, text), stacks.list[i].weight};
    }
    spgo_code code = SPGO_OK;
    if (!all || line.failed || texts.failed)
        code = spgo_fail_nomem(err, "folded stacks", stacks.count * sizeof *all);
    else
        write_folded(all, stacks.count, o);
    free(all);
    intern_free(&texts);
    bytes_free(&line);
    free(stacks.list);
    return code;
}
