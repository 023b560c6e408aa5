/* The timeline: who ran where, when. Single situations first; a random world against it last. */
#include "test_data.h"

#include "synthetic_program.h"

#include <base/limits.h>
#include <base/text.h>
#include <trace/timeline.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T_END = 4096 };

/* ------------------------------------------------------------------ helpers */

/* A path's first letter is its module, the file offset the RVA of its start. */
static bool resolve(void *ctx, const timeline_image *image, uint32_t *module, uint64_t *rva)
{
    (void)ctx;
    if (image->path.len == 0 || image->path.ptr[0] == '-')
        return false;
    *module = (uint32_t)(image->path.ptr[0] - 'a');
    *rva = image->file_off;
    return true;
}

static void process(timeline *t, timeline_edge edge, uint64_t time, uint32_t pid, const char *name)
{
    timeline_add_process(t, edge, time, pid, text_str(name), 0, false);
}

static void fork_of(timeline *t, uint64_t time, uint32_t pid, uint32_t parent)
{
    timeline_add_process(t, TIMELINE_START, time, pid, (spgo_str){NULL, 0}, parent, true);
}

static void image_at(timeline *t, timeline_edge edge, uint64_t time, uint32_t pid, uint64_t start,
                     uint64_t size, const char *path)
{
    timeline_add_image(t, &(timeline_image){.time = time,
                                            .pid = pid,
                                            .edge = edge,
                                            .start = start,
                                            .size = size,
                                            .path = text_str(path)});
}

static void image(timeline *t, timeline_edge edge, uint64_t time, uint32_t pid, const char *path)
{
    image_at(t, edge, time, pid, 0x1000, 0x1000, path);
}

static void seal(timeline *t)
{
    spgo_error err;
    assert_int_equal(timeline_seal(t, resolve, NULL, &err), SPGO_OK);
}

/* The letter of the image there, '.' for none, '?' for an unknown pid. */
static char letter_at(const timeline *t, uint32_t pid, uint64_t time, uint64_t addr)
{
    uint32_t p = timeline_process_at(t, pid, time);
    if (p == TIMELINE_NONE)
        return '?';
    timeline_place place = timeline_find(t, p, time, addr);
    return place.module == TIMELINE_NONE ? '.' : (char)('a' + (int)place.module);
}

static char letter(const timeline *t, uint32_t pid, uint64_t time)
{
    return letter_at(t, pid, time, 0x1800);
}

static void assert_name(const timeline *t, uint32_t pid, uint64_t time, const char *name)
{
    uint32_t p = timeline_process_at(t, pid, time);
    assert_int_not_equal(p, TIMELINE_NONE);
    spgo_str seen = timeline_get_process(t, p)->name;
    assert_int_equal(seen.len, strlen(name));
    assert_memory_equal(seen.ptr, name, seen.len);
}

/* ------------------------------------------------------------------ processes and threads */

static void a_pid_used_again_is_another_process(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_START, 100, 7, "one");
    process(t, TIMELINE_END, 200, 7, "one");
    process(t, TIMELINE_START, 300, 7, "two");
    image(t, TIMELINE_START, 110, 7, "a");
    image(t, TIMELINE_START, 310, 7, "b");
    seal(t);
    assert_int_equal(timeline_process_count(t), 2);
    assert_name(t, 7, 150, "one");
    assert_name(t, 7, 350, "two");
    assert_name(t, 7, 250, "one"); /* nobody then: the last one */
    assert_name(t, 7, 50, "one");  /* nobody yet: the first one */
    assert_int_equal(letter(t, 7, 150), 'a');
    assert_int_equal(letter(t, 7, 300), '.');
    assert_int_equal(letter(t, 7, 310), 'b');
    timeline_free(t);
}

