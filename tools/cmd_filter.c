/* spgo filter: keeps some programs, opcodes or RVAs of an SPT file. */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include <base/text.h>

#include "spt_rewrite_files.h"

enum { OPT_BINARY, OPT_OPCODE, OPT_RVA, OPT_HELP, OPT_JSON, OPT_QUIET, OPT_COUNT };

static const cli_option options[OPT_COUNT] = {
    [OPT_BINARY] = {.name = "binary",
                    .kind = CLI_LIST,
                    .metavar = "names",
                    .help = "keep these programs; * and ? match any text, any character"},
    [OPT_OPCODE] = {.name = "opcode",
                    .kind = CLI_LIST,
                    .metavar = "names",
                    .help = "keep records with these opcodes (LBR, RETIRE_INSTR, 0x10, ...)"},
    [OPT_RVA] = {.name = "rva",
                 .kind = CLI_TEXT,
                 .metavar = "from-to",
                 .help = "keep entries whose RVAs all lie in this range, ends included;\n"
                         "hexadecimal, either end may be left out"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "report and messages as JSON objects, one a line"},
    [OPT_QUIET] = {.name = "quiet|q", .help = "no report on standard output"},
};

static const cli_command command = {
    .tool = "spgo filter",
    .prefix = "--",
    .purpose = "keep some programs, opcodes or RVAs of an SPT file",
    .synopsis = "[options] input output",
    .notes = "LBR and call stack records are split where an entry is left out, because neighbours "
             "in a\nrecord follow each other in time. \"-\" is standard input or output.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 the input is damaged (what could be read was "
             "kept).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 2,
    .operands_max = 2,
    .operands = "the input or the output",
};

/* The filter and where its opcodes are. */
typedef struct filter {
    spgo_spt_filter keep;
    uint8_t opcodes[256];
    spgo_spt_writer *writer;
} filter;

static bool has_entries(unsigned opcode)
{
    return spgo_spt_opcode_kind((uint8_t)opcode) != SPGO_SPT_KIND_NONE;
}

/* Index into the opcodes that carry entries -> name, "" for others: for cli_nearest. */
static const char *opcode_name_at(const void *ctx, size_t i)
{
    (void)ctx;
    return has_entries((unsigned)i) ? spgo_spt_opcode_name((uint8_t)i) : "";
}

/* A name, with or without the page's prefix, or a number. */
static bool find_opcode(const char *text, uint8_t *opcode)
{
    static const char prefix[] = "SPT_OP_";
    spgo_str name = text_str(text);
    spgo_str head = {text, name.len < sizeof prefix - 1 ? name.len : sizeof prefix - 1};
    uint64_t number;
    if (text_equal_nocase(head, text_str(prefix))) {
        name.ptr += head.len;
        name.len -= head.len;
    }
    bool is_number = cli_number(text, strlen(text), 10, &number);
    for (unsigned i = 0; i < 256; i++) {
        if (!has_entries(i))
            continue;
        if (is_number ? number == i
                      : text_equal_nocase(name, text_str(spgo_spt_opcode_name((uint8_t)i)))) {
            *opcode = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static int parse_opcodes(const cli_args *args, filter *f)
{
    const cli_value *list = &args->values[OPT_OPCODE];
    for (size_t i = 0; i < list->item_count; i++) {
        uint8_t opcode;
        if (!find_opcode(list->items[i], &opcode)) {
            const char *near = cli_nearest(list->items[i], 256, opcode_name_at, NULL);
            if (near)
                return cli_usage(args, "'%s' is no opcode with entries; did you mean %s?",
                                 list->items[i], near);
            return cli_usage(args, "'%s' is no opcode with entries", list->items[i]);
        }
        if (!memchr(f->opcodes, opcode, f->keep.opcode_count))
            f->opcodes[f->keep.opcode_count++] = opcode;
    }
    f->keep.opcodes = f->keep.opcode_count ? f->opcodes : NULL;
    return CLI_OK;
}

static int parse_rvas(const cli_args *args, filter *f)
{
    const char *text = args->values[OPT_RVA].text;
    if (!text)
        return CLI_OK;
    const char *dash = strchr(text, '-');
    uint64_t from = 0;
    uint64_t to = UINT32_MAX;
    bool ok = dash != NULL;
    if (ok && dash > text)
        ok = cli_number(text, (size_t)(dash - text), 16, &from);
    if (ok && dash[1])
        ok = cli_number(dash + 1, strlen(dash + 1), 16, &to);
    if (!ok || from > to || to > UINT32_MAX || !to)
        return cli_usage(args, "'%s' is no range of RVAs; write --rva 1000-1fff", text);
    f->keep.rva_min = (uint32_t)from;
    f->keep.rva_max = (uint32_t)to;
    return CLI_OK;
}

static int parse_filter(const cli_args *args, filter *f)
{
    const cli_value *binaries = &args->values[OPT_BINARY];
    *f = (filter){.keep = {.size = sizeof f->keep}};
    if (binaries->item_count) {
        f->keep.programs = binaries->items;
        f->keep.program_count = binaries->item_count;
    }
    int exit_code = parse_opcodes(args, f);
    return exit_code == CLI_OK ? parse_rvas(args, f) : exit_code;
}

static spgo_code take(void *ctx, const spgo_spt *spt, spgo_spt_tally *tally, spgo_error *err)
{
    filter *f = ctx;
    return spgo_spt_writer_add_file(f->writer, spt, &f->keep, tally, err);
}

static int filter_file(const cli_args *args, filter *f)
{
    spt_rewrite rw;
    const char *input = args->operands[0];
    if (!spt_rewrite_begin(&rw, args, args->operands[1], args->values[OPT_QUIET].given))
        return CLI_FAILED;
    f->writer = rw.writer;
    bool ok = spt_rewrite_add(&rw, args->operands, 1, take, f);
    if (ok && rw.tally.hits_in && !rw.tally.hits_out)
        cli_message(args, CLI_WARNING, input, SPGO_NO_OFFSET,
                    "nothing passes the filter; sptdump /summary tells what the file has");
    return spt_rewrite_end(&rw, ok);
}

int cmd_filter(int argc, char **argv)
{
    cli_args args;
    filter f;
    int exit_code;
    if (!cli_parse(&command, argc, argv, &args, &exit_code))
        return exit_code;
    exit_code = parse_filter(&args, &f);
    if (exit_code == CLI_OK)
        exit_code = filter_file(&args, &f);
    cli_free(&args);
    return exit_code;
}
