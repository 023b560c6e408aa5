/*
 * Parsing a command line by a command's option table.
 *
 * The Microsoft pages write the same option as "/binary:a.exe", "/binary a.exe" and "-binary", so
 * all forms are equal here. What is not obvious is the leading '/', which on most systems also
 * starts a path: an option by that name wins, then a file that exists, then anything that has a
 * second '/' (a path to be created, or a file whose absence is the better message).
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <spgo/version.h>

#include "cli_help.h"

/* State of one parse. */
typedef struct parser {
    cli_args *args;
    char **argv;
    int argc;
    int next; /* index of the next word */
    bool wants_version;
} parser;

static bool is_name_of(const cli_option *option, spgo_str word)
{
    const char *name = option->name;
    for (;;) {
        size_t len = strcspn(name, "|");
        if (text_equal_nocase((spgo_str){name, len}, word))
            return true;
        if (!name[len])
            return false;
        name += len + 1;
    }
}

/* Index of the option, or option_count. */
static size_t find_option(const cli_command *command, spgo_str word)
{
    size_t i = 0;
    while (i < command->option_count && !is_name_of(&command->options[i], word))
        i++;
    return i;
}

/* The name in "/name:value", "--name=value"; empty if the word has no option's form. */
static spgo_str option_word(const char *arg)
{
    const char *name = arg;
    if (arg[0] == '/')
        name = arg + 1;
    else if (arg[0] == '-')
        name = arg + (arg[1] == '-' ? 2 : 1);
    else
        return (spgo_str){NULL, 0};
    return (spgo_str){name, strcspn(name, ":=")};
}

static bool is_known_option(const cli_command *command, const char *arg)
{
    spgo_str word = option_word(arg);
    return word.len && find_option(command, word) < command->option_count;
}

static bool is_path(const char *arg)
{
    return arg[0] == '/' && (strchr(arg + 1, '/') || os_file_exists(arg));
}

bool cli_number(const char *text, size_t len, unsigned base, uint64_t *value)
{
    if (len > 2 && text[0] == '0' && (text[1] | 0x20) == 'x') {
        base = 16;
        text += 2;
        len -= 2;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned digit = 99;
        if (c >= '0' && c <= '9')
            digit = c - (unsigned)'0';
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (c | 0x20u) - (unsigned)'a' + 10;
        if (digit >= base || v > (UINT64_MAX - digit) / base)
            return false;
        v = v * base + digit;
    }
    *value = v;
    return len > 0;
}

/* ------------------------------------------------------------------ lists */

static bool add_item(cli_args *args, cli_value *value, const char *text, size_t len)
{
    if (!len)
        return true;
    size_t n = value->item_count;
    if ((n & (n - 1)) == 0) { /* full at each power of two, and doubled */
        const char **grown = arena_push(args->memory, n ? 2 * n : 1, sizeof *grown);
        if (!grown)
            return false;
        if (n)
            memcpy(grown, value->items, n * sizeof *grown);
        value->items = grown;
    }
    value->items[n] = arena_copy_text(args->memory, text, len);
    value->item_count += value->items[n] != NULL;
    return value->items[n] != NULL;
}

static bool add_items(cli_args *args, const cli_option *option, cli_value *value, const char *text)
{
    if (option->kind == CLI_FILES && os_file_exists(text))
        return add_item(args, value, text, strlen(text));
    for (;;) {
        size_t len = strcspn(text, ",");
        if (!add_item(args, value, text, len))
            return false;
        if (!text[len])
            return true;
        text += len + 1;
    }
}

static bool ends_in_comma(const char *text)
{
    size_t len = strlen(text);
    return len && text[len - 1] == ',';
}

/* ------------------------------------------------------------------ options */

static int no_memory(const cli_args *args)
{
    cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET, "out of memory");
    return CLI_FAILED;
}

static int set_list(parser *p, const cli_option *option, cli_value *value, const char *text)
{
    for (;;) {
        if (!add_items(p->args, option, value, text))
            return no_memory(p->args);
        if (!ends_in_comma(text) || p->next >= p->argc ||
            is_known_option(p->args->command, p->argv[p->next]))
            break;
        text = p->argv[p->next++];
    }
    if (!value->item_count)
        return cli_usage(p->args, "%s%.*s has an empty list; give at least one of %s",
                         p->args->command->prefix, (int)strcspn(option->name, "|"), option->name,
                         option->metavar);
    return CLI_OK;
}

static int set_number(parser *p, const cli_option *option, cli_value *value, const char *text)
{
    if (!cli_number(text, strlen(text), 10, &value->number))
        return cli_usage(p->args, "'%s' is no number; %s%.*s takes a whole number from 0 up", text,
                         p->args->command->prefix, (int)strcspn(option->name, "|"), option->name);
    value->has_number = true;
    return CLI_OK;
}

/* text is what stood behind ':' or '=', NULL if nothing did. */
static int set_option(parser *p, size_t index, const char *text)
{
    const cli_command *command = p->args->command;
    const cli_option *option = &command->options[index];
    cli_value *value = &p->args->values[index];
    int name_len = (int)strcspn(option->name, "|");

    value->given = true;
    if (option->kind == CLI_FLAG) {
        if (text && *text)
            return cli_usage(p->args, "%s%.*s takes no value, but got '%s'", command->prefix,
                             name_len, option->name, text);
        return CLI_OK;
    }
    if (!text || !*text) {
        if (option->value_optional)
            return CLI_OK;
        if (p->next >= p->argc || is_known_option(command, p->argv[p->next]))
            return cli_usage(p->args, "%s%.*s needs a value: %s%.*s%s%s", command->prefix, name_len,
                             option->name, command->prefix, name_len, option->name,
                             cli_value_mark(command), option->metavar);
        text = p->argv[p->next++];
    }
    switch (option->kind) {
    case CLI_NUMBER:
        return set_number(p, option, value, text);
    case CLI_LIST:
    case CLI_FILES:
        return set_list(p, option, value, text);
    case CLI_FLAG:
    case CLI_TEXT:
        break;
    }
    value->text = text;
    return CLI_OK;
}

