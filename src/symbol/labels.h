/* Names of places in code: see symbols_labels. */
#ifndef SYMBOL_LABELS_H
#define SYMBOL_LABELS_H

#include <symbol/symbol_internal.h>

/* Allocates from image->mem. */
spgo_code symbol_labels_list(const symbol_image *image, const symbol_label **out, size_t *count,
                             spgo_error *err);

#endif
