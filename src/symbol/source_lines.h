/*
 * Where a function is declared, as its source file says: for debug information that only knows
 * lines of code. The file is the one that was compiled, or one under a given root whose path ends
 * alike; in it the function's name is looked for backwards from the first line that has code.
 *
 * C, C++ and Rust. What cannot be found (functions that macros make, lambdas) is not guessed.
 */
#ifndef SYMBOL_SOURCE_LINES_H
#define SYMBOL_SOURCE_LINES_H

#include <spgo/error.h>

typedef struct source_lines source_lines;

typedef enum source_checksum_kind {
    SOURCE_UNCHECKED, /* also MD5 and SHA-1 */
    SOURCE_SHA256
} source_checksum_kind;

/* What debug information says of a source file. */
typedef struct source_file {
    spgo_str path; /* as recorded, with either kind of slash */
    spgo_span checksum;
    source_checksum_kind checksum_kind;
} source_file;

/* roots may be gone after the call. NULL without memory. */
source_lines *source_lines_new(const char *const *roots, size_t root_count);
void source_lines_free(source_lines *s); /* NULL is fine */

/* The line of the declaration of a function, by its qualified name, whose code starts at
 * first_line; 0: the file or the function was not found. */
uint32_t source_lines_find(source_lines *s, const source_file *file, spgo_str name,
                           uint32_t first_line);

/* The last part of a qualified name without template arguments ("a::b<c::d>::e<f>": "e"); *rest
 * becomes what stands before it. */
spgo_str source_name_last(spgo_str *rest);

/* As source_lines_find, in the text of a file. */
uint32_t source_text_find(spgo_str text, bool is_rust, spgo_str name, uint32_t first_line);

#endif
