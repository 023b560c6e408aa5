/*
 * Text and JSON renderings of an ETL file's parts, for people and for golden tests.
 *
 * Every function takes either text output `o` with j NULL, or a JSON writer j: then o is not used
 * and the members go into the object that the caller has open.
 */
#ifndef FORMAT_ETL_DUMP_H
#define FORMAT_ETL_DUMP_H

#include <base/json.h>
#include <format/etl/etl.h>

/* The header event. Text: one `name: value` line per field. */
void etl_dump_header(out *o, json *j, const etl_file *f);

/* One buffer header. Text: one line, newline included. */
void etl_dump_buffer(out *o, json *j, const etl_file *f, size_t index);

/* "Process/Start", or for kinds without a name "0x0B15", "<guid>/op/id": never empty. */
enum { ETL_KIND_NAME_SIZE = 80 };
void etl_kind_name(char text[ETL_KIND_NAME_SIZE], const etl_record *r);

/*
 * The payload's fields in the order of the format's description. Text: ` name=value` pairs, each
 * after a space, no newline. Payloads that are not decoded, or not to their layout, appear as
 * hexadecimal digits: ` payload=...`; what a newer version has appended appears as ` rest=...`.
 */
void etl_dump_record_fields(out *o, json *j, const etl_record *r);

#endif
