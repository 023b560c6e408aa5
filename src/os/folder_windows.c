/* Folders on Windows. */
#include <os/folder.h>
#include <os/windows_text.h>

#include <windows.h>

#include <stdlib.h>
#include <string.h>

/* "path\*", which is how the system asks for all names of a folder. */
static wchar_t *pattern_of(const char *path)
{
    size_t len = strlen(path);
    char *pattern = malloc(len + 3);
    if (!pattern)
        return NULL;
    memcpy(pattern, path, len);
    memcpy(pattern + len, "\\*", 3);
    wchar_t *wide = windows_wide(pattern);
    free(pattern);
    return wide;
}

bool os_folder_each(const char *path, bool (*take)(void *ctx, const char *name), void *ctx)
{
    wchar_t *pattern = pattern_of(path);
    if (!pattern)
        return false;
    WIN32_FIND_DATAW found;
    HANDLE search = FindFirstFileW(pattern, &found);
    free(pattern);
    if (search == INVALID_HANDLE_VALUE)
        return false;
    bool goes_on = true;
    do {
        char *name = windows_utf8(found.cFileName);
        if (name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            goes_on = take(ctx, name);
        free(name);
    } while (goes_on && FindNextFileW(search, &found));
    (void)FindClose(search);
    return true;
}

bool os_is_folder(const char *path)
{
    wchar_t *wide = windows_wide(path);
    DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY;
}
