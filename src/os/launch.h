/* Starting a program in the place of this one, and memory that it shares with this one. */
#ifndef OS_LAUNCH_H
#define OS_LAUNCH_H

#include <spgo/error.h>

/* One variable of the environment of the program to come; value NULL: taken away. */
typedef struct os_variable {
    const char *name, *value;
} os_variable;

/*
 * Becomes the program argv[0] (looked for in PATH) with these arguments: its exit code is this
 * one's, signals reach it. Returns only if that failed. SPGO_UNSUPPORTED: not on this system.
 */
spgo_code os_become(char *const argv[], const os_variable *variables, size_t count,
                    spgo_error *err);

/* The variable of this process's own environment, or NULL. */
const char *os_environment(const char *name);

/* The file that argv[0] would start; NULL if there is none. The result is malloc'd. */
char *os_find_program(const char *name);

/* The folder this program was started from; NULL if the system does not tell. malloc'd. */
char *os_own_folder(void);

/* The path of something that exists, from the root; malloc'd, NULL if there is none. */
char *os_absolute_path(const char *path);

/* Creates a folder; SPGO_OK too if it is there already and *existed is set. */
spgo_code os_folder_create(const char *path, bool *existed, spgo_error *err);

/* Removes one file. */
spgo_code os_remove(const char *path, spgo_error *err);

/*
 * A file that other programs have open, as memory: what is written here they see, and the other way
 * round. It does not grow; os_shared_append adds to its end without changing the mapping.
 */
typedef struct os_shared os_shared;
spgo_code os_shared_open(const char *path, os_shared **shared, spgo_error *err);
void *os_shared_memory(const os_shared *s, uint64_t *size);
spgo_code os_shared_write(os_shared *s, uint64_t off, const void *bytes, size_t size,
                          spgo_error *err);
void os_shared_close(os_shared *s); /* NULL is fine */

#endif
