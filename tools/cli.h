/*
 * The command line: one table of options per command, from which parsing, usage and help are made,
 * and the few functions through which commands speak.
 *
 * An option is written /name, -name or --name, in any case. Its value follows ':' or '=' or is the
 * next word; an optional value only follows ':' or '='. "--" ends the options. An argument that
 * starts with '/' and is no option is a file when such a file exists or when it has a second '/'.
 * "--version" is understood by every command without standing in its table.
 *
 * A command keeps its option ids in an enum and its table indexed by them:
 *
 *     enum { OPT_JSON, OPT_TOP, OPT_HELP, OPT_COUNT };
 *     static const cli_option options[OPT_COUNT] = {
 *         [OPT_TOP] = {.name = "top", .kind = CLI_NUMBER, .value_optional = true, ...},
 *     };
 *     ...
 *     if (!cli_parse(&command, argc, argv, &args, &exit_code))
 *         return exit_code;
 *     if (args.values[OPT_TOP].given)
 *         n = args.values[OPT_TOP].number;
 */
#ifndef CLI_H
#define CLI_H

#include <base/arena.h>
#include <base/out.h>
#include <os/file.h>

/* What a tool returns to the shell. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,  /* nothing usable was produced */
    CLI_USAGE = 2,   /* the command line makes no sense */
    CLI_PARTIAL = 3, /* the input is damaged; what could be read was used */
};

enum { CLI_OPTIONS_MAX = 32 };

typedef enum cli_kind {
    CLI_FLAG,
    CLI_TEXT,
    CLI_NUMBER, /* decimal, or hexadecimal after 0x */
    CLI_LIST,   /* texts separated by commas; repeating the option adds to the list, and a list
                   that ends with a comma goes on in the next word */
    CLI_FILES   /* as CLI_LIST, but text that as a whole names an existing file stays whole */
} cli_kind;

typedef struct cli_option {
    const char *name; /* lower case; further spellings follow '|': "event|events" */
    cli_kind kind;
    bool value_optional;
    bool ours;           /* not an option of the MSVC tool of this name: help lists it apart */
    const char *metavar; /* how help names the value; NULL for a flag */
    const char *help;    /* what it does, without a final full stop; '\n' starts a new line */
} cli_option;

/* Every table has an option "help" and may have "json"; cli_parse finds both by name. */
typedef struct cli_command {
    const char *tool;     /* how messages name it: "sptdump", "spgo filter" */
    const char *prefix;   /* how help writes options: "/" or "--" */
    const char *purpose;  /* one line, no full stop */
    const char *synopsis; /* what follows the tool's name; '\n' between alternatives */
    const char *notes;    /* printed below the options, or NULL; ends with a newline */
    const cli_option *options;
    size_t option_count;
    size_t operands_min;
    size_t operands_max;  /* SIZE_MAX: any number */
    const char *operands; /* what is missing when there are too few: "an SPT file" */
} cli_command;

typedef struct cli_value {
    bool given;
    const char *text;   /* of CLI_TEXT, the last one; NULL if not given */
    uint64_t number;    /* of CLI_NUMBER, the last one; 0 without a value */
    bool has_number;    /* false when an optional number was left out */
    const char **items; /* of CLI_LIST and CLI_FILES */
    size_t item_count;
} cli_value;

typedef struct cli_args {
    const cli_command *command;
    cli_value values[CLI_OPTIONS_MAX]; /* indexed like the table */
    const char **operands;             /* arguments that are no options, in order */
    size_t operand_count;
    bool json; /* messages are JSON objects, one a line */
    arena *memory;
} cli_args;

/*
 * Parses argv[1..]. True: go on, and call cli_free at the end. False: return *exit_code, all is
 * said and freed: help or the version went to standard output (CLI_OK), usage or what is wrong to
 * standard error (CLI_USAGE).
 */
bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *args, int *exit_code);
void cli_free(cli_args *args);

/* Parses, runs and frees: what most commands are. Returns the exit code. */
int cli_run(const cli_command *command, int argc, char **argv, int (*run)(const cli_args *args));

/* What messages and help put between an option and its value: ":" or "=". */
static inline const char *cli_value_mark(const cli_command *command)
{
    return command->prefix[0] == '/' ? ":" : "=";
}

/* ------------------------------------------------------------------ speaking */

typedef enum cli_severity { CLI_ERROR, CLI_WARNING, CLI_NOTE } cli_severity;

/*
 * One message to standard error: "tool: file: offset 0x5824: sentence"; file may be NULL and
 * offset SPGO_NO_OFFSET. Warnings and notes say so before the sentence. With args->json:
 * {"tool":...,"severity":...,"code":...,"file":...,"offset":...,"message":...}.
 */
SPGO_PRINTF(5, 6)
void cli_message(const cli_args *args, cli_severity severity, const char *file, uint64_t offset,
                 const char *fmt, ...);

/* Reports err as an error and returns CLI_FAILED. */
int cli_fail(const cli_args *args, const char *file, const spgo_error *err);

/* The same as a warning, for damage that did not stop the work; returns CLI_PARTIAL. */
int cli_partial(const cli_args *args, const char *file, const spgo_error *err);

/* True for the codes that mean "this input is damaged", after which what was read still counts. */
bool cli_is_damage(spgo_code code);

/* Reports wrong usage, points to the help and returns CLI_USAGE. */
SPGO_PRINTF(2, 3) int cli_usage(const cli_args *args, const char *fmt, ...);

/* Standard output as a buffered stream. False after a message if there is no memory. */
bool cli_open_out(const cli_args *args, out *o);

/* Flushes and frees o. Returns exit_code, or CLI_FAILED if standard output did not take it all:
 * reported, except for a reader that went away. */
int cli_close_out(const cli_args *args, out *o, int exit_code);

/* ------------------------------------------------------------------ values */

/* A whole decimal or 0x-hexadecimal number; base 16 reads hexadecimal without a prefix too. */
bool cli_number(const char *text, size_t len, unsigned base, uint64_t *value);

/* Does any of the patterns (with * and ?) match the name, A-Z folded? No patterns: true. */
bool cli_match_any(const cli_value *patterns, spgo_str name);

/* The name nearest to `word` among `count` names reached through `get`, or NULL if none is near. */
const char *cli_nearest(const char *word, size_t count, const char *(*get)(const void *, size_t),
                        const void *ctx);

#endif
