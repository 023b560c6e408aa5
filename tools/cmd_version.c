/* spgo version: what this build is and can do. */
#include "commands.h"

#include <base/json.h>
#include <spgo/version.h>

#include "cli.h"

enum { OPT_HELP, OPT_JSON, OPT_COUNT };

static const cli_option options[OPT_COUNT] = {
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "as a JSON object"},
};

static const cli_command command = {
    .tool = "spgo version",
    .prefix = "--",
    .purpose = "tell the version and what was compiled in",
    .synopsis = "[options]",
    .options = options,
    .option_count = OPT_COUNT,
};

/* Parts that a build may lack. */
static const struct feature {
    const char *name;
    bool here;
    const char *what;
} features[] = {
    {"zstd", SPGO_HAVE_ZSTD, "reads compressed perf.data"},
    {"zydis", SPGO_HAVE_ZYDIS, "decodes x86 and x64 code, which profiles need"},
    {"dwarf", SPGO_HAVE_DWARF, "reads DWARF, by elfutils' libdw"},
    {"zlib", SPGO_HAVE_ZLIB, "reads and writes compressed profiles"},
};

static const char *system_name(void)
{
#if defined(_WIN32)
    return "windows";
#elif defined(__linux__)
    return "linux";
#else
    return "posix";
#endif
}

static void print_json(out *o)
{
    json j = json_on(o, true);
    json_open_object(&j);
    json_key(&j, "version");
    json_text(&j, SPGO_VERSION_STRING);
    json_key(&j, "system");
    json_text(&j, system_name());
    json_key(&j, "features");
    json_open_object(&j);
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        json_key(&j, features[i].name);
        json_bool(&j, features[i].here);
    }
    json_close_object(&j);
    json_close_object(&j);
    json_end_line(&j);
}

static void print_text(out *o)
{
    out_printf(o, "OpenSPGO %s (%s)\n", SPGO_VERSION_STRING, system_name());
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        out_printf(o, "  %-6s %-4s %s\n", features[i].name, features[i].here ? "yes" : "no",
                   features[i].what);
}

int cmd_version(int argc, char **argv)
{
    cli_args args;
    int exit_code;
    out o;
    if (!cli_parse(&command, argc, argv, &args, &exit_code))
        return exit_code;
    exit_code = CLI_FAILED;
    if (cli_open_out(&args, &o)) {
        if (args.json)
            print_json(&o);
        else
            print_text(&o);
        exit_code = cli_close_out(&args, &o, CLI_OK);
    }
    cli_free(&args);
    return exit_code;
}