static void a_start_without_the_end_before_it_begins_a_new_life(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_START, 1, 7, "old");
    process(t, TIMELINE_START, 300, 7, "new");
    image(t, TIMELINE_DC_START, 1, 7, "a");
    seal(t);
    assert_name(t, 7, 299, "old");
    assert_name(t, 7, 300, "new");
    assert_int_equal(letter(t, 7, 299), 'a');
    assert_int_equal(letter(t, 7, 300), '.');
    timeline_free(t);
}

static void what_only_the_end_rundown_knows_was_always_there(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_END, 900, 7, "late");
    image(t, TIMELINE_DC_END, 900, 7, "a");
    timeline_add_thread(t, TIMELINE_DC_END, 900, 70, 7);
    seal(t);
    uint32_t pid = 0;
    assert_name(t, 7, 0, "late");
    assert_int_equal(letter(t, 7, 0), 'a');
    assert_int_equal(letter(t, 7, 5000), 'a');
    assert_true(timeline_pid_of_thread(t, 70, 0, &pid));
    assert_int_equal(pid, 7);
    timeline_free(t);
}

static void an_end_rundown_after_the_end_is_another_process(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_START, 1, 7, "one");
    process(t, TIMELINE_END, 200, 7, "one");
    process(t, TIMELINE_DC_END, 900, 7, "two");
    image(t, TIMELINE_DC_START, 1, 7, "a");
    image(t, TIMELINE_DC_END, 900, 7, "b");
    seal(t);
    assert_name(t, 7, 199, "one");
    assert_name(t, 7, 200, "two"); /* its start was lost: since the end of the one before */
    assert_int_equal(letter(t, 7, 100), 'a');
    assert_int_equal(letter(t, 7, 500), 'b');
    timeline_free(t);
}

static void images_tell_of_processes_without_events(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image(t, TIMELINE_START, 100, 7, "bin/app");
    timeline_add_thread(t, TIMELINE_START, 100, 80, 8);
    seal(t);
    assert_int_equal(timeline_process_count(t), 2);
    assert_name(t, 7, 100, "app");
    assert_name(t, 8, 100, "");
    assert_int_equal(timeline_process_at(t, 9, 100), TIMELINE_NONE);
    timeline_free(t);
}

static void a_tid_used_again_belongs_to_its_newest_process(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    timeline_add_thread(t, TIMELINE_DC_START, 1, 70, 7);
    timeline_add_thread(t, TIMELINE_END, 200, 70, 7);
    timeline_add_thread(t, TIMELINE_START, 300, 70, 8);
    timeline_add_thread(t, TIMELINE_END, 400, 70, 8);
    timeline_add_thread(t, TIMELINE_DC_END, 900, 70, 9);
    seal(t);
    const struct {
        uint64_t time;
        uint32_t pid;
    } want[] = {{0, 7}, {199, 7}, {299, 7}, {300, 8}, {399, 8}, {400, 9}, {5000, 9}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        uint32_t pid = 0;
        assert_true(timeline_pid_of_thread(t, 70, want[i].time, &pid));
        assert_int_equal(pid, want[i].pid);
    }
    uint32_t pid;
    assert_false(timeline_pid_of_thread(t, 71, 5, &pid));
    timeline_free(t);
}

static void no_event_can_claim_the_pid_of_the_kernel(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_START, 500, TIMELINE_KERNEL_PID, "evil");
    timeline_add_thread(t, TIMELINE_START, 500, 1, TIMELINE_KERNEL_PID);
    image(t, TIMELINE_DC_START, 1, TIMELINE_KERNEL_PID, "k");
    image_at(t, TIMELINE_START, 600, TIMELINE_KERNEL_PID, 0x9000, 0x1000, "l");
    seal(t);
    assert_int_equal(timeline_process_count(t), 1);
    uint32_t kernel = timeline_kernel(t);
    assert_int_equal(timeline_find(t, kernel, 700, 0x1800).module, 'k' - 'a');
    assert_int_equal(timeline_find(t, kernel, 700, 0x9800).module, 'l' - 'a');
    timeline_free(t);
}

