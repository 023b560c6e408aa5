/* What stands in a folder. Paths and names are UTF-8. */
#ifndef OS_FOLDER_H
#define OS_FOLDER_H

#include <stdbool.h>

/* Calls take for each name in the folder but "." and "..", in whatever order the file system has,
 * until take returns false. False: it is no folder, or cannot be read. */
bool os_folder_each(const char *path, bool (*take)(void *ctx, const char *name), void *ctx);

bool os_is_folder(const char *path);

#endif
