/* spgo symbolize: which functions and lines addresses of an image come from. */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

#include <base/json.h>
#include <base/text.h>
#include <symbol/symbol.h>

#include "cli.h"

enum {
    OPT_ADDRESSES,
    OPT_ALL,
    OPT_DEBUG_FILE,
    OPT_FORCE,
    OPT_HELP,
    OPT_JSON,
    OPT_LINKAGE,
    OPT_SYMBOLS,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_ADDRESSES] = {.name = "addresses|a",
                       .help = "addresses instead of RVAs: those that the image was linked for"},
    [OPT_ALL] = {.name = "all", .help = "all of the code, run by run, instead of single RVAs"},
    [OPT_DEBUG_FILE] = {.name = "debug-file|d",
                        .kind = CLI_TEXT,
                        .metavar = "file",
                        .help = "the PDB, or the separate debug file of an ELF image"},
    [OPT_FORCE] = {.name = "force|f", .help = "take a debug file of another build too"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "JSON objects, one a line; messages too"},
    [OPT_LINKAGE] = {.name = "linkage|l",
                     .help = "names as the linker knows them, where they are known"},
    [OPT_SYMBOLS] = {.name = "symbols|s",
                     .kind = CLI_FILES,
                     .metavar = "folder,...",
                     .help = "where debug files may be: folders, symbol stores, build-id trees"},
};

static const cli_command command = {
    .tool = "spgo symbolize",
    .prefix = "--",
    .purpose = "tell which functions and lines RVAs of an image come from",
    .synopsis = "[options] image [rva...]",
    .notes = "RVAs are hexadecimal, with or without 0x. Without any they are read from standard "
             "input,\none a line. Each gets the innermost function first, then those that it was "
             "inlined into.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 debug information or input is damaged in "
             "part.\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "an image",
};

typedef struct symbolizer {
    const cli_args *args;
    symbols *s;
    uint64_t base_addr; /* what RVA 0 is called */
    bool linkage;
    out o;
    json j;
    diag bad_lines;
} symbolizer;

/* ------------------------------------------------------------------ chains */

static spgo_str name_of(const symbolizer *z, const symbol_function *f)
{
    if (!f)
        return (spgo_str){0};
    bool wants_linkage = z->linkage || f->name.len == 0;
    return wants_linkage && f->linkage_name.len > 0 ? f->linkage_name : f->name;
}

static void put_name(out *o, spgo_str name)
{
    if (name.len > 0)
        out_name(o, name);
    else
        out_bytes(o, "??", 2);
}

/* "mix at t.cpp:5 (discriminator 2)" */
static void put_frame(symbolizer *z, const symbol_frame *f)
{
    out *o = &z->o;
    put_name(o, name_of(z, f->function));
    out_bytes(o, " at ", 4);
    put_name(o, f->file);
    out_bytes(o, ":", 1);
    out_u64(o, f->line);
    if (f->discriminator > 0) {
        out_text(o, " (discriminator ");
        out_u64(o, f->discriminator);
        out_bytes(o, ")", 1);
    }
}

static void put_chain(symbolizer *z, const symbol_frame *leaf, const char *between)
{
    static const symbol_frame unknown = {0};
    put_frame(z, leaf ? leaf : &unknown);
    for (const symbol_frame *f = leaf ? leaf->caller : NULL; f; f = f->caller) {
        out_text(&z->o, between);
        put_frame(z, f);
    }
    out_bytes(&z->o, "\n", 1);
}

static void json_member(json *j, const char *key, spgo_str value)
{
    if (value.len > 0) {
        json_key(j, key);
        json_str(j, value);
    }
}

static void json_number(json *j, const char *key, uint64_t value)
{
    if (value > 0) {
        json_key(j, key);
        json_u64(j, value);
    }
}

