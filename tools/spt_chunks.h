/*
 * Splits the data stream of an SPT file into chunks that can be read at the same time.
 *
 * Records carry no length and no mark, so a boundary in the middle of a segment has to be guessed:
 * from a place where a long run of well-formed records starts. The guess is checked afterwards,
 * not trusted: when the walk over one chunk does not end exactly where and how the next one was
 * started, the seam does not fit and the file has to be read in one piece.
 */
#ifndef SPT_CHUNKS_H
#define SPT_CHUNKS_H

#include <spgo/spt.h>

typedef struct spt_chunk {
    spgo_spt_cursor start;
    uint64_t stop;       /* read on while the cursor is before this offset */
    spgo_spt_cursor end; /* where the walk ended; set by the caller */
} spt_chunk;

/* A malloc'd array of chunks of about chunk_bytes in file order, the first from the start of the
 * data and the last to the end of the file; 0: all in one. NULL when there is no memory. */
spt_chunk *spt_chunks_split(const spgo_spt *spt, uint64_t chunk_bytes, size_t *count);

/* Does every chunk start in the state in which the one before it ended? */
bool spt_chunks_fit(const spt_chunk *chunks, size_t count);

#endif
