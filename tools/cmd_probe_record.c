/* spgo probe record: run a program with the probe runtime loaded. This process becomes the program,
 * so that nothing stands between it and its terminal, its signals and its exit code. */
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <os/folder.h>
#include <os/launch.h>
#include <spgo/spp.h>

#include "cli.h"
#include "probe_select.h"

enum {
    OPT_OUTPUT,
    OPT_MODE,
    OPT_RING,
    OPT_DEPTH,
    OPT_OS_EVENT,
    OPT_OFF,
    OPT_EXCLUDE,
    OPT_INCLUDE,
    OPT_EXCLUDE_FILE,
    OPT_EXCLUDE_MODULE,
    OPT_EXCLUDE_SMALL,
    OPT_RUNTIME,
    OPT_LINKED,
    OPT_FORCE,
    OPT_HELP,
    OPT_JSON,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_OUTPUT] = {.name = "output|o",
                    .kind = CLI_TEXT,
                    .metavar = "folder",
                    .help = "where the files go, one for each process (default: the program's\n"
                            "name and .probe)"},
    [OPT_MODE] = {.name = "mode",
                  .kind = CLI_TEXT,
                  .metavar = "name",
                  .help = "summary (default): values of every path of calls; ring: and the\n"
                          "last events of each thread; stream: and all events"},
    [OPT_RING] = {.name = "ring",
                  .kind = CLI_NUMBER,
                  .metavar = "events",
                  .help = "how many events a ring holds at least (default: 130,944)"},
    [OPT_DEPTH] = {.name = "depth",
                   .kind = CLI_NUMBER,
                   .metavar = "n",
                   .help = "calls that lie deeper belong to the one at this depth"},
    [OPT_OS_EVENT] = {.name = "os-event",
                      .kind = CLI_LIST,
                      .metavar = "kind,...",
                      .help = "what ends application time: switch (default; and signals), fault,\n"
                              "syscall; switch-time to know how long, too; none"},
    [OPT_OFF] = {.name = "start-off",
                 .help = "collect nothing until the program, or spgo probe\n"
                         "start, says so"},
    [OPT_EXCLUDE] = {.name = "exclude",
                     .kind = CLI_LIST,
                     .metavar = "function,...",
                     .help = "functions of the program that do not count: their time is their\n"
                             "caller's (* and ? match any text, any character)"},
    [OPT_INCLUDE] = {.name = "include",
                     .kind = CLI_LIST,
                     .metavar = "function,...",
                     .help = "only these functions of the program count"},
    [OPT_EXCLUDE_FILE] = {.name = "exclude-file",
                          .kind = CLI_LIST,
                          .metavar = "file,...",
                          .help = "functions of these source files do not count"},
    [OPT_EXCLUDE_MODULE] = {.name = "exclude-module",
                            .kind = CLI_LIST,
                            .metavar = "name,...",
                            .help = "functions of these libraries do not count"},
    [OPT_EXCLUDE_SMALL] = {.name = "exclude-small",
                           .kind = CLI_NUMBER,
                           .value_optional = true,
                           .metavar = "bytes",
                           .help = "functions do not count that call no other and have no more\n"
                                   "code than this (default: 96)"},
    [OPT_RUNTIME] = {.name = "runtime",
                     .kind = CLI_TEXT,
                     .metavar = "file",
                     .help = "the libspgo_probe.so to load (default: that beside this program)"},
    [OPT_LINKED] = {.name = "linked", .help = "the program is linked with the runtime: load none"},
    [OPT_FORCE] = {.name = "force|f", .help = "remove the SPP files that are in the folder"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "messages as JSON"},
};

static const cli_command command = {
    .tool = "spgo probe record",
    .prefix = "--",
    .purpose = "run a program with its probes recorded",
    .synopsis = "[options] -- program [arguments]",
    .notes = "The program must be built with -finstrument-functions; it is run as it is. Its exit "
             "code is\nthat of this command.\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "a program to run",
};

enum {
    EVENTS_PER_CHUNK = (SPGO_SPP_CHUNK_BYTES - SPGO_SPP_CHUNK_HEAD_BYTES) / SPGO_SPP_EVENT_BYTES
};

/* ------------------------------------------------------------------ the runtime */

static bool is_there(const char *path)
{
    return os_file_exists(path);
}

