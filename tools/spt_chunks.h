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

/* Finds the chunks one after the other, close ahead of those who read them. */
typedef struct spt_splitter {
    spgo_spt_cursor next; /* where the next chunk starts */
    spgo_spt_cursor c;    /* in the segment that was looked into last */
    uint64_t chunk_bytes;
    bool at_end;
} spt_splitter;

/* chunk_bytes 0: all in one. */
spt_splitter spt_splitter_new(const spgo_spt *spt, uint64_t chunk_bytes);

/* How many chunks there are at most. */
size_t spt_splitter_max(const spt_splitter *s);

/* The next chunk in file order; the last one lasts to the end. False: there is none. */
bool spt_splitter_next(spt_splitter *s, spt_chunk *chunk);

/* Does every chunk start in the state in which the one before it ended? */
bool spt_chunks_fit(const spt_chunk *chunks, size_t count);

#endif
