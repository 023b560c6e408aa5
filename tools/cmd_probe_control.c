/* spgo probe mark, start, stop, status: steering probes from outside, through the file that the
 * program's runtime has mapped. */
#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/arena.h>
#include <base/json.h>
#include <base/text.h>
#include <format/spp/spp_control.h>
#include <os/launch.h>
#include <os/system.h>

#include "cli.h"
#include "probe_files.h"

enum { OPT_ID, OPT_COMMENT, OPT_HELP, OPT_JSON, OPT_COUNT };

static const cli_option options[OPT_COUNT] = {
    [OPT_ID] = {.name = "id", .kind = CLI_NUMBER, .metavar = "n", .help = "mark: its number"},
    [OPT_COMMENT] = {.name = "comment|c",
                     .kind = CLI_TEXT,
                     .metavar = "text",
                     .help = "mark: what it stands for"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "as JSON objects, one a line; messages too"},
};

#define COMMAND(word, what)                                                                        \
    {                                                                                              \
        .tool = "spgo probe " word, .prefix = "--", .purpose = what,                               \
        .synopsis = "[options] file.spp|folder...",                                                \
        .notes = "Inputs are the SPP files of programs that run, or folders of them: all "         \
                 "processes are meant.\n",                                                         \
        .options = options, .option_count = OPT_COUNT, .operands_min = 1,                          \
        .operands_max = SIZE_MAX, .operands = "an SPP file, or a folder of them,",                 \
    }

static const cli_command commands[] = {COMMAND("mark", "set a mark in a program that runs"),
                                       COMMAND("start", "let the probes count again"),
                                       COMMAND("status", "tell what probes do now"),
                                       COMMAND("stop", "let the probes not count")};

typedef struct steering {
    const cli_args *args;
    char verb; /* m: mark, +: start, -: stop, ?: status */
    out o;
    json j;
} steering;

static void show_status(steering *s, const char *path, const spp_status *st)
{
    if (s->args->json) {
        json_open_object(&s->j);
        json_key(&s->j, "file");
        json_text(&s->j, path);
        json_key(&s->j, "pid");
        json_u64(&s->j, st->pid);
        json_key(&s->j, "active");
        json_bool(&s->j, st->is_active);
        json_key(&s->j, "finished");
        json_bool(&s->j, st->is_finished);
        json_key(&s->j, "threads");
        json_u64(&s->j, st->thread_count);
        json_key(&s->j, "file_bytes");
        json_u64(&s->j, st->file_bytes);
        json_close_object(&s->j);
        json_end_line(&s->j);
        return;
    }
    out_name(&s->o, text_str(path));
    out_printf(&s->o, ": process %u, %s, %u threads so far, %" PRIu64 " bytes\n", st->pid,
               st->is_finished ? "ended"
               : st->is_active ? "probes count"
                               : "probes do not count",
               st->thread_count, st->file_bytes);
}

static int steer(steering *s, const char *path)
{
    const cli_value *v = s->args->values;
    os_shared *shared;
    spgo_error err;
    uint64_t size;
    if (os_shared_open(path, &shared, &err) != SPGO_OK)
        return cli_fail(s->args, path, &err);
    uint8_t *memory = os_shared_memory(shared, &size);
    spp_status status;
    spgo_code code = spp_control_status((spgo_span){memory, size}, &status, &err);
    if (code == SPGO_OK && s->verb == '?')
        show_status(s, path, &status);
    else if (code == SPGO_OK && status.is_finished)
        cli_message(s->args, CLI_WARNING, path, SPGO_NO_OFFSET, "the program has ended");
    else if (code == SPGO_OK && s->verb == 'm') {
        uint64_t off;
        uint8_t chunk[SPGO_SPP_CHUNK_HEAD_BYTES + sizeof(spgo_spp_mark)];
        spp_control_mark(memory, os_clock_ns(), (int64_t)v[OPT_ID].number, v[OPT_COMMENT].text,
                         chunk, &off);
        static const uint8_t zero = 0;
        code = os_shared_write(shared, off + SPGO_SPP_CHUNK_BYTES - 1, &zero, 1, &err);
        if (code == SPGO_OK)
            code = os_shared_write(shared, off, chunk, sizeof chunk, &err);
    } else if (code == SPGO_OK) {
        spp_control_change(memory, s->verb == '+' ? 1 : -1);
    }
    os_shared_close(shared);
    return code == SPGO_OK ? CLI_OK : cli_fail(s->args, path, &err);
}

static int run(const cli_args *args, char verb)
{
    steering s = {.args = args, .verb = verb};
    const char **paths;
    size_t count;
    int exit_code = probe_paths(args, args->operands, args->operand_count, &paths, &count);
    if (exit_code == CLI_OK && !cli_open_out(args, &s.o))
        exit_code = CLI_FAILED;
    else if (exit_code == CLI_OK) {
        s.j = json_on(&s.o, false);
        for (size_t i = 0; i < count; i++) {
            const int result = steer(&s, paths[i]);
            exit_code = result != CLI_OK ? result : exit_code;
        }
        exit_code = cli_close_out(args, &s.o, exit_code);
    }
    free((void *)paths);
    return exit_code;
}

static int mark(const cli_args *args)
{
    return run(args, 'm');
}

static int start(const cli_args *args)
{
    return run(args, '+');
}

static int status(const cli_args *args)
{
    return run(args, '?');
}

static int stop(const cli_args *args)
{
    return run(args, '-');
}

int cmd_probe_control(int argc, char **argv)
{
    static int (*const runs[])(const cli_args *args) = {mark, start, status, stop};
    static const char *const words[] = {"mark", "start", "status", "stop"};
    size_t i = 0;
    while (i < 3 && strcmp(argv[0], words[i]) != 0)
        i++;
    return cli_run(&commands[i], argc, argv, runs[i]);
}