/* Beside an installed program, or in its build folder. */
static char *find_runtime(const cli_args *args)
{
    static const char *const places[] = {"../lib/libspgo_probe.so", "libspgo_probe.so",
                                         "../lib/x86_64-linux-gnu/libspgo_probe.so",
                                         "../lib64/libspgo_probe.so"};
    char *folder = os_own_folder();
    char *found = NULL;
    for (size_t i = 0; folder && !found && i < sizeof places / sizeof *places; i++) {
        const size_t size = strlen(folder) + strlen(places[i]) + 2;
        char *path = arena_push(args->memory, size, 1);
        if (!path)
            break;
        snprintf(path, size, "%s/%s", folder, places[i]);
        found = is_there(path) ? path : NULL;
    }
    free(folder);
    return found;
}

/* LD_PRELOAD with the runtime before what is there. */
static const char *preload(const cli_args *args, const char *runtime)
{
    const char *others = os_environment("LD_PRELOAD");
    const size_t size = strlen(runtime) + (others ? strlen(others) : 0) + 2;
    char *text = arena_push(args->memory, size, 1);
    if (text)
        snprintf(text, size, "%s%s%s", runtime, others && *others ? ":" : "", others ? others : "");
    return text;
}

/* ------------------------------------------------------------------ the options for the runtime */

static const char *const modes[] = {"summary", "ring", "stream"};
static const char *const event_kinds[] = {"switch", "switch-time", "fault", "syscall", "none"};

static bool is_one_of(const char *word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, list[i]) == 0)
            return true;
    }
    return false;
}

static int runtime_options(const cli_args *args, char *text, size_t size)
{
    const cli_value *v = args->values;
    const char *mode = v[OPT_MODE].given ? v[OPT_MODE].text : "summary";
    if (!is_one_of(mode, modes, 3))
        return cli_usage(args, "no mode '%s': summary, ring or stream", mode);
    int n = snprintf(text, size, "mode=%s", mode);
    if (v[OPT_RING].given)
        n += snprintf(text + n, size - (size_t)n, ",ring=%" PRIu64,
                      v[OPT_RING].number / EVENTS_PER_CHUNK + 2);
    if (v[OPT_DEPTH].given)
        n += snprintf(text + n, size - (size_t)n, ",depth=%" PRIu64, v[OPT_DEPTH].number);
    if (v[OPT_OFF].given)
        n += snprintf(text + n, size - (size_t)n, ",start=off");
    for (size_t i = 0; i < v[OPT_OS_EVENT].item_count; i++) {
        const char *kind = v[OPT_OS_EVENT].items[i];
        if (!is_one_of(kind, event_kinds, 5))
            return cli_usage(args, "no event '%s': switch, switch-time, fault, syscall or none",
                             kind);
        if ((size_t)n + 32 > size)
            return cli_usage(args, "--os-event is given too often");
        n += snprintf(text + n, size - (size_t)n, "%s%s", i ? "+" : ",os-event=", kind);
    }
    return CLI_OK;
}

/* ------------------------------------------------------------------ the folder */

typedef struct old_files {
    const cli_args *args;
    const char *folder;
    size_t count;
    bool remove;
} old_files;

static bool take_old(void *ctx, const char *name)
{
    old_files *old = ctx;
    const size_t len = strlen(name);
    spgo_error err;
    if (len <= 4 || strcmp(name + len - 4, ".spp") != 0)
        return true;
    old->count++;
    const size_t size = strlen(old->folder) + len + 2;
    char *path = old->remove ? arena_push(old->args->memory, size, 1) : NULL;
    if (path) {
        snprintf(path, size, "%s/%s", old->folder, name);
        (void)os_remove(path, &err);
    }
    return true;
}

