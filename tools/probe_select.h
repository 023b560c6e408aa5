/* Which functions of a program shall not count: the list that the probe runtime reads. */
#ifndef PROBE_SELECT_H
#define PROBE_SELECT_H

#include "cli.h"

typedef struct probe_select {
    const cli_value *exclude, *include; /* patterns of function names */
    const cli_value *exclude_files;     /* of source files: names without folders, or whole paths */
    const cli_value *exclude_modules;   /* of base names of modules */
    uint64_t small_bytes;               /* leave out functions of so much code at most that call
                                           nothing; 0: none */
} probe_select;

/* Is anything chosen? */
bool probe_select_any(const probe_select *s);

/*
 * Writes the list for the program, whose functions are looked up in its image, to a file.
 * *left_out: how many of its functions. Returns an exit code; what is wrong is said.
 */
int probe_select_write(const cli_args *args, const probe_select *s, const char *program,
                       const char *path, size_t *left_out);

#endif
