/* speedscope's file format: frames once, then stacks of their indices with weights. */
#include <export/export_stacks.h>

#include <stdlib.h>

#include <base/counts.h>
#include <base/fail.h>
#include <base/json.h>
#include <base/text.h>

/* A frame of the file: a function, or the name of a procedure of which nothing else is known. */
typedef struct shown {
    spgo_str name, file;
    uint32_t line;
} shown;

typedef struct writing {
    json j;
    shown *frames; /* by first appearance */
    size_t frame_count, frame_capacity;
    counts numbers; /* of a frame by its key, from 1 */
    bool failed;
} writing;

/* The index of a frame; key: where its function or its name is in memory. */
static uint64_t index_of(writing *w, const void *key, shown frame)
{
    uint64_t place = (uint64_t)(uintptr_t)key, number = counts_get(&w->numbers, place);
    if (number)
        return number - 1;
    if (w->frame_count == w->frame_capacity) {
        size_t capacity = w->frame_capacity ? 2 * w->frame_capacity : 256;
        shown *grown = realloc(w->frames, capacity * sizeof *grown);
        w->failed = w->failed || !grown;
        if (!grown)
            return 0;
        w->frames = grown;
        w->frame_capacity = capacity;
    }
    w->frames[w->frame_count++] = frame;
    counts_add(&w->numbers, &place, 1, w->frame_count);
    return w->frame_count - 1;
}

static void put_stack(writing *w, const export_stack *stack)
{
    const symbol_frame *frames[EXPORT_STACK_DEPTH_MAX];
    size_t n = export_stack_frames(stack, frames);
    spgo_str name = export_stack_name(stack);
    json_open_array(&w->j);
    for (size_t i = 0; i < n; i++) {
        const symbol_function *f = frames[i]->function;
        json_u64(&w->j, index_of(w, f, (shown){f->name, f->file, f->line}));
    }
    if (n == 0)
        json_u64(&w->j, index_of(w, name.ptr, (shown){.name = name}));
    json_close_array(&w->j);
}

static void put_member(json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_text(j, text);
}

static void put_samples(writing *w, const export_stacks *stacks, const symbols *s)
{
    json *j = &w->j;
    json_open_object(j);
    put_member(j, "type", "sampled");
    put_member(j, "name", symbols_get_info(s)->image_path);
    put_member(j, "unit", "none");
    json_key(j, "startValue");
    json_u64(j, 0);
    json_key(j, "endValue");
    json_u64(j, stacks->total);
    json_key(j, "samples");
    json_open_array(j);
    for (size_t i = 0; i < stacks->count; i++)
        put_stack(w, &stacks->list[i]);
    json_close_array(j);
    json_key(j, "weights");
    json_open_array(j);
    for (size_t i = 0; i < stacks->count; i++)
        json_u64(j, stacks->list[i].weight);
    json_close_array(j);
    json_close_object(j);
}

static void put_frames(writing *w)
{
    json *j = &w->j;
    json_open_array(j);
    for (size_t i = 0; i < w->frame_count; i++) {
        const shown *f = &w->frames[i];
        json_open_object(j);
        json_key(j, "name");
        json_str(j, f->name);
        if (f->file.len) {
            json_key(j, "file");
            json_str(j, f->file);
        }
        if (f->line) {
            json_key(j, "line");
            json_u64(j, f->line);
        }
        json_close_object(j);
    }
    json_close_array(j);
}

spgo_code export_speedscope(const address_profile *profile, symbols *s, code_decoder *d, out *o,
                            spgo_error *err)
{
    export_stacks stacks;
    SPGO_TRY(export_stacks_gather(profile, s, d, &stacks, err));
    writing w = {.j = json_on(o, false)};
    json_open_object(&w.j);
    put_member(&w.j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    put_member(&w.j, "exporter", "spgo");
    json_key(&w.j, "profiles");
    json_open_array(&w.j);
    put_samples(&w, &stacks, s);
    json_close_array(&w.j);
    json_key(&w.j, "shared");
    json_open_object(&w.j);
    json_key(&w.j, "frames");
    put_frames(&w);
    json_close_object(&w.j);
    json_close_object(&w.j);
    json_end_line(&w.j);
    bool failed = w.failed || w.numbers.failed;
    free(w.frames);
    counts_free(&w.numbers);
    free(stacks.list);
    return failed ? spgo_fail_nomem(err, "frames", w.frame_count * sizeof *w.frames) : SPGO_OK;
}
