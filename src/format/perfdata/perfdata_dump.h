/*
 * Text and JSON renderings of a recording's parts, for people and for golden tests.
 *
 * Every function takes either text output `o` with j NULL, or a JSON writer j: then o is not used
 * and the members go into the object that the caller has open.
 */
#ifndef FORMAT_PERFDATA_DUMP_H
#define FORMAT_PERFDATA_DUMP_H

#include <base/json.h>
#include <format/perfdata/perfdata.h>

/* Mode, features, events and build-ids. Text: a `name: value` line for each field, and for each
 * event and build-id a line of ` name=value` pairs that starts with "attr 0:", "build_id 0:". */
void perfdata_dump_header(out *o, json *j, const perfdata *p);

/*
 * The body's fields. Text: ` name=value` pairs, each after a space, no newline. Bodies that are not
 * decoded, or not to their layout, appear as hexadecimal digits: ` body=...`.
 */
void perfdata_dump_record_fields(out *o, json *j, const perfdata *p, const perfdata_record *r);

#endif
