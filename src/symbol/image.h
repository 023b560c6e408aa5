/* From the bytes of an image to what the rest works on: its kind, identity, segments, and the
 * sections that say something about profiles. */
#ifndef SYMBOL_IMAGE_H
#define SYMBOL_IMAGE_H

#include <symbol/symbol_internal.h>

/* SPGO_UNSUPPORTED: neither ELF nor PE, and what it is instead, if that can be told. */
spgo_code image_identify(spgo_span bytes, bool *is_pe, spgo_image_id *id, bool *has_id,
                         spgo_error *err);

/* Fills the image but for its debug file, and the info but for paths and source. Allocates from
 * out->mem. */
spgo_code image_read(spgo_span bytes, symbol_image *out, symbols_info *info, diag *d,
                     spgo_error *err);

/* The image's debug file has been found: what it alone may hold goes into info. */
void image_add_debug(symbol_image *image, spgo_span debug, symbols_info *info);

/* Is there DWARF in the image or its debug file? */
bool image_has_dwarf(const symbol_image *image);

#endif
