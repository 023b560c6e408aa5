/*
 * Where instructions start and which of them transfer control, for every byte of code of an image:
 * what counts by address are held against. Procedures are decoded when they are first asked for,
 * each once; code that belongs to none is no code here, as for llvm-profgen.
 */
#ifndef PROFILE_INSTRUCTION_MAP_H
#define PROFILE_INSTRUCTION_MAP_H

#include <symbol/symbol.h>

typedef struct instruction_map instruction_map;

spgo_code instruction_map_new(symbols *s, code_decoder *d, instruction_map **out, spgo_error *err);
void instruction_map_free(instruction_map *m); /* NULL is fine */

/* The code_kind of the instruction that starts at an RVA; CODE_INVALID: none does. */
uint8_t instruction_map_kind(instruction_map *m, uint32_t rva);

/* Of the procedure that an RVA is in; NULL: in none. */
const symbol_procedure *instruction_map_procedure(instruction_map *m, uint32_t rva);

/*
 * Is there an instruction in [begin, end) after which no code runs on? Ask in rising order of
 * begin: everything is then looked at once.
 */
bool instruction_map_leaves(instruction_map *m, uint32_t begin_rva, uint32_t end_rva);

#endif
