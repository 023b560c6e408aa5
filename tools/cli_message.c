/*
 * How commands speak: messages to standard error as text or as JSON objects, and standard output
 * as a stream whose failure is noticed.
 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <base/json.h>
#include <base/text.h>
#include <os/system.h>

static const char *severity_name(cli_severity severity)
{
    switch (severity) {
    case CLI_ERROR:
        return "error";
    case CLI_WARNING:
        return "warning";
    case CLI_NOTE:
        return "note";
    }
    return "error";
}

static void put_text(out *o, const cli_args *args, cli_severity severity, const char *file,
                     uint64_t offset, const char *sentence)
{
    out_text(o, args->command->tool);
    out_text(o, ": ");
    if (file) {
        out_name(o, text_str(file));
        out_text(o, ": ");
    }
    if (offset != SPGO_NO_OFFSET) {
        out_text(o, "offset 0x");
        out_hex(o, offset);
        out_text(o, ": ");
    }
    if (severity != CLI_ERROR) {
        out_text(o, severity_name(severity));
        out_text(o, ": ");
    }
    out_name(o, text_str(sentence));
    out_text(o, "\n");
}

static void put_json(out *o, const cli_args *args, cli_severity severity, const char *code,
                     const char *file, uint64_t offset, const char *sentence)
{
    json j = json_on(o, false);
    json_open_object(&j);
    json_key(&j, "tool");
    json_text(&j, args->command->tool);
    json_key(&j, "severity");
    json_text(&j, severity_name(severity));
    if (code) {
        json_key(&j, "code");
        json_text(&j, code);
    }
    if (file) {
        json_key(&j, "file");
        json_text(&j, file);
    }
    if (offset != SPGO_NO_OFFSET) {
        json_key(&j, "offset");
        json_u64(&j, offset);
    }
    json_key(&j, "message");
    json_text(&j, sentence);
    json_close_object(&j);
    json_end_line(&j);
}

static void say(const cli_args *args, cli_severity severity, const char *code, const char *file,
                uint64_t offset, const char *sentence)
{
    out o;
    if (out_init(&o, os_stream_sink(2), NULL) != SPGO_OK)
        return;
    if (args->json)
        put_json(&o, args, severity, code, file, offset, sentence);
    else
        put_text(&o, args, severity, file, offset, sentence);
    (void)out_flush(&o); /* nowhere left to complain */
    out_free(&o);
}

void cli_message(const cli_args *args, cli_severity severity, const char *file, uint64_t offset,
                 const char *fmt, ...)
{
    char sentence[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    say(args, severity, NULL, file, offset, sentence);
}

int cli_fail(const cli_args *args, const char *file, const spgo_error *err)
{
    say(args, CLI_ERROR, spgo_code_name(err->code), file, err->offset, err->sentence);
    return CLI_FAILED;
}

int cli_partial(const cli_args *args, const char *file, const spgo_error *err)
{
    say(args, CLI_WARNING, spgo_code_name(err->code), file, err->offset, err->sentence);
    return CLI_PARTIAL;
}

bool cli_is_damage(spgo_code code)
{
    return code == SPGO_TRUNCATED || code == SPGO_CORRUPT || code == SPGO_UNSUPPORTED;
}

int cli_usage(const cli_args *args, const char *fmt, ...)
{
    char sentence[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence - 64, fmt, ap);
    va_end(ap);
    size_t len = strlen(sentence);
    snprintf(sentence + len, sizeof sentence - len, " (see %s %shelp)", args->command->tool,
             args->command->prefix);
    say(args, CLI_ERROR, spgo_code_name(SPGO_USAGE), NULL, SPGO_NO_OFFSET, sentence);
    return CLI_USAGE;
}

bool cli_open_out(const cli_args *args, out *o)
{
    spgo_error err;
    if (out_init(o, os_stream_sink(1), &err) == SPGO_OK)
        return true;
    (void)cli_fail(args, NULL, &err);
    return false;
}

int cli_close_out(const cli_args *args, out *o, int exit_code)
{
    bool complete = out_flush(o);
    out_free(o);
    if (complete)
        return exit_code;
    int reason = os_stream_error();
    if (reason != EPIPE)
        cli_message(args, CLI_ERROR, "standard output", SPGO_NO_OFFSET, "cannot write: %s",
                    reason ? strerror(reason) : "the system gave no reason");
    return CLI_FAILED;
}
