/* How many records there are of each kind: header type, hook or GUID, opcode, id, version. */
#ifndef FORMAT_ETL_TALLY_H
#define FORMAT_ETL_TALLY_H

#include <base/json.h>
#include <format/etl/etl.h>

typedef struct etl_tally etl_tally;
etl_tally *etl_tally_new(void);                        /* NULL: no memory */
bool etl_tally_add(etl_tally *t, const etl_record *r); /* false: no memory, not counted */
size_t etl_tally_kind_count(const etl_tally *t);
/*
 * Text: one line per kind, sorted: header type, hook ("0x0F2E") or GUID (lower case, no braces),
 * opcode, id, version, number, separated by tabs; opcode is empty for hooks and id for all but
 * EVENT_HEADER records. JSON: a member "kinds", an array of objects.
 */
bool etl_dump_tally(out *o, json *j, const etl_tally *t); /* false: no memory, nothing written */
void etl_tally_free(etl_tally *t);                        /* NULL is fine */

#endif
