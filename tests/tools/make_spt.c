/*
 * A tiny assembler for SPT files: make_spt script.txt out.spt
 *
 * A script is a list of lines; '#' starts a comment, numbers are decimal or 0x-hexadecimal, RVAs
 * are hexadecimal. First the file is made with the library's writer:
 *
 *   program NAME [{GUID} [AGE]]      the next program, from index 0; NAME may hold \xNN
 *   add INDEX OPCODE ENTRY... [xN]   a record with N hits; an entry is an RVA, or FROM->TO for LBR
 *   segment-max N                    longest segment (before the first program)
 *   raw                              no writer: start with nothing at all
 *
 * then its bytes can be changed, which makes the broken files:
 *
 *   hex BYTES...       append bytes
 *   u16 N..., u32 N..., u64 N...   append little-endian numbers
 *   zeros N            append N zero bytes
 *   text WORDS         append text; may hold \xNN
 *   patch OFF BYTES... overwrite bytes at OFF
 *   cut N              keep the first N bytes; a negative N drops that many at the end
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/guid.h>
#include <base/text.h>
#include <spgo/spt.h>

enum { LINE_MAX_BYTES = 16384 };

/* A file in the making. */
typedef struct assembler {
    bytes file;
    spgo_spt_writer *writer; /* until the first directive that changes bytes */
    spgo_spt_writer_opts opts;
    bool raw;
    int line;
} assembler;

static _Noreturn void die(const assembler *a, const char *what, const char *detail)
{
    fprintf(stderr, "make_spt: line %d: %s: %s\n", a->line, what, detail);
    exit(1);
}

static void check(const assembler *a, spgo_code code, const spgo_error *err)
{
    if (code != SPGO_OK)
        die(a, spgo_code_name(code), err->sentence);
}

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t");
    char *end = word + strcspn(word, " \t");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

static char *need_word(const assembler *a, char **rest, const char *what)
{
    char *word = next_word(rest);
    if (!word)
        die(a, "missing", what);
    return word;
}

static unsigned long long number(const assembler *a, const char *text, int base)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, base);
    if (errno || *end || end == text)
        die(a, "not a number", text);
    return v;
}

/* Replaces \xNN in place; returns the length. */
static size_t unescape(char *text)
{
    char *out = text;
    for (const char *p = text; *p;) {
        unsigned value;
        if (p[0] == '\\' && p[1] == 'x' && isxdigit((unsigned char)p[2]) &&
            isxdigit((unsigned char)p[3]) && sscanf(p + 2, "%2x", &value) == 1) {
            *out++ = (char)value;
            p += 4;
        } else {
            *out++ = *p++;
        }
    }
    return (size_t)(out - text);
}

/* ------------------------------------------------------------------ through the writer */

static spgo_spt_writer *writer(assembler *a)
{
    spgo_error err;
    if (a->raw)
        die(a, "no writer after", "raw");
    if (!a->writer)
        check(a, spgo_spt_writer_new(bytes_sink(&a->file), &a->opts, &a->writer, &err), &err);
    return a->writer;
}

static void do_program(assembler *a, char *rest)
{
    spgo_image_id id = {0};
    spgo_error err;
    uint16_t index;
    char *name = need_word(a, &rest, "the program's name");
    char *guid = next_word(&rest);
    char *age = next_word(&rest);
    if (guid && !guid_from_text(guid, strlen(guid), &id.guid))
        die(a, "not a GUID", guid);
    if (age)
        id.age = (uint32_t)number(a, age, 0);
    size_t len = unescape(name);
    check(a, spgo_spt_writer_program(writer(a), &id, (spgo_str){name, len}, &index, &err), &err);
}

static uint8_t opcode_named(const assembler *a, const char *name)
{
    for (unsigned i = 0; i < 256; i++) {
        const char *known = spgo_spt_opcode_name((uint8_t)i);
        if (known && text_equal_nocase(text_str(known), text_str(name)))
            return (uint8_t)i;
    }
    die(a, "unknown opcode", name);
}

static void do_add(assembler *a, char *rest)
{
    uint32_t entries[2 * SPGO_SPT_ENTRIES_MAX + 2];
    unsigned value_count = 0;
    uint64_t hits = 1;
    spgo_error err;
    uint16_t program = (uint16_t)number(a, need_word(a, &rest, "the program's index"), 0);
    uint8_t opcode = opcode_named(a, need_word(a, &rest, "the opcode"));
    bool is_arc = spgo_spt_opcode_kind(opcode) == SPGO_SPT_KIND_ARC;
    for (char *word; (word = next_word(&rest)) != NULL;) {
        if (value_count >= 2 * SPGO_SPT_ENTRIES_MAX)
            die(a, "too many entries", word);
        if (word[0] == 'x') {
            hits = number(a, word + 1, 0);
            continue;
        }
        char *to = strstr(word, "->");
        if (is_arc != (to != NULL))
            die(a, "not an entry of this opcode", word);
        if (to) {
            *to = '\0';
            entries[value_count++] = (uint32_t)number(a, to + 2, 16);
        }
        entries[value_count++] = (uint32_t)number(a, word, 16);
    }
    unsigned entry_count = is_arc ? value_count / 2 : value_count;
    check(a,
          spgo_spt_writer_add(writer(a), program, (spgo_spt_opcode)opcode, entries, entry_count,
                              hits, &err),
          &err);
}