static const char *option_name_at(const void *ctx, size_t i)
{
    return ((const cli_command *)ctx)->options[i].name;
}

/* "--version" of every command that has no option of this name. */
static int print_version(const cli_args *args)
{
    out o;
    if (!cli_open_out(args, &o))
        return CLI_FAILED;
    out_printf(&o, "%s (OpenSPGO) %s\n", args->command->tool, SPGO_VERSION_STRING);
    return cli_close_out(args, &o, CLI_OK);
}

static int unknown_option(const cli_args *args, const char *arg)
{
    const cli_command *command = args->command;
    spgo_str word = option_word(arg);
    char text[64];
    size_t len = word.len < sizeof text - 1 ? word.len : sizeof text - 1;
    memcpy(text, word.ptr, len);
    text[len] = '\0';
    const char *near = cli_nearest(text, command->option_count, option_name_at, command);
    if (near)
        return cli_usage(args, "unknown option '%s'; did you mean %s%.*s?", arg, command->prefix,
                         (int)strcspn(near, "|"), near);
    return cli_usage(args, "unknown option '%s'; a file of this name goes after '--'", arg);
}

/* One word that may be an option or an operand. */
static int take_word(parser *p, bool *only_operands)
{
    cli_args *args = p->args;
    const char *arg = p->argv[p->next++];
    spgo_str word = option_word(arg);

    if (!*only_operands && strcmp(arg, "--") == 0) {
        *only_operands = true;
        return CLI_OK;
    }
    if (!*only_operands && word.len) {
        size_t index = find_option(args->command, word);
        if (index < args->command->option_count)
            return set_option(p, index, word.ptr[word.len] ? word.ptr + word.len + 1 : NULL);
        if (text_equal_nocase(word, text_str("version")) && !is_path(arg)) {
            p->wants_version = true;
            return CLI_OK;
        }
        if (!is_path(arg))
            return unknown_option(args, arg);
    }
    if (args->operand_count == args->command->operands_max)
        return cli_usage(args, "unexpected argument '%s'", arg);
    args->operands[args->operand_count++] = arg;
    return CLI_OK;
}

/* ------------------------------------------------------------------ the whole line */

/* Messages about a bad command line are JSON too, wherever the option stands. */
static bool asks_for_json(const cli_command *command, int argc, char **argv)
{
    size_t json = find_option(command, text_str("json"));
    if (json == command->option_count)
        return false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        spgo_str word = option_word(argv[i]);
        if (word.len && is_name_of(&command->options[json], word))
            return true;
    }
    return false;
}

static int parse_words(parser *p)
{
    cli_args *args = p->args;
    size_t help = find_option(args->command, text_str("help"));
    bool only_operands = false;
    while (p->next < p->argc) {
        int code = take_word(p, &only_operands);
        if (code != CLI_OK || p->wants_version ||
            (help < args->command->option_count && args->values[help].given))
            return code;
    }
    if (args->operand_count < args->command->operands_min)
        return cli_usage(args, "%s is missing", args->command->operands);
    return CLI_OK;
}

bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *args, int *exit_code)
{
    *args = (cli_args){.command = command, .memory = arena_new(0)};
    parser p = {.args = args, .argv = argv, .argc = argc, .next = 1};
    args->json = asks_for_json(command, argc, argv);
    if (args->memory)
        args->operands = arena_push(args->memory, (size_t)argc, sizeof *args->operands);

    size_t help = find_option(command, text_str("help"));
    if (!args->operands) {
        *exit_code = no_memory(args);
    } else if (argc <= 1 && command->operands_min) {
        *exit_code = cli_print_help(args, 2, CLI_USAGE);
    } else {
        *exit_code = parse_words(&p);
        if (*exit_code == CLI_OK && help < command->option_count && args->values[help].given)
            *exit_code = cli_print_help(args, 1, CLI_OK);
        else if (*exit_code == CLI_OK && p.wants_version)
            *exit_code = print_version(args);
        else if (*exit_code == CLI_OK)
            return true;
    }
    cli_free(args);
    return false;
}

void cli_free(cli_args *args)
{
    arena_free(args->memory);
    args->memory = NULL;
}

int cli_run(const cli_command *command, int argc, char **argv, int (*run)(const cli_args *args))
{
    cli_args args;
    int exit_code;
    if (!cli_parse(command, argc, argv, &args, &exit_code))
        return exit_code;
    exit_code = run(&args);
    cli_free(&args);
    return exit_code;
}

/* ------------------------------------------------------------------ names */

bool cli_match_any(const cli_value *patterns, spgo_str name)
{
    for (size_t i = 0; i < patterns->item_count; i++) {
        if (text_match(text_str(patterns->items[i]), name))
            return true;
    }
    return !patterns->item_count;
}

const char *cli_nearest(const char *word, size_t count, const char *(*get)(const void *, size_t),
                        const void *ctx)
{
    /* One letter of a short word may differ, up to three of a long one. */
    size_t len = strlen(word);
    unsigned limit = len < 5 ? 1 : len < 9 ? 2 : 3;
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        for (const char *name = get(ctx, i);; name++) {
            size_t name_len = strcspn(name, "|");
            unsigned d = text_distance(text_str(word), (spgo_str){name, name_len}, limit);
            if (d <= limit) {
                best = name;
                if (!d)
                    return best;
                limit = d - 1;
            }
            name += name_len;
            if (!*name)
                break;
        }
    }
    return best;
}
