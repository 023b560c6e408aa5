/*
 * The identities that a merged ETL file carries beside its image events, joined to them by base,
 * process and time: the order of the two in the file differs between versions of the merger, and
 * they may even stand in different files.
 */
#ifndef TRACE_IMAGE_IDS_H
#define TRACE_IMAGE_IDS_H

#include <trace/timeline.h>

typedef struct image_ids image_ids;
image_ids *image_ids_new(void); /* NULL without memory */
void image_ids_free(image_ids *ids);

/* One RSDS record. False without memory. */
bool image_ids_add(image_ids *ids, uint64_t base, uint32_t pid, uint64_t time,
                   const spgo_image_id *id);
void image_ids_seal(image_ids *ids);

/* The identity at this base of this process that carries the very time of the image event; NULL if
 * there is none. It is that image's from then on. */
const spgo_image_id *image_ids_take(image_ids *ids, uint64_t base, uint32_t pid, uint64_t time);

/* The one nearest in time among those that no image took: what another image's event claims is
 * not lent to one that came to the same base later. NULL if there is none. */
const spgo_image_id *image_ids_nearest(const image_ids *ids, uint64_t base, uint32_t pid,
                                       uint64_t time);

/* An image whose own record is missing gets the identity of the image with the same path and size
 * elsewhere in the session: it is the same file. */
bool image_ids_learn(image_ids *ids, spgo_str path, uint64_t size, const spgo_image_id *id);
const spgo_image_id *image_ids_of_path(const image_ids *ids, spgo_str path, uint64_t size);

#endif