static void without_kernel_images_there_is_no_kernel(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    seal(t);
    assert_int_equal(timeline_kernel(t), TIMELINE_NONE);
    timeline_place p = timeline_find(t, TIMELINE_NONE, 5, 5);
    assert_int_equal(p.module, TIMELINE_NONE);
    assert_int_equal(p.start, 0);
    timeline_free(t);
}

/* ------------------------------------------------------------------ images */

static void a_base_used_again_is_decided_by_time(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_START, 1, 7, "p");
    image(t, TIMELINE_START, 100, 7, "a");
    image(t, TIMELINE_END, 200, 7, "a");
    image(t, TIMELINE_START, 300, 7, "b");
    seal(t);
    assert_int_equal(letter(t, 7, 99), '.');
    assert_int_equal(letter(t, 7, 100), 'a');
    assert_int_equal(letter(t, 7, 199), 'a');
    assert_int_equal(letter(t, 7, 200), '.');
    assert_int_equal(letter(t, 7, 299), '.');
    assert_int_equal(letter(t, 7, 300), 'b');
    assert_int_equal(letter_at(t, 7, 150, 0xFFF), '.');
    assert_int_equal(letter_at(t, 7, 150, 0x1000), 'a');
    assert_int_equal(letter_at(t, 7, 150, 0x1FFF), 'a');
    assert_int_equal(letter_at(t, 7, 150, 0x2000), '.');
    timeline_free(t);
}

static void an_unload_without_a_load_was_there_before(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image(t, TIMELINE_END, 200, 7, "a");
    image(t, TIMELINE_END, 300, 7, "b"); /* its load was lost: since the unload of a */
    image_at(t, TIMELINE_END, 300, 7, 0x5000, 0x1000, ""); /* unloads who knows what */
    seal(t);
    assert_int_equal(letter(t, 7, 0), 'a');
    assert_int_equal(letter(t, 7, 199), 'a');
    assert_int_equal(letter(t, 7, 200), 'b');
    assert_int_equal(letter(t, 7, 300), '.');
    assert_int_equal(letter_at(t, 7, 100, 0x5800), '.');
    timeline_free(t);
}

static void a_load_over_another_image_replaces_it(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image(t, TIMELINE_START, 100, 7, "a");
    image(t, TIMELINE_START, 200, 7, "b");
    seal(t);
    assert_int_equal(letter(t, 7, 199), 'a');
    assert_int_equal(letter(t, 7, 200), 'b');
    timeline_free(t);
}

static void overlapping_images_are_told_apart_by_who_came_last(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image_at(t, TIMELINE_START, 100, 7, 0x1000, 0x4000, "a");
    image_at(t, TIMELINE_START, 200, 7, 0x2000, 0x1000, "b");
    image_at(t, TIMELINE_END, 300, 7, 0x2000, 0x1000, "b");
    seal(t);
    assert_int_equal(letter_at(t, 7, 250, 0x1800), 'a');
    assert_int_equal(letter_at(t, 7, 250, 0x2800), 'b');
    assert_int_equal(letter_at(t, 7, 250, 0x3800), 'a');
    assert_int_equal(letter_at(t, 7, 350, 0x2800), 'a');
    uint32_t p = timeline_process_at(t, 7, 350);
    timeline_place place = timeline_find(t, p, 350, 0x2800);
    assert_int_equal(place.valid_from, 300); /* b lay there before */
    assert_int_equal(place.start_rva + (0x2800 - place.start), 0x1800);
    place = timeline_find(t, p, 150, 0x2800);
    assert_int_equal(place.valid_to, 200);
    timeline_free(t);
}

