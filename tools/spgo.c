/* spgo: one program for all commands. The first word chooses the command; its rest is the
 * command's own. */
#include <stdio.h>
#include <string.h>

#include <base/text.h>
#include <os/system.h>

#include "cli.h"
#include "commands.h"

static int cmd_help(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
} commands[] = {
    {"dump", cmd_dump, "show what stands in an ETL, perf.data or SPT file"},
    {"filter", cmd_filter, "keep some programs, opcodes or RVAs of an SPT file"},
    {"fold", cmd_fold, "make an SPT file small: each distinct entry once, with its hits"},
    {"help", cmd_help, "this text, or that of a command"},
    {"merge", cmd_merge, "make one SPT file of several"},
    {"overlap", cmd_overlap, "tell how alike two sample profiles are"},
    {"probe", cmd_probe, "time the functions of instrumented programs"},
    {"profile", cmd_profile, "make the profile that a compiler takes of SPT files or traces"},
    {"spdconvert", cmd_spdconvert, "fill an SPD file with the counts of SPT files"},
    {"spddump", cmd_spddump, "show, compare or verify an SPD file"},
    {"sptaggregate", cmd_sptaggregate, "make an SPT file of traces"},
    {"sptdump", cmd_sptdump, "show, summarize or verify an SPT file"},
    {"symbolize", cmd_symbolize, "tell which functions and lines RVAs of an image come from"},
    {"version", cmd_version, "version and what was compiled in"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* Stands for the program itself in messages. */
static const cli_command self = {.tool = "spgo", .prefix = ""};
static const cli_args no_args = {.command = &self};

static int print_commands(int fd, int exit_code)
{
    out o;
    spgo_error err;
    if (out_init(&o, os_stream_sink(fd), &err) != SPGO_OK)
        return cli_fail(&no_args, NULL, &err);
    out_text(&o, "spgo - sample profile-guided optimization: traces to profiles\n\n"
                 "usage: spgo command [arguments]\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        out_printf(&o, "  %-12s  %s\n", commands[i].name, commands[i].purpose);
    out_text(&o,
             "\nA command may be shortened as long as it is clear. \"spgo help command\" tells "
             "its options;\n\"spgo command --version\" and \"spgo --version\" tell the version.\n");
    return cli_close_out(&no_args, &o, exit_code);
}

static const char *name_at(const void *ctx, size_t i)
{
    (void)ctx;
    return commands[i].name;
}

static int unknown_command(const char *word)
{
    const char *near = cli_nearest(word, COMMAND_COUNT, name_at, NULL);
    if (near)
        return cli_usage(&no_args, "unknown command '%s'; did you mean %s?", word, near);
    return cli_usage(&no_args, "unknown command '%s'", word);
}

static int ambiguous_command(const char *word)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strncmp(commands[i].name, word, strlen(word)) != 0)
            continue;
        int n =
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", commands[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    return cli_usage(&no_args, "'%s' is ambiguous: %s", word, names);
}

/* The command of that name or with that unique prefix; NULL after a message. */
static const struct command *find_command(const char *word)
{
    const struct command *found = NULL;
    size_t len = strlen(word);
    bool ambiguous = false;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, word) == 0)
            return &commands[i];
        if (len && strncmp(commands[i].name, word, len) == 0) {
            ambiguous = found;
            found = &commands[i];
        }
    }
    if (ambiguous)
        (void)ambiguous_command(word);
    else if (!found)
        (void)unknown_command(word);
    return ambiguous ? NULL : found;
}

/* "--version", "/version"; or the word alone. */
static bool is_word(const char *arg, const char *word)
{
    while (*arg == '-' || *arg == '/')
        arg++;
    return text_equal_nocase(text_str(arg), text_str(word));
}

static bool is_help(const char *arg)
{
    return (*arg == '-' || *arg == '/') &&
           (is_word(arg, "help") || is_word(arg, "h") || is_word(arg, "?"));
}

static int cmd_help(int argc, char **argv)
{
    if (argc < 2)
        return print_commands(1, CLI_OK);
    if (is_help(argv[1]))
        return print_commands(1, CLI_OK);
    const struct command *c = find_command(argv[1]);
    if (!c)
        return CLI_USAGE;
    if (c->run == cmd_help)
        return print_commands(1, CLI_OK);
    char help[] = "--help";
    char *words[] = {argv[1], help, NULL};
    return c->run(2, words);
}

int main(int argc, char **argv)
{
    os_start(&argc, &argv);
    if (argc < 2)
        return print_commands(2, CLI_USAGE);
    const char *word = argv[1];
    if (word[0] == '-' || word[0] == '/') {
        if (is_help(word))
            return cmd_help(argc - 1, argv + 1);
        if (is_word(word, "version"))
            return cmd_version(argc - 1, argv + 1);
    }
    const struct command *c = find_command(word);
    return c ? c->run(argc - 1, argv + 1) : CLI_USAGE;
}
