/* Finding an image and its debug file: by path, in folders, symbol stores and build-id trees. What
 * is found must be the very build that is wanted. */
#ifndef SYMBOL_LOCATE_H
#define SYMBOL_LOCATE_H

#include <os/file.h>
#include <symbol/symbol_internal.h>

/* A file that was found, open. */
typedef struct located {
    os_input *file; /* NULL: none */
    const char *path;
    const char *pdb_path; /* of an image: its PDB, which was named instead; or NULL */
} located;

/*
 * By opts->image_path, or else opts->name in opts->dirs. A path of a PDB stands for the image that
 * the linker has put beside it. SPGO_NOT_FOUND: the sentence says where
 * was looked. SPGO_MISMATCH: there are only other builds. Paths are allocated from mem.
 */
spgo_code locate_image(const symbols_opts *opts, arena *mem, located *out, diag *d,
                       spgo_error *err);

/* The PDB of a PE image or the separate debug file of an ELF image: by opts->debug_path, or where
 * the image says, beside it, and in opts->dirs. */
spgo_code locate_debug(const symbols_opts *opts, const symbol_image *image, const char *image_path,
                       arena *mem, located *out, diag *d, spgo_error *err);

#endif
