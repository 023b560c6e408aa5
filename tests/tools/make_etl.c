/*
 * make_etl SCENARIO OUT.etl: writes a trace to test with. make_etl --list prints the scenarios;
 * several can be joined by commas ("lbr:1000,compressed,two-processes"). What the trace holds goes
 * to standard output as "name value" lines.
 */
#include "etl_build.h"

#include <base/guid.h>
#include <os/file.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_list(void)
{
    const char *name, *what;
    for (size_t i = 0; etl_scenario_name(i, &name, &what); i++)
        printf("%-15s %s\n", name, what);
}

static void print_built(const etl_built *b)
{
    printf("records %" PRIu64 "\n", b->records);
    printf("pmc_samples %" PRIu64 "\n", b->pmc_samples);
    printf("lbr_records %" PRIu64 "\n", b->lbr_records);
    printf("branches %" PRIu64 "\n", b->branches);
    printf("same_image_branches %" PRIu64 "\n", b->same_image_branches);
    printf("timer_samples %" PRIu64 "\n", b->timer_samples);
    printf("kernel_samples %" PRIu64 "\n", b->kernel_samples);
    printf("plain_stacks %" PRIu64 "\n", b->plain_stacks);
    printf("key_stacks %" PRIu64 "\n", b->key_stacks);
    for (unsigned i = 0; i < b->image_count; i++) {
        const etl_built_image *m = &b->images[i];
        char key[SYMBOL_KEY_SIZE];
        symbol_key_text(key, &m->id);
        printf("image %" PRIu32 " 0x%" PRIx64 " 0x%" PRIx64 " %s %s\n", m->pid, m->base, m->size,
               key, m->name);
    }
}

static int fail(const char *path, const spgo_error *err)
{
    fprintf(stderr, "make_etl: %s: %s\n", path, err->sentence);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        print_list();
        return 0;
    }
    etl_scenario scenario;
    const char *bad = "";
    if (argc != 3 || !etl_scenario_parse(argv[1], &scenario, &bad)) {
        fprintf(stderr, "usage: make_etl SCENARIO[,SCENARIO...] OUT.etl | make_etl --list\n");
        if (argc == 3)
            fprintf(stderr, "make_etl: no scenario is called '%s'\n", bad);
        return 2;
    }

    spgo_error err = {0};
    os_output *out;
    if (os_output_open(argv[2], &out, &err) != SPGO_OK)
        return fail(argv[2], &err);
    etl_built built;
    if (etl_build(&scenario, os_output_sink(out), &built, &err) != SPGO_OK) {
        os_output_discard(out);
        return fail(argv[2], &err);
    }
    if (os_output_commit(out, &err) != SPGO_OK)
        return fail(argv[2], &err);
    print_built(&built);
    return 0;
}
