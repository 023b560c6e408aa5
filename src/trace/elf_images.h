/*
 * What a perf.data does not say about an ELF image: where its segments go (a mapping carries a
 * file offset, an RVA needs the address) and often its build-id. Both are read from the image
 * file when it is at hand: at the recorded path, in the directories given, or beside the trace.
 */
#ifndef TRACE_ELF_IMAGES_H
#define TRACE_ELF_IMAGES_H

#include <base/diag.h>
#include <trace/timeline.h>

typedef struct elf_images elf_images;

/* trace_path: of the trace, for its directory. NULL without memory. dirs must stay in place. */
elf_images *elf_images_new(const char *trace_path, const char *const *dirs, size_t dir_count,
                           diag *findings);
void elf_images_free(elf_images *images);

/*
 * Resolves a mapping of [file_off, file_off + size) of the file `path`. recorded: the build-id in
 * the trace, or NULL; a file at hand with another one is not used, and a finding says so.
 * *id receives the program id and *has_id whether there is one; *rva_of_start the RVA of the
 * mapping's first byte. Without a file, RVAs are taken to equal file offsets, which holds for
 * images whose segments were not moved (the GNU linker's default); a finding says so once per
 * image.
 */
void elf_images_resolve(elf_images *images, spgo_str path, uint64_t file_off, uint64_t size,
                        const spgo_image_id *recorded, spgo_image_id *id, bool *has_id,
                        uint64_t *rva_of_start);

/* Some answer was given without the memory for the right one. */
bool elf_images_failed(const elf_images *images);

#endif