/* What is not known is left out. */
static void json_chain(json *j, const symbol_frame *leaf)
{
    json_key(j, "frames");
    json_open_array(j);
    for (const symbol_frame *f = leaf; f; f = f->caller) {
        json_open_object(j);
        if (f->function) {
            json_member(j, "function", f->function->name);
            json_member(j, "linkage_name", f->function->linkage_name);
            json_number(j, "declared_line", f->function->line);
        }
        json_member(j, "file", f->file);
        json_number(j, "line", f->line);
        json_number(j, "discriminator", f->discriminator);
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
    json_end_line(j);
}

/* ------------------------------------------------------------------ single addresses */

/* False: nothing more can be told (no memory). Of an address that is nowhere, nothing is known. */
static bool show_address(symbolizer *z, uint64_t address, int *exit_code)
{
    symbol_run run = {.leaf = NULL};
    spgo_error err;
    uint64_t rva = address - z->base_addr;
    if (address >= z->base_addr && rva <= UINT32_MAX) {
        spgo_code code = symbols_run_at(z->s, (uint32_t)rva, &run, &err);
        if (code != SPGO_OK && code != SPGO_NOT_FOUND) {
            *exit_code = cli_fail(z->args, z->args->operands[0], &err);
            return false;
        }
        if (code != SPGO_OK)
            run.leaf = NULL;
    }
    if (z->args->json) {
        json_open_object(&z->j);
        json_key(&z->j, z->args->values[OPT_ADDRESSES].given ? "address" : "rva");
        json_hex(&z->j, address);
        json_chain(&z->j, run.leaf);
        return true;
    }
    out_bytes(&z->o, "0x", 2);
    out_hex(&z->o, address);
    out_bytes(&z->o, ": ", 2);
    put_chain(z, run.leaf, "\n (inlined by) ");
    return true;
}

static int show_operands(symbolizer *z)
{
    const cli_args *args = z->args;
    int exit_code = CLI_OK;
    for (size_t i = 1; i < args->operand_count; i++) {
        uint64_t address;
        const char *text = args->operands[i];
        if (!cli_number(text, strlen(text), 16, &address) || !show_address(z, address, &exit_code))
            break; /* check_operands has seen to the numbers */
    }
    return exit_code;
}

static spgo_str trim(const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == '\r' || text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    return (spgo_str){text, len};
}

static int show_lines(symbolizer *z, spgo_span input)
{
    int exit_code = CLI_OK;
    uint64_t address;
    for (size_t at = 0; at < input.len;) {
        const char *start = (const char *)input.ptr + at;
        const char *end = memchr(start, '\n', input.len - at);
        size_t len = end ? (size_t)(end - start) : input.len - at;
        spgo_str line = trim(start, len);
        if (line.len > 0 && !cli_number(line.ptr, line.len, 16, &address))
            diag_add(&z->bad_lines, SPGO_CORRUPT, at, "'%.*s' is no hexadecimal number",
                     (int)(line.len < 60 ? line.len : 60), line.ptr);
        else if (line.len > 0 && !show_address(z, address, &exit_code))
            break;
        at += len + 1;
    }
    return exit_code;
}

static int show_standard_input(symbolizer *z)
{
    os_input *in;
    spgo_error err;
    if (os_input_open("-", &in, &err) != SPGO_OK)
        return cli_fail(z->args, "-", &err);
    int exit_code = show_lines(z, os_input_bytes(in));
    os_input_close(in);
    return exit_code;
}

/* ------------------------------------------------------------------ all of the code */

static bool is_same_text(spgo_str a, spgo_str b)
{
    return a.len == b.len && (a.len == 0 || a.ptr == b.ptr || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static bool is_same_chain(const symbol_frame *a, const symbol_frame *b)
{
    while (a && b && a != b) {
        if (a->function != b->function || a->line != b->line ||
            a->discriminator != b->discriminator || !is_same_text(a->file, b->file))
            return false;
        a = a->caller;
        b = b->caller;
    }
    return a == b;
}

static void show_run(symbolizer *z, const symbol_run *run)
{
    if (!run->leaf)
        return;
    uint64_t begin = z->base_addr + run->begin_rva, end = z->base_addr + run->end_rva;
    if (z->args->json) {
        json_open_object(&z->j);
        json_key(&z->j, "begin");
        json_hex(&z->j, begin);
        json_key(&z->j, "end");
        json_hex(&z->j, end);
        json_chain(&z->j, run->leaf);
        return;
    }
    out_bytes(&z->o, "0x", 2);
    out_hex(&z->o, begin);
    out_bytes(&z->o, "-0x", 3);
    out_hex(&z->o, end);
    out_bytes(&z->o, ": ", 2);
    put_chain(z, run->leaf, " <- ");
}

static int show_segment(symbolizer *z, const code_segment *segment)
{
    spgo_error err;
    symbol_run pending = {.leaf = NULL}, run;
    uint64_t end = (uint64_t)segment->rva + segment->bytes.len;
    for (uint64_t rva = segment->rva; rva < end;) {
        spgo_code code = symbols_run_at(z->s, (uint32_t)rva, &run, NULL);
        if (code == SPGO_NOT_FOUND) {
            rva++;
            continue;
        }
        if (code != SPGO_OK) {
            (void)symbols_run_at(z->s, (uint32_t)rva, &run, &err);
            return cli_fail(z->args, z->args->operands[0], &err);
        }
        run.begin_rva = (uint32_t)rva;
        if (run.end_rva > end)
            run.end_rva = (uint32_t)end;
        rva = run.end_rva;
        if (pending.leaf && pending.end_rva == run.begin_rva &&
            is_same_chain(pending.leaf, run.leaf)) {
            pending.end_rva = run.end_rva;
            continue;
        }
        show_run(z, &pending);
        pending = run;
    }
    show_run(z, &pending);
    return CLI_OK;
}

static int show_all(symbolizer *z)
{
    const code_image *code = symbols_code(z->s);
    int exit_code = CLI_OK;
    for (size_t i = 0; i < code->segment_count && exit_code == CLI_OK; i++)
        if (code->segments[i].is_executable)
            exit_code = show_segment(z, &code->segments[i]);
    return exit_code;
}

/* ------------------------------------------------------------------ the command */

/* CLI_PARTIAL if one of the findings is damage. */
static int report(const cli_args *args, const char *file, const diag *found)
{
    int exit_code = CLI_OK;
    for (size_t i = 0; i < found->kept_count; i++) {
        const diag_item *item = &found->kept[i];
        if (cli_is_damage(item->code))
            exit_code = CLI_PARTIAL;
        cli_message(args, CLI_WARNING, file, item->offset, "%s", item->sentence);
    }
    if (found->total > found->kept_count) {
        cli_message(args, CLI_WARNING, file, SPGO_NO_OFFSET,
                    "%" PRIu64 " further findings are not shown", found->total - found->kept_count);
        exit_code = CLI_PARTIAL;
    }
    return exit_code;
}

static int worst(int a, int b)
{
    return a == CLI_OK ? b : a;
}

static int run_symbolizer(symbolizer *z)
{
    const cli_args *args = z->args;
    int exit_code;
    if (args->values[OPT_ALL].given)
        exit_code = show_all(z);
    else if (args->operand_count > 1)
        exit_code = show_operands(z);
    else
        exit_code = show_standard_input(z);
    exit_code = worst(exit_code, report(args, args->operands[0], symbols_findings(z->s)));
    return worst(exit_code, report(args, "-", &z->bad_lines));
}

/* Before the image is opened: a mistake in the last RVA shall not come after the others. */
static int check_operands(const cli_args *args)
{
    const bool all = args->values[OPT_ALL].given;
    uint64_t address;
    if (all && args->operand_count > 1)
        return cli_usage(args, "--all and single RVAs exclude each other");
    if (!all && args->operand_count == 1 && strcmp(args->operands[0], "-") == 0)
        return cli_usage(args, "standard input cannot be both the image and the list of RVAs");
    for (size_t i = 1; i < args->operand_count; i++) {
        const char *text = args->operands[i];
        if (!cli_number(text, strlen(text), 16, &address))
            return cli_usage(args, "'%s' is no hexadecimal number", text);
    }
    return CLI_OK;
}

static int symbolize(const cli_args *args)
{
    const cli_value *v = args->values;
    const int usage = check_operands(args);
    if (usage != CLI_OK)
        return usage;
    symbolizer z = {.args = args, .linkage = v[OPT_LINKAGE].given};
    symbols_opts opts = {.image_path = args->operands[0],
                         .debug_path = v[OPT_DEBUG_FILE].text,
                         .dirs = v[OPT_SYMBOLS].items,
                         .dir_count = v[OPT_SYMBOLS].item_count,
                         .any_id = v[OPT_FORCE].given};
    diag found = {0};
    spgo_error err;
    spgo_code code = symbols_open(&opts, &z.s, &found, &err);
    int exit_code = report(args, args->operands[0], &found);
    if (code != SPGO_OK)
        return cli_fail(args, args->operands[0], &err);
    z.base_addr = v[OPT_ADDRESSES].given ? symbols_code(z.s)->base_addr : 0;
    if (cli_open_out(args, &z.o)) {
        z.j = json_on(&z.o, false);
        exit_code = worst(run_symbolizer(&z), exit_code);
        exit_code = cli_close_out(args, &z.o, exit_code);
    } else {
        exit_code = CLI_FAILED;
    }
    symbols_close(z.s);
    return exit_code;
}

int cmd_symbolize(int argc, char **argv)
{
    return cli_run(&command, argc, argv, symbolize);
}
