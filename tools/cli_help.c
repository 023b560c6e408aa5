/*
 * Help text: purpose, usage lines, the options of the tool, those that only this implementation
 * has, and the command's notes. Everything comes from the command's table.
 */
#include "cli_help.h"

#include <string.h>

#include <os/system.h>

enum { HELP_INDENT = 2, HELP_WIDTH_MAX = 24 };

/* How wide print_option_head prints. */
static size_t option_head_width(const cli_command *command, const cli_option *option)
{
    size_t width = strlen(command->prefix) + strcspn(option->name, "|");
    if (option->metavar)
        width += strlen(":") + strlen(option->metavar) + (option->value_optional ? 2 : 0);
    return width;
}

/* "/binary:names", "/top[:n]", "--binary=names". */
static void print_option_head(out *o, const cli_command *command, const cli_option *option)
{
    out_text(o, command->prefix);
    out_bytes(o, option->name, strcspn(option->name, "|"));
    if (option->metavar) {
        out_text(o, option->value_optional ? "[" : "");
        out_text(o, cli_value_mark(command));
        out_text(o, option->metavar);
        out_text(o, option->value_optional ? "]" : "");
    }
}

static void print_spaces(out *o, size_t n)
{
    while (n--)
        out_bytes(o, " ", 1);
}

static size_t column_of_texts(const cli_command *command)
{
    size_t widest = 0;
    for (size_t i = 0; i < command->option_count; i++) {
        size_t width = option_head_width(command, &command->options[i]);
        if (width > widest && width <= HELP_WIDTH_MAX)
            widest = width;
    }
    return HELP_INDENT + widest + 2;
}

static void print_option(out *o, const cli_command *command, const cli_option *option,
                         size_t column)
{
    print_spaces(o, HELP_INDENT);
    print_option_head(o, command, option);
    size_t at = HELP_INDENT + option_head_width(command, option);
    if (at + 2 > column) {
        out_text(o, "\n");
        at = 0;
    }
    for (const char *line = option->help;;) {
        size_t len = strcspn(line, "\n");
        print_spaces(o, column - at);
        out_bytes(o, line, len);
        out_text(o, "\n");
        if (!line[len])
            return;
        at = 0;
        line += len + 1;
    }
}

static void print_options(out *o, const cli_command *command, bool ours, const char *title)
{
    bool any = false;
    size_t column = column_of_texts(command);
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].ours != ours)
            continue;
        if (!any) {
            out_text(o, "\n");
            out_text(o, title);
            out_text(o, "\n");
        }
        any = true;
        print_option(o, command, &command->options[i], column);
    }
}

static void print_usage(out *o, const cli_command *command)
{
    const char *lead = "usage: ";
    for (const char *line = command->synopsis; *line;) {
        size_t len = strcspn(line, "\n");
        out_text(o, lead);
        out_text(o, command->tool);
        out_text(o, " ");
        out_bytes(o, line, len);
        out_text(o, "\n");
        lead = "       ";
        line += len + (line[len] == '\n');
    }
}

int cli_print_help(const cli_args *args, int fd, int exit_code)
{
    const cli_command *command = args->command;
    out o;
    spgo_error err;
    if (out_init(&o, os_stream_sink(fd), &err) != SPGO_OK)
        return cli_fail(args, NULL, &err);
    out_printf(&o, "%s - %s\n\n", command->tool, command->purpose);
    print_usage(&o, command);
    print_options(&o, command, false, "options:");
    print_options(&o, command, true, "options the MSVC tool does not have:");
    out_printf(&o,
               "\nOptions are written /name, -name or --name, in any case; a value follows ':' "
               "or '='\nor is the next word (an optional value only follows ':' or '='). "
               "\"--\" ends them.\n%sversion tells the version.\n",
               command->prefix);
    if (command->notes)
        out_printf(&o, "\n%s", command->notes);
    return cli_close_out(args, &o, exit_code);
}
