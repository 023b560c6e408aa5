/*
 * make_perfdata SCENARIO OUT.data: writes a recording to test with. make_perfdata --list prints
 * the scenarios; several can be joined by commas ("lbr:1000,fork,pipe"). What the recording holds
 * goes to standard output as "name value" lines.
 */
#include "perfdata_scenario.h"

#include <os/file.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_list(void)
{
    const char *name, *what;
    for (size_t i = 0; perfdata_scenario_name(i, &name, &what); i++)
        printf("%-12s %s\n", name, what);
}

static void print_built(const perfdata_built *b)
{
    printf("samples %" PRIu64 "\n", b->samples);
    printf("second_samples %" PRIu64 "\n", b->second_samples);
    printf("branches %" PRIu64 "\n", b->branches);
    printf("same_image_branches %" PRIu64 "\n", b->same_image_branches);
    printf("frames %" PRIu64 "\n", b->frames);
    printf("lost_records %" PRIu64 "\n", b->lost_records);
    printf("lost_samples %" PRIu64 "\n", b->lost_samples);
    for (size_t i = 0; i < b->image_count; i++) {
        const perfdata_built_image *m = &b->images[i];
        printf("image %" PRIu32 " 0x%" PRIx64 " 0x%" PRIx64 " ", m->pid, m->base, m->size);
        for (size_t k = 0; k < sizeof m->build_id; k++)
            printf("%02x", m->build_id[k]);
        printf(" %s\n", m->path);
    }
}

static int fail(const char *path, const spgo_error *err)
{
    fprintf(stderr, "make_perfdata: %s: %s\n", path, err->sentence);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        print_list();
        return 0;
    }
    perfdata_scenario scenario;
    const char *bad = "";
    if (argc != 3 || !perfdata_scenario_parse(argv[1], &scenario, &bad)) {
        fprintf(stderr, "usage: make_perfdata SCENARIO[,SCENARIO...] OUT.data | "
                        "make_perfdata --list\n");
        if (argc == 3)
            fprintf(stderr, "make_perfdata: no scenario is called '%s'\n", bad);
        return 2;
    }

    spgo_error err = {0};
    os_output *out;
    if (os_output_open(argv[2], &out, &err) != SPGO_OK)
        return fail(argv[2], &err);
    perfdata_built built;
    if (perfdata_scenario_write(&scenario, os_output_sink(out), &built, &err) != SPGO_OK) {
        os_output_discard(out);
        return fail(argv[2], &err);
    }
    if (os_output_commit(out, &err) != SPGO_OK)
        return fail(argv[2], &err);
    print_built(&built);
    return 0;
}