static int prepare_folder(const cli_args *args, const char *folder)
{
    spgo_error err;
    bool existed;
    if (os_folder_create(folder, &existed, &err) != SPGO_OK)
        return cli_fail(args, folder, &err);
    old_files old = {.args = args, .folder = folder, .remove = args->values[OPT_FORCE].given};
    if (existed)
        (void)os_folder_each(folder, take_old, &old);
    if (old.count > 0 && !old.remove) {
        cli_message(args, CLI_ERROR, folder, SPGO_NO_OFFSET,
                    "holds %zu SPP files of an earlier run; --force removes them, --output names "
                    "another folder",
                    old.count);
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* Absolute, since the program may change its folder: <folder>/<program>. */
static const char *output_base(const cli_args *args, const char *folder)
{
    const spgo_str name = text_base_name(text_str(args->operands[0]));
    char *absolute = os_absolute_path(folder);
    const size_t size = (absolute ? strlen(absolute) : 0) + name.len + 2;
    char *text = absolute ? arena_push(args->memory, size, 1) : NULL;
    if (text)
        snprintf(text, size, "%s/%.*s", absolute, (int)name.len, name.ptr);
    free(absolute);
    return text;
}

static const char *folder_name(const cli_args *args)
{
    const spgo_str name = text_base_name(text_str(args->operands[0]));
    if (args->values[OPT_OUTPUT].given)
        return args->values[OPT_OUTPUT].text;
    char *text = arena_push(args->memory, name.len + sizeof ".probe", 1);
    if (text)
        snprintf(text, name.len + sizeof ".probe", "%.*s.probe", (int)name.len, name.ptr);
    return text;
}

/* ------------------------------------------------------------------ the command */

static int become(const cli_args *args, const char *runtime, const char *folder, const char *opts,
                  const char *selection)
{
    spgo_error err;
    const char *base = output_base(args, folder);
    const char *loaded = runtime ? preload(args, runtime) : NULL;
    char **argv = arena_push(args->memory, args->operand_count + 1, sizeof *argv);
    if (!base || !argv || (runtime && !loaded)) {
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET, "out of memory");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < args->operand_count; i++)
        argv[i] = (char *)(uintptr_t)args->operands[i];
    const os_variable variables[] = {{"SPGO_PROBE_OUTPUT", base},
                                     {"SPGO_PROBE", opts},
                                     {"SPGO_PROBE_SELECT", selection},
                                     {"LD_PRELOAD", loaded}};
    (void)os_become(argv, variables, runtime ? 4 : 3, &err);
    return cli_fail(args, args->operands[0], &err);
}

enum { SMALL_BYTES_DEFAULT = 96 };

/* Writes the list of functions that do not count beside the recording; *path stays NULL without
 * one. */
static int choose_functions(const cli_args *args, const char *program, const char *folder,
                            const char **path)
{
    const cli_value *v = args->values;
    const cli_value *small = &v[OPT_EXCLUDE_SMALL];
    const probe_select s = {.exclude = &v[OPT_EXCLUDE],
                            .include = &v[OPT_INCLUDE],
                            .exclude_files = &v[OPT_EXCLUDE_FILE],
                            .exclude_modules = &v[OPT_EXCLUDE_MODULE],
                            .small_bytes = small->has_number ? small->number
                                           : small->given    ? SMALL_BYTES_DEFAULT
                                                             : 0};
    size_t left_out;
    *path = NULL;
    if (!probe_select_any(&s))
        return CLI_OK;
    const char *base = output_base(args, folder);
    const size_t size = base ? strlen(base) + sizeof ".left-out" : 0;
    char *text = base ? arena_push(args->memory, size, 1) : NULL;
    if (!text)
        return CLI_FAILED;
    snprintf(text, size, "%s.left-out", base);
    const int exit_code = probe_select_write(args, &s, program, text, &left_out);
    if (exit_code == CLI_OK)
        cli_message(args, CLI_NOTE, program, SPGO_NO_OFFSET, "%zu functions do not count",
                    left_out);
    *path = text;
    return exit_code;
}

static int record(const cli_args *args)
{
    const cli_value *v = args->values;
    char opts[512];
    const int usage = runtime_options(args, opts, sizeof opts);
    if (usage != CLI_OK)
        return usage;
    char *program = os_find_program(args->operands[0]);
    if (!program) {
        cli_message(args, CLI_ERROR, args->operands[0], SPGO_NO_OFFSET,
                    "there is no such program%s%s, or it cannot be run",
                    strchr(args->operands[0], '/') ? "" : " in PATH; one in this folder is ./",
                    strchr(args->operands[0], '/') ? "" : args->operands[0]);
        return CLI_FAILED;
    }
    const char *runtime = v[OPT_RUNTIME].given ? v[OPT_RUNTIME].text : find_runtime(args);
    if (v[OPT_LINKED].given)
        runtime = NULL;
    else if (!runtime || !is_there(runtime)) {
        cli_message(args, CLI_ERROR, runtime, SPGO_NO_OFFSET,
                    "libspgo_probe.so is not there; --runtime tells where it is, --linked that the "
                    "program has it");
        free(program);
        return CLI_FAILED;
    }
    const char *folder = folder_name(args);
    const char *selection = NULL;
    int bad = folder ? prepare_folder(args, folder) : CLI_FAILED;
    if (bad == CLI_OK)
        bad = choose_functions(args, program, folder, &selection);
    free(program);
    return bad != CLI_OK ? bad : become(args, runtime, folder, opts, selection);
}

int cmd_probe_record(int argc, char **argv)
{
    return cli_run(&command, argc, argv, record);
}