static void finish_writer(assembler *a)
{
    spgo_error err;
    if (!a->raw)
        check(a, spgo_spt_writer_finish(writer(a), &err), &err);
    a->writer = NULL;
    a->raw = true;
}

/* ------------------------------------------------------------------ bytes */

static void append_hex(const assembler *a, bytes *to, char *rest)
{
    for (char *word; (word = next_word(&rest)) != NULL;) {
        for (; word[0]; word += 2) {
            unsigned value;
            if (!isxdigit((unsigned char)word[0]) || !isxdigit((unsigned char)word[1]) ||
                sscanf(word, "%2x", &value) != 1)
                die(a, "not bytes", word);
            bytes_u8(to, (uint8_t)value);
        }
    }
}

static void append_numbers(assembler *a, char *rest, unsigned size_bytes)
{
    for (char *word; (word = next_word(&rest)) != NULL;) {
        uint64_t v = number(a, word, 0);
        for (unsigned i = 0; i < size_bytes; i++)
            bytes_u8(&a->file, (uint8_t)(v >> (8 * i)));
    }
}

static void do_patch(assembler *a, char *rest)
{
    bytes data = {0};
    uint64_t off = number(a, need_word(a, &rest, "the offset"), 0);
    append_hex(a, &data, rest);
    if (off + data.len > a->file.len)
        die(a, "patch behind the end", rest);
    memcpy(a->file.ptr + off, data.ptr, data.len);
    bytes_free(&data);
}

static void do_cut(assembler *a, const char *word)
{
    size_t keep =
        word[0] == '-' ? a->file.len - (size_t)number(a, word + 1, 0) : (size_t)number(a, word, 0);
    if (keep > a->file.len)
        die(a, "cut behind the end", word);
    a->file.len = keep;
}

static void change_bytes(assembler *a, const char *word, char *rest)
{
    finish_writer(a);
    if (strcmp(word, "hex") == 0)
        append_hex(a, &a->file, rest);
    else if (strcmp(word, "u16") == 0)
        append_numbers(a, rest, 2);
    else if (strcmp(word, "u32") == 0)
        append_numbers(a, rest, 4);
    else if (strcmp(word, "u64") == 0)
        append_numbers(a, rest, 8);
    else if (strcmp(word, "zeros") == 0)
        bytes_fill(&a->file, 0, (size_t)number(a, need_word(a, &rest, "how many"), 0));
    else if (strcmp(word, "text") == 0)
        bytes_put(&a->file, rest, unescape(rest));
    else if (strcmp(word, "patch") == 0)
        do_patch(a, rest);
    else if (strcmp(word, "cut") == 0)
        do_cut(a, need_word(a, &rest, "how many"));
    else
        die(a, "unknown directive", word);
}

static void do_line(assembler *a, char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    char *rest = line;
    char *word = next_word(&rest);
    if (!word)
        return;
    if (strcmp(word, "raw") == 0)
        a->raw = true;
    else if (strcmp(word, "segment-max") == 0)
        a->opts.segment_bytes_max = number(a, need_word(a, &rest, "how many bytes"), 0);
    else if (strcmp(word, "program") == 0)
        do_program(a, rest);
    else if (strcmp(word, "add") == 0)
        do_add(a, rest);
    else
        change_bytes(a, word, rest);
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_BYTES];
    assembler a = {.opts = {.size = sizeof a.opts}};
    if (argc != 3) {
        fprintf(stderr, "usage: make_spt script.txt out.spt\n");
        return 2;
    }
    FILE *script = fopen(argv[1], "r");
    if (!script)
        die(&a, "cannot open", argv[1]);
    for (; fgets(line, sizeof line, script); do_line(&a, line))
        a.line++;
    fclose(script);
    finish_writer(&a);
    FILE *out = fopen(argv[2], "wb");
    if (!out || fwrite(a.file.ptr, 1, a.file.len, out) != a.file.len || fclose(out) != 0)
        die(&a, "cannot write", argv[2]);
    bytes_free(&a.file);
    return 0;
}