/* As Linux does it: mappings are replaced without a word, and the old one may come back. */
static void an_image_mapped_again_over_another_is_the_newest(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image_at(t, TIMELINE_START, 100, 7, 0x2000, 0x1000, "a");
    image_at(t, TIMELINE_START, 200, 7, 0x1000, 0x3000, "b");
    image_at(t, TIMELINE_START, 300, 7, 0x2000, 0x1000, "a");
    seal(t);
    assert_int_equal(letter_at(t, 7, 150, 0x2800), 'a');
    assert_int_equal(letter_at(t, 7, 250, 0x2800), 'b');
    assert_int_equal(letter_at(t, 7, 350, 0x2800), 'a');
    assert_int_equal(letter_at(t, 7, 350, 0x1800), 'b');
    timeline_free(t);
}

static void an_image_loaded_again_and_again_is_one_mapping(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    for (uint64_t i = 0; i < 10000; i++) {
        image(t, TIMELINE_START, 100 + 10 * i, 7, "a");
        image(t, TIMELINE_END, 105 + 10 * i, 7, "a");
    }
    seal(t);
    assert_int_equal(timeline_mapping_count(t), 1);
    assert_int_equal(letter(t, 7, 99), '.');
    assert_int_equal(letter(t, 7, 100), 'a');
    assert_int_equal(letter(t, 7, 50104), 'a');
    assert_int_equal(letter(t, 7, 100095), '.');
    timeline_free(t);
}

static void the_rundowns_confirm_what_the_load_said(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image(t, TIMELINE_DC_START, 1, 7, "a");
    image(t, TIMELINE_DC_END, 900, 7, "a");
    image_at(t, TIMELINE_START, 100, 7, 0x8000, 0x1000, "b");
    image_at(t, TIMELINE_DC_END, 900, 7, 0x8000, 0x1000, "b");
    seal(t);
    assert_int_equal(timeline_mapping_count(t), 2);
    assert_int_equal(letter(t, 7, 0), 'a');
    assert_int_equal(letter_at(t, 7, 99, 0x8000), '.');
    assert_int_equal(letter_at(t, 7, 100, 0x8000), 'b');
    timeline_free(t);
}

static void what_is_no_image_is_left_out(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    image(t, TIMELINE_START, 100, 7, "-anonymous");
    image_at(t, TIMELINE_START, 100, 7, UINT64_MAX - 10, 100, "a"); /* wraps */
    image_at(t, TIMELINE_START, 100, 7, 0x5000, 0, "a");            /* empty */
    image_at(t, TIMELINE_START, 100, 7, UINT64_MAX - 0x1000, 0x1000, "b");
    seal(t);
    assert_int_equal(timeline_mapping_count(t), 1);
    assert_int_equal(letter(t, 7, 200), '.');
    assert_int_equal(letter_at(t, 7, 200, UINT64_MAX - 1), 'b');
    assert_int_equal(letter_at(t, 7, 200, UINT64_MAX), '.');
    timeline_free(t);
}

/* The newest images of one place are kept; the older ones are forgotten, not confused. */
static void images_beyond_the_limit_of_one_place_are_forgotten(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    enum { MANY = 5000 };
    for (uint64_t i = 0; i < MANY; i++) {
        image(t, TIMELINE_START, 100 + 2 * i, 7, i % 2 ? "a" : "b");
        image(t, TIMELINE_END, 101 + 2 * i, 7, i % 2 ? "a" : "b");
    }
    seal(t);
    assert_int_equal(timeline_mapping_count(t), MANY);
    assert_int_equal(letter(t, 7, 100), '.');
    assert_int_equal(letter(t, 7, 100 + 2 * (MANY - 2)), 'b');
    assert_int_equal(letter(t, 7, 100 + 2 * (MANY - 1)), 'a');
    assert_int_equal(letter(t, 7, 101 + 2 * (MANY - 1)), '.');
    timeline_free(t);
}

/* ------------------------------------------------------------------ fork and exec */

