/*
 * The line programs of DWARF 2 to 5: which file, line and discriminator a stretch of code has.
 *
 * They are run here and not by libdw because it sorts the rows of all sequences of a unit into one
 * list, in which those of functions that the linker has dropped (they keep address 0) mix with the
 * rows of functions that are there.
 */
#ifndef SYMBOL_DWARF_LINES_H
#define SYMBOL_DWARF_LINES_H

#include <base/intern.h>
#include <base/reader.h>
#include <code/code.h>

/* Contents of .debug_line, .debug_line_str and .debug_str. */
typedef struct dbg_line_sections {
    spgo_span line, line_str, str;
} dbg_line_sections;

typedef struct dbg_line_file {
    spgo_str name; /* as it stands */
    uint64_t dir;
    spgo_str path; /* in full, once it has been asked for */
} dbg_line_file;

typedef struct dbg_lines {
    uint16_t version;
    uint8_t instruction_size_min, line_range, opcode_base;
    int8_t line_base;
    spgo_span operand_counts; /* of the standard opcodes, from 1 */
    reader program;
    spgo_str comp_dir;
    spgo_str *dirs; /* from the number that stands in the program */
    dbg_line_file *files;
    size_t dir_count, file_count;
} dbg_lines;

/* Reads the header of the program at `off`; the tables come from mem. */
spgo_code dbg_lines_open(const dbg_line_sections *sections, uint64_t off, spgo_str comp_dir,
                         arena *mem, dbg_lines *out, spgo_error *err);

/* Texts that are kept. Damaged input may make long ones of few bytes: what is kept is bounded. */
typedef struct dbg_texts {
    intern *names;
    uint64_t left_bytes;
} dbg_texts;

spgo_str dbg_text_keep(dbg_texts *t, spgo_str text);

/* The path of a file by its number; empty: not known. */
spgo_str dbg_lines_path(dbg_lines *l, uint64_t file, dbg_texts *texts);

typedef struct dbg_line_row {
    uint32_t begin_rva, end_rva;
    uint32_t file, line, discriminator;
} dbg_line_row;

typedef struct dbg_line_rows {
    dbg_line_row *rows; /* malloc'd */
    size_t count, capacity;
} dbg_line_rows;

/*
 * Runs the program: appends its rows, by begin_rva and without overlap. Of rows at one address the
 * last one counts. A sequence that does not start in executable code is left out. A damaged program
 * gives the rows up to there, and an error.
 */
spgo_code dbg_lines_run(const dbg_lines *l, const code_image *code, dbg_line_rows *out,
                        spgo_error *err);

#endif
