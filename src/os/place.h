/*
 * What output.c asks of the platform: a temporary file that can be written anywhere, and its way
 * to the destination. Internal to src/os.
 */
#ifndef OS_PLACE_H
#define OS_PLACE_H

#include <os/file.h>

typedef struct place place;

/* Checks the destination and creates the temporary file. path NULL: there is none, the file is for
 * place_reread. */
spgo_code place_open(const char *path, place **p, spgo_error *err);

/* Both move all bytes or return an errno value; 0 is success. */
int place_write(place *p, uint64_t offset, const void *bytes, size_t len);
int place_read(place *p, uint64_t offset, void *bytes, size_t len);

/* Gives the finished file, of `size_bytes`, to the destination. Returns an errno value or 0; may
 * be called once. */
int place_publish(place *p, uint64_t size_bytes);

/* The temporary file as an input, which outlives the place. */
spgo_code place_reread(place *p, uint64_t size_bytes, os_input **in, spgo_error *err);

/* Removes the temporary file unless it was published. */
void place_close(place *p);

/* Removes the temporary files of all open places: for a process that is about to die. Safe in a
 * signal handler. */
void place_remove_all(void);

#endif
