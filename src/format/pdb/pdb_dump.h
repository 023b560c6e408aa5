/*
 * Text and JSON renderings of a PDB's parts, for people and for golden tests.
 *
 * Every function takes either text output `o` with j NULL, or a JSON writer j: then o is not used
 * and the members go into the object that the caller has open. Text is one line for each row:
 * `procedure 3: rva=0x1010 ...`.
 */
#ifndef FORMAT_PDB_DUMP_H
#define FORMAT_PDB_DUMP_H

#include <base/json.h>
#include <format/pdb/pdb.h>

/* Identity, kind, numbers of everything. Text: one `name: value` line each. */
void pdb_dump_header(out *o, json *j, const pdb *p);

/* Streams with their sizes and what each is. */
void pdb_dump_streams(out *o, json *j, const pdb *p);

/* Sections, and section contributions. */
void pdb_dump_sections(out *o, json *j, const pdb *p);

/* The list of modules. */
void pdb_dump_modules(out *o, json *j, const pdb *p);

/* The parts of one module. Inlinees are named with ids; without (NULL) they are numbers only. */
void pdb_dump_procs(out *o, json *j, const pdb_module *m);
void pdb_dump_sites(out *o, json *j, const pdb_module *m, pdb_ids *ids);
void pdb_dump_lines(out *o, json *j, const pdb_module *m);
/* Thunks, trampolines, jump tables, groups, labels, blocks, indirect calls. */
void pdb_dump_others(out *o, json *j, const pdb_module *m);

void pdb_dump_publics(out *o, json *j, const pdb_publics *publics);

#endif
