/* spgo probe: the second word chooses what to do with probes. */
#include "commands.h"

#include <string.h>

#include <base/text.h>
#include <os/system.h>

#include "cli.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
} verbs[] = {
    {"diff", cmd_probe_diff, "compare two recordings"},
    {"export", cmd_probe_export, "give the calls of instrumented programs to other tools"},
    {"mark", cmd_probe_control, "set a mark in a program that runs"},
    {"record", cmd_probe_record, "run a program with its probes recorded"},
    {"report", cmd_probe_report, "show what the functions of instrumented programs took"},
    {"start", cmd_probe_control, "let the probes of a program that runs count again"},
    {"status", cmd_probe_control, "tell what probes do now"},
    {"stop", cmd_probe_control, "let the probes of a program that runs not count"},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static const cli_command self = {.tool = "spgo probe", .prefix = "--"};
static const cli_args no_args = {.command = &self};

static int print_verbs(int fd, int exit_code)
{
    out o;
    spgo_error err;
    if (out_init(&o, os_stream_sink(fd), &err) != SPGO_OK)
        return cli_fail(&no_args, NULL, &err);
    out_text(&o, "spgo probe - elapsed and application times of instrumented programs\n\n"
                 "usage: spgo probe verb [arguments]\n\nverbs:\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        out_printf(&o, "  %-8s  %s\n", verbs[i].name, verbs[i].purpose);
    out_text(&o, "\n\"spgo probe verb --help\" tells its options.\n");
    return cli_close_out(&no_args, &o, exit_code);
}

static const char *name_at(const void *ctx, size_t i)
{
    (void)ctx;
    return verbs[i].name;
}

int cmd_probe(int argc, char **argv)
{
    if (argc < 2)
        return print_verbs(2, CLI_USAGE);
    const char *word = argv[1];
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(word, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    }
    while (*word == '-' || *word == '/')
        word++;
    if (text_equal_nocase(text_str(word), text_str("help")) || strcmp(word, "h") == 0 ||
        strcmp(word, "?") == 0)
        return print_verbs(1, CLI_OK);
    if (text_equal_nocase(text_str(word), text_str("version")))
        return cmd_version(1, argv);
    const char *near = cli_nearest(argv[1], VERB_COUNT, name_at, NULL);
    return near ? cli_usage(&no_args, "unknown verb '%s'; did you mean %s?", argv[1], near)
                : cli_usage(&no_args, "unknown verb '%s'", argv[1]);
}
