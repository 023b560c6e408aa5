/* What the files of the SPD library share. */
#ifndef SPD_INTERNAL_H
#define SPD_INTERNAL_H

#include <base/bytes.h>
#include <base/reader.h>

#include "spd.h"

enum {
    SPD_NAMES_ALIGN = 8,
    SPD_STRINGS_ALIGN = 4,
    SPD_SHARED_NAMES = 4 /* names are read as long as together they are not so many times as long
                            as what they stand in */
};

/* Zero bytes that end a part of `size` bytes at a multiple of `align`. */
static inline size_t spd_padding(size_t size, size_t align)
{
    return (align - size % align) % align;
}

/* The bytes from off to end, as far as they are there. */
static inline spgo_span spd_slice(spgo_span s, uint64_t off, uint64_t end)
{
    end = end < s.len ? end : s.len;
    off = off < end ? off : end;
    return (spgo_span){s.ptr + off, (size_t)(end - off)};
}

/* A gap between parts as documents keep it: `ptr` NULL if it is as usual, so many zeros. */
spgo_span spd_gap(spgo_span s, uint64_t off, uint64_t end, size_t usual);

/* Keeps a finding of reading. */
SPGO_PRINTF(5, 6)
void spd_note(spd *doc, spd_severity severity, const char *rule, uint64_t offset, const char *fmt,
              ...);

/* Fails with SPGO_NOMEM. */
spgo_code spd_no_room(spgo_error *err);

/* The blob in `stored`, which begins at file offset `offset`, into f, which has the values of its
 * symbol already. What cannot be understood is
 * kept as f->raw with a finding; only memory makes this fail. */
spgo_code spd_read_blob(spd *doc, spgo_span stored, uint64_t offset, spd_function *f,
                        spgo_error *err);

/* How messages name a function: its name, or its hash. At most SPD_LABEL_SIZE bytes with the NUL,
 * without characters that could steer a terminal. */
enum { SPD_LABEL_SIZE = 72 };
const char *spd_label(char text[SPD_LABEL_SIZE], const spd_function *f);

/* Reading the inside of a blob: the first thing that does not fit ends it. */
typedef struct spd_blob_reader {
    arena *memory;
    bool no_memory;
    const char *misfit; /* what it was, or NULL */
    uint64_t misfit_off;
} spd_blob_reader;

bool spd_misfit(spd_blob_reader *b, uint64_t offset, const char *what); /* false */

/* Did r come this far? If not, what ended it is the misfit. */
bool spd_sound(spd_blob_reader *b, const reader *r, const char *what);

/* Room for n elements of a part that was seen to have bytes for them; NULL for none, or without
 * memory (no_memory). */
void *spd_room(spd_blob_reader *b, size_t n, size_t size);

/* The blocks in r, which holds the graph and nothing else. */
bool spd_read_graph(spd_blob_reader *b, reader *r, uint32_t edge_count, spd_function *f);

/* Appends the blob of f. */
spgo_code spd_write_blob(const spd_function *f, bytes *out, spgo_error *err);

/* The module in r, which stands at its first byte, and moves behind it. */
spgo_code spd_read_module(spd *doc, reader *r, spd_module *m, spgo_error *err);

/* Where the names and blobs of a module's functions stand: offsets in its strings and its data, of
 * the functions that have a symbol. */
typedef struct spd_places {
    const uint32_t *name_offs;
    const uint32_t *blob_offs;
} spd_places;

/* Appends the function table in the order of the linker. SPGO_USAGE: functions but no buckets. */
spgo_code spd_write_table(const spd_module *m, const spd_places *at, bytes *out, spgo_error *err);

/* Appends the strings in the order of the linker and puts each name's offset into name_offs. */
spgo_code spd_write_strings(const spd_module *m, uint32_t *name_offs, bytes *out, spgo_error *err);

/* Appends the names of the image and the modules, each module's offset into name_offs. */
void spd_write_names(const spd *doc, uint32_t *name_offs, bytes *out);

/* One slot of the table: all but its link. */
void spd_store_slot(uint8_t slot[SPD_SLOT_SIZE], const spd_function *f, uint32_t name_off,
                    uint32_t blob_off);

#endif
