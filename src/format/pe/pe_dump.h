/*
 * Text and JSON renderings of an image's parts, for people and for golden tests.
 *
 * Every function takes either text output `o` with j NULL, or a JSON writer j: then o is not used
 * and the members go into the object that the caller has open. Those that return a code write
 * nothing when they fail.
 */
#ifndef FORMAT_PE_DUMP_H
#define FORMAT_PE_DUMP_H

#include <base/json.h>
#include <format/pe/pe.h>

/* What the image is and which PDB it names. Text: one `name: value` line each. */
void pe_dump_header(out *o, json *j, const pe_image *image);

/*
 * Text: one line per row, starting with the kind of row ("section 0:") and ` name=value` pairs.
 * JSON: a member of the function's name ("sections", "directories", ...), an array of objects.
 */
void pe_dump_directories(out *o, json *j, const pe_image *image); /* those that are there */
void pe_dump_sections(out *o, json *j, const pe_image *image);
/* Payloads without fields of their own as their first 64 bytes. */
spgo_code pe_dump_debug(out *o, json *j, const pe_image *image, spgo_error *err);
spgo_code pe_dump_exports(out *o, json *j, const pe_image *image, spgo_error *err);
spgo_code pe_dump_symbols(out *o, json *j, const pe_image *image, spgo_error *err);
spgo_code pe_dump_code_ranges(out *o, json *j, const pe_image *image, spgo_error *err);

/* Functions with all their pieces, by their unwind tables. Findings go to d, which may be NULL. */
spgo_code pe_dump_functions(out *o, json *j, const pe_image *image, diag *d, spgo_error *err);

#endif