static void a_child_has_its_parents_images_as_they_were_at_the_fork(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_START, 1, 7, "parent");
    image_at(t, TIMELINE_START, 100, 7, 0x1000, 0x1000, "a");
    fork_of(t, 200, 8, 7);
    image_at(t, TIMELINE_START, 300, 7, 0x5000, 0x1000, "b"); /* the parent's alone */
    image_at(t, TIMELINE_START, 400, 8, 0x1000, 0x800, "c");  /* the child's alone */
    seal(t);
    assert_name(t, 8, 250, "parent");
    assert_int_equal(letter_at(t, 8, 250, 0x1900), 'a');
    assert_int_equal(letter_at(t, 8, 350, 0x5800), '.');
    assert_int_equal(letter_at(t, 7, 350, 0x5800), 'b');
    assert_int_equal(letter_at(t, 8, 350, 0x1400), 'a');
    assert_int_equal(letter_at(t, 8, 450, 0x1400), 'c');
    assert_int_equal(letter_at(t, 8, 450, 0x1900), 'a'); /* what c leaves visible */
    assert_int_equal(letter_at(t, 7, 450, 0x1400), 'a');
    timeline_free(t);
}

static void an_exec_drops_all_images(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_START, 1, 7, "parent");
    image(t, TIMELINE_START, 100, 7, "a");
    fork_of(t, 200, 8, 7);
    process(t, TIMELINE_START, 300, 8, "other");
    image_at(t, TIMELINE_START, 301, 8, 0x5000, 0x1000, "b");
    seal(t);
    assert_int_equal(letter(t, 8, 299), 'a');
    assert_int_equal(letter(t, 8, 300), '.');
    assert_int_equal(letter_at(t, 8, 301, 0x5800), 'b');
    assert_name(t, 8, 299, "parent");
    assert_name(t, 8, 300, "other");
    timeline_free(t);
}

/* Pids wrap: the grandchild may well have the smallest. */
static void names_come_down_the_generations_whatever_the_pids(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    process(t, TIMELINE_DC_START, 1, 30, "root");
    image(t, TIMELINE_START, 2, 30, "a");
    fork_of(t, 100, 20, 30);
    fork_of(t, 200, 10, 20);
    seal(t);
    assert_name(t, 20, 150, "root");
    assert_name(t, 10, 250, "root");
    assert_int_equal(letter(t, 10, 250), 'a');
    timeline_free(t);
}

static void circles_of_parents_end(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    fork_of(t, 100, 7, 8);
    fork_of(t, 100, 8, 7);
    fork_of(t, 100, 9, 9);
    seal(t);
    assert_int_equal(letter(t, 7, 150), '.');
    assert_int_equal(letter(t, 8, 150), '.');
    assert_int_equal(letter(t, 9, 150), '.');
    timeline_free(t);
}

static void long_lines_of_forks_end(void **state)
{
    (void)state;
    timeline *t = timeline_new();
    enum { FORKS = 2 * LIMIT_FORK_DEPTH };
    image(t, TIMELINE_START, 1, 1000, "a");
    for (uint32_t i = 1; i <= FORKS; i++)
        fork_of(t, 10 + i, 1000 + i, 1000 + i - 1);
    seal(t);
    assert_int_equal(letter(t, 1000 + LIMIT_FORK_DEPTH - 1, 5000), 'a');
    assert_int_equal(letter(t, 1000 + FORKS, 5000), '.'); /* more forks than are followed */
    timeline_free(t);
}

/* ------------------------------------------------------------------ a random world */

enum { LIVES_MAX = 64, LOADS_MAX = 2048, PIDS = 4, SLOTS = 16, SLOT = 0x1000, QUESTIONS = 1000 };

typedef struct load {
    unsigned life;
    uint64_t start, size, rva;
    uint64_t from, to; /* to: T_END when never unloaded */
    bool predates;     /* the trace began later */
    char path[2];
} load;

typedef struct life {
    uint32_t pid;
    uint64_t from, to;
    unsigned parent; /* LIVES_MAX: none */
    bool predates, lasts;
} life;

typedef struct world {
    uint64_t random;
    life lives[LIVES_MAX];
    unsigned life_count;
    load loads[LOADS_MAX];
    unsigned load_count;
} world;

