/* What the two Windows files share: UTF-8 paths as UTF-16, and Windows errors as errno values. */
#ifndef OS_WINDOWS_TEXT_H
#define OS_WINDOWS_TEXT_H

#include <wchar.h>

/* malloc'd UTF-16 of UTF-8 text; NULL and errno (EILSEQ, ENOMEM) if it cannot be had. */
wchar_t *windows_wide(const char *utf8);

/* malloc'd UTF-8 of UTF-16 text, lone surrogates as U+FFFD; NULL when there is no memory. */
char *windows_utf8(const wchar_t *wide);

/* The errno value that says the same as GetLastError(). */
int windows_errno(void);

#endif
