/* FILETIMEs, the times of Windows: units of 100 ns since 1601, in UTC. */
#ifndef BASE_FILETIME_H
#define BASE_FILETIME_H

#include <spgo/types.h>

enum { FILETIME_PER_SECOND = 10000000, FILETIME_TEXT_SIZE = 32 };

/* ISO 8601, "2024-02-29T12:34:56.1234567Z", by the Gregorian calendar; years above 9999 have five
 * digits. Returns the length. */
size_t filetime_text(char text[FILETIME_TEXT_SIZE], uint64_t filetime);

#endif