static uint64_t below(world *w, uint64_t n)
{
    return synth_random(&w->random) % n;
}

static uint64_t between(world *w, uint64_t a, uint64_t b)
{
    return a + below(w, b - a);
}

/* Loads at one place follow each other; those at other places may overlap them. */
static void make_loads(world *w, unsigned index)
{
    const life *l = &w->lives[index];
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        uint64_t now = l->predates ? 0 : l->from + 1;
        bool first = true;
        while (below(w, 3) && now + 2 < l->to && w->load_count < LOADS_MAX) {
            load *m = &w->loads[w->load_count++];
            m->life = index;
            m->start = 0x10000 + slot * SLOT;
            m->size = SLOT * (1 + below(w, below(w, 4) ? 1 : 4));
            m->rva = SLOT * below(w, 2);
            m->path[0] = (char)('a' + below(w, 5));
            m->path[1] = '\0';
            m->predates = first && l->predates && below(w, 2);
            m->from = m->predates ? 0 : between(w, now, l->to);
            m->to = m->from + 1 < l->to && below(w, 3) ? between(w, m->from + 1, l->to) : T_END;
            first = false;
            if (m->to == T_END)
                break;
            now = m->to + 1;
        }
    }
}

static void make_world(world *w, uint64_t seed)
{
    *w = (world){.random = seed};
    for (uint32_t pid = 0; pid < PIDS; pid++) {
        uint64_t now = 0;
        for (unsigned n = 0; n < 4 && now + 8 < T_END; n++) {
            life *l = &w->lives[w->life_count];
            l->pid = 100 + pid;
            l->predates = n == 0 && below(w, 2);
            l->from = l->predates ? 0 : between(w, now + 1, T_END - 4);
            l->lasts = below(w, 3) == 0;
            l->to = l->lasts ? T_END : between(w, l->from + 2, T_END);
            l->parent = LIVES_MAX;
            w->life_count++;
            now = l->to + 1;
            if (l->lasts)
                break;
        }
    }
    for (unsigned i = 0; i < w->life_count; i++) {
        life *l = &w->lives[i];
        unsigned p = (unsigned)below(w, w->life_count);
        const life *parent = &w->lives[p];
        if (!l->predates && parent->from < l->from && l->from < parent->to)
            l->parent = p;
    }
    for (unsigned i = 0; i < w->life_count; i++)
        make_loads(w, i);
}

/* The same image again at the same place with nothing else reaching in: taken to have stayed. */
static bool fills_gap(const world *w, const load *m, uint64_t time)
{
    const load *next = m + 1;
    if (next >= w->loads + w->load_count || next->life != m->life || next->start != m->start ||
        next->size != m->size || next->rva != m->rva || next->path[0] != m->path[0])
        return false;
    uint64_t reach = 0; /* of all loads at this place */
    for (unsigned i = 0; i < w->load_count; i++) {
        const load *o = &w->loads[i];
        if (o->life == m->life && o->start == m->start && o->start + o->size > reach)
            reach = o->start + o->size;
    }
    for (unsigned i = 0; i < w->load_count; i++) {
        const load *o = &w->loads[i];
        if (o->life == m->life && o->start != m->start && o->start < reach &&
            o->start + o->size > m->start)
            return false;
    }
    return m->to <= time && time < next->from;
}

/* What is at addr in this life at that time: the load, or NULL. */
static const load *truth(const world *w, unsigned index, uint64_t time, uint64_t addr)
{
    const load *newest = NULL;
    for (unsigned i = 0; i < w->load_count; i++) {
        const load *m = &w->loads[i];
        if (m->life != index || addr < m->start || addr >= m->start + m->size)
            continue;
        bool is_there = m->from <= time && (m->to == T_END || time < m->to);
        if (!is_there && !fills_gap(w, m, time))
            continue;
        if (!newest || m->from > newest->from ||
            (m->from == newest->from && m->start > newest->start))
            newest = m;
    }
    const life *l = &w->lives[index];
    if (newest || l->parent == LIVES_MAX)
        return newest;
    return truth(w, l->parent, l->from, addr);
}

