/* Where functions of several pieces are entered. */
#ifndef SYMBOL_ENTRIES_H
#define SYMBOL_ENTRIES_H

#include <symbol/symbol_internal.h>

/* Moves the entries of what a back end found to the symbols of the same names that lie in their
 * pieces. False without memory. */
bool symbol_entries_by_name(symbol_found *backend, const symbol_found *tables);

#endif
