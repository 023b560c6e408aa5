/* Counting records by their kind: see etl_tally.h. An open hash table of the kinds, sorted when it
 * is written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/hash.h>
#include <base/reader.h>
#include <format/etl/etl_tally.h>

typedef struct kind {
    spgo_guid guid;
    uint64_t count; /* 0: a free place */
    uint16_t hook, id, version;
    uint8_t type, opcode;
    bool has_hook;
} kind;

enum { KIND_LINE_SIZE = 96 };
typedef struct kind_line {
    char text[KIND_LINE_SIZE];
    const kind *of;
} kind_line;

struct etl_tally {
    kind *places;
    size_t place_count, used; /* a power of two */
};

etl_tally *etl_tally_new(void)
{
    enum { FIRST_PLACES = 256 };
    etl_tally *t = calloc(1, sizeof *t);
    kind *places = calloc(FIRST_PLACES, sizeof *places);
    if (!t || !places) {
        free(t);
        free(places);
        return NULL;
    }
    *t = (etl_tally){places, FIRST_PLACES, 0};
    return t;
}

void etl_tally_free(etl_tally *t)
{
    if (t)
        free(t->places);
    free(t);
}

static uint64_t kind_hash(uint64_t seed, const kind *k)
{
    const uint64_t rest = (uint64_t)k->hook << 48 | (uint64_t)k->id << 32 |
                          (uint64_t)k->version << 16 | (uint64_t)k->type << 8 | k->opcode;
    uint64_t h = hash_u64(seed, load_u64(k->guid.bytes));
    h = hash_u64(h, load_u64(k->guid.bytes + 8));
    return hash_u64(h, rest);
}

static bool same_kind(const kind *a, const kind *b)
{
    return a->type == b->type && a->hook == b->hook && a->opcode == b->opcode && a->id == b->id &&
           a->version == b->version && guid_equal(&a->guid, &b->guid);
}

static kind *place_of(const etl_tally *t, const kind *k)
{
    size_t at = kind_hash(hash_seed(t->places), k) & (t->place_count - 1);
    while (t->places[at].count && !same_kind(&t->places[at], k))
        at = (at + 1) & (t->place_count - 1);
    return &t->places[at];
}

static bool tally_grow(etl_tally *t)
{
    etl_tally grown = {calloc(2 * t->place_count, sizeof *grown.places), 2 * t->place_count,
                       t->used};
    if (!grown.places)
        return false;
    for (size_t i = 0; i < t->place_count; i++)
        if (t->places[i].count)
            *place_of(&grown, &t->places[i]) = t->places[i];
    free(t->places);
    *t = grown;
    return true;
}

bool etl_tally_add(etl_tally *t, const etl_record *r)
{
    kind k = {
        .guid = r->guid,
        .count = 1,
        .hook = r->hook,
        .id = r->id,
        .version = r->version,
        .type = r->type,
        .opcode = r->has_hook ? 0 : r->opcode,
        .has_hook = r->has_hook,
    };
    kind *place = place_of(t, &k);
    if (place->count) {
        place->count++;
        return true;
    }
    if (2 * (t->used + 1) > t->place_count) {
        if (!tally_grow(t))
            return false;
        place = place_of(t, &k);
    }
    *place = k;
    t->used++;
    return true;
}

size_t etl_tally_kind_count(const etl_tally *t)
{
    return t->used;
}

static bool is_event_type(uint8_t type)
{
    return type == ETL_EVENT32 || type == ETL_EVENT64;
}

static void type_text(char text[16], uint8_t type)
{
    const char *name = etl_record_type_name(type);
    if (name)
        snprintf(text, 16, "%s", name);
    else
        snprintf(text, 16, "T%u", (unsigned)type);
}

static kind_line kind_text(const kind *k)
{
    kind_line line = {.of = k};
    char type[16], guid[GUID_TEXT_SIZE], id[8] = "";
    type_text(type, k->type);
    guid_text_lower(guid, &k->guid);
    if (is_event_type(k->type))
        snprintf(id, sizeof id, "%u", (unsigned)k->id);
    if (k->has_hook)
        snprintf(line.text, sizeof line.text, "%s\t0x%04X\t\t\t%u", type, (unsigned)k->hook,
                 (unsigned)k->version);
    else
        snprintf(line.text, sizeof line.text, "%s\t%s\t%u\t%s\t%u", type, guid, (unsigned)k->opcode,
                 id, (unsigned)k->version);
    return line;
}

static int compare_lines(const void *a, const void *b)
{
    const kind_line *x = a, *y = b;
    return strcmp(x->text, y->text);
}

static void kind_json(json *j, const kind *k)
{
    char text[GUID_TEXT_SIZE];
    json_open_object(j);
    json_key(j, "type");
    type_text(text, k->type);
    json_text(j, text);
    if (k->has_hook) {
        snprintf(text, sizeof text, "0x%04X", (unsigned)k->hook);
        json_key(j, "hook");
        json_text(j, text);
    } else {
        guid_text_lower(text, &k->guid);
        json_key(j, "guid");
        json_text(j, text);
        json_key(j, "opcode");
        json_u64(j, k->opcode);
    }
    if (is_event_type(k->type)) {
        json_key(j, "id");
        json_u64(j, k->id);
    }
    json_key(j, "version");
    json_u64(j, k->version);
    json_key(j, "count");
    json_u64(j, k->count);
    json_close_object(j);
}

bool etl_dump_tally(out *o, json *j, const etl_tally *t)
{
    kind_line *lines = calloc(t->used + 1, sizeof *lines);
    size_t count = 0;
    if (!lines)
        return false;
    for (size_t i = 0; i < t->place_count; i++)
        if (t->places[i].count)
            lines[count++] = kind_text(&t->places[i]);
    qsort(lines, count, sizeof *lines, compare_lines);
    if (j) {
        json_key(j, "kinds");
        json_open_array(j);
    }
    for (size_t i = 0; i < count; i++) {
        if (j)
            kind_json(j, lines[i].of);
        else
            out_printf(o, "%s\t%" PRIu64 "\n", lines[i].text, lines[i].of->count);
    }
    if (j)
        json_close_array(j);
    free(lines);
    return true;
}