typedef struct event {
    enum { PROCESS_EVENT, IMAGE_EVENT } kind;
    timeline_edge edge;
    unsigned of;
    uint64_t time;
    bool nameless;
} event;

static size_t write_events(world *w, event *out)
{
    size_t n = 0;
    for (unsigned i = 0; i < w->life_count; i++) {
        const life *l = &w->lives[i];
        if (!l->predates)
            out[n++] = (event){PROCESS_EVENT, TIMELINE_START, i, l->from, false};
        else if (below(w, 2))
            out[n++] = (event){PROCESS_EVENT, TIMELINE_DC_START, i, 0, false};
        if (!l->lasts)
            out[n++] = (event){PROCESS_EVENT, TIMELINE_END, i, l->to, false};
        else if (below(w, 2))
            out[n++] = (event){PROCESS_EVENT, TIMELINE_DC_END, i, T_END, false};
    }
    for (unsigned i = 0; i < w->load_count; i++) {
        const load *m = &w->loads[i];
        bool is_last = m->to == T_END && w->lives[m->life].lasts;
        bool told = !m->predates;
        if (told)
            out[n++] = (event){IMAGE_EVENT, TIMELINE_START, i, m->from, false};
        if (m->predates && (below(w, 2) || !(m->to < T_END || is_last))) {
            out[n++] = (event){IMAGE_EVENT, TIMELINE_DC_START, i, 0, false};
            told = true;
        }
        if (m->to < T_END)
            out[n++] = (event){IMAGE_EVENT, TIMELINE_END, i, m->to, told && below(w, 2)};
        else if (is_last && (!told || below(w, 2)))
            out[n++] = (event){IMAGE_EVENT, TIMELINE_DC_END, i, T_END, false};
    }
    return n;
}

static void add_event(timeline *t, const world *w, const event *e)
{
    if (e->kind == PROCESS_EVENT) {
        const life *l = &w->lives[e->of];
        bool inherits = e->edge == TIMELINE_START && l->parent != LIVES_MAX;
        char name[16];
        snprintf(name, sizeof name, "life%u", e->of);
        timeline_add_process(t, e->edge, e->time, l->pid, text_str(name),
                             inherits ? w->lives[l->parent].pid : 0, inherits);
        return;
    }
    const load *m = &w->loads[e->of];
    timeline_add_image(
        t, &(timeline_image){.time = e->time,
                             .pid = w->lives[m->life].pid,
                             .edge = e->edge,
                             .start = m->start,
                             .size = m->size,
                             .path = e->nameless ? (spgo_str){NULL, 0} : text_str(m->path),
                             .file_off = m->rva});
}

/* Fails unless the answer is the truth at this point. */
static void check_point(const world *w, unsigned index, uint64_t time, uint64_t addr,
                        const timeline_place *p)
{
    const load *m = truth(w, index, time, addr);
    uint32_t want = m ? (uint32_t)(m->path[0] - 'a') : TIMELINE_NONE;
    if (p->module != want)
        fail_msg("life %u of pid %u, time %u, address 0x%x: module %d instead of %d", index,
                 (unsigned)w->lives[index].pid, (unsigned)time, (unsigned)addr, (int)p->module,
                 (int)want);
    if (m)
        assert_int_equal(p->start_rva + (addr - p->start), m->rva + (addr - m->start));
}

static uint64_t clamp(uint64_t v, uint64_t max)
{
    return v < max ? v : max;
}

