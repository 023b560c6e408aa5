/* Folders on POSIX systems. */
#include <os/folder.h>

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

bool os_folder_each(const char *path, bool (*take)(void *ctx, const char *name), void *ctx)
{
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    bool goes_on = true;
    for (struct dirent *e; goes_on && (e = readdir(folder)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            goes_on = take(ctx, e->d_name);
    (void)closedir(folder);
    return true;
}

bool os_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