static void check_answer(world *w, unsigned index, const timeline_place *p)
{
    const uint64_t addr_max = 0x10000 + (SLOTS + 6) * SLOT, time_max = T_END + 10;
    uint64_t start = clamp(p->start, addr_max), end = clamp(p->end, addr_max);
    uint64_t from = clamp(p->valid_from, time_max), to = clamp(p->valid_to, time_max);
    assert_true(start < end && from < to);
    const uint64_t addrs[] = {start, end - 1, between(w, start, end)};
    const uint64_t times[] = {from, to - 1, between(w, from, to)};
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++)
            check_point(w, index, times[k], addrs[i], p);
    }
}

static void check_world(uint64_t seed)
{
    world *w = calloc(1, sizeof *w);
    event *events = calloc(2 * (LIVES_MAX + LOADS_MAX), sizeof *events);
    assert_non_null(w);
    assert_non_null(events);
    make_world(w, seed);
    size_t n = write_events(w, events);
    timeline *t[2] = {timeline_new(), timeline_new()};
    for (size_t i = 0; i < n; i++) /* ties of time keep their order, as in a file */
        add_event(t[0], w, &events[i]);
    for (size_t i = n; i > 1; i--) { /* the other one gets them in any order */
        size_t k = below(w, i);
        event swap = events[i - 1];
        events[i - 1] = events[k];
        events[k] = swap;
    }
    for (size_t i = 0; i < n; i++)
        add_event(t[1], w, &events[i]);
    seal(t[0]);
    seal(t[1]);
    for (unsigned q = 0; q < QUESTIONS; q++) {
        unsigned index = (unsigned)below(w, w->life_count);
        const life *l = &w->lives[index];
        uint64_t time = between(w, l->from, l->to);
        uint64_t addr = 0x10000 + below(w, (SLOTS + 4) * SLOT);
        for (unsigned which = 0; which < 2; which++) {
            uint32_t p = timeline_process_at(t[which], l->pid, time);
            assert_int_not_equal(p, TIMELINE_NONE);
            timeline_place place = timeline_find(t[which], p, time, addr);
            assert_true(place.start <= addr && addr < place.end);
            assert_true(place.valid_from <= time && time < place.valid_to);
            check_point(w, index, time, addr, &place);
            check_answer(w, index, &place);
        }
    }
    timeline_free(t[0]);
    timeline_free(t[1]);
    free(events);
    free(w);
}

static void a_random_world_is_told_as_it_is(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++)
        check_world(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pid_used_again_is_another_process),
        cmocka_unit_test(a_start_without_the_end_before_it_begins_a_new_life),
        cmocka_unit_test(what_only_the_end_rundown_knows_was_always_there),
        cmocka_unit_test(an_end_rundown_after_the_end_is_another_process),
        cmocka_unit_test(images_tell_of_processes_without_events),
        cmocka_unit_test(a_tid_used_again_belongs_to_its_newest_process),
        cmocka_unit_test(no_event_can_claim_the_pid_of_the_kernel),
        cmocka_unit_test(without_kernel_images_there_is_no_kernel),
        cmocka_unit_test(a_base_used_again_is_decided_by_time),
        cmocka_unit_test(an_unload_without_a_load_was_there_before),
        cmocka_unit_test(a_load_over_another_image_replaces_it),
        cmocka_unit_test(overlapping_images_are_told_apart_by_who_came_last),
        cmocka_unit_test(an_image_mapped_again_over_another_is_the_newest),
        cmocka_unit_test(an_image_loaded_again_and_again_is_one_mapping),
        cmocka_unit_test(the_rundowns_confirm_what_the_load_said),
        cmocka_unit_test(what_is_no_image_is_left_out),
        cmocka_unit_test(images_beyond_the_limit_of_one_place_are_forgotten),
        cmocka_unit_test(a_child_has_its_parents_images_as_they_were_at_the_fork),
        cmocka_unit_test(an_exec_drops_all_images),
        cmocka_unit_test(names_come_down_the_generations_whatever_the_pids),
        cmocka_unit_test(circles_of_parents_end),
        cmocka_unit_test(long_lines_of_forks_end),
        cmocka_unit_test(a_random_world_is_told_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
