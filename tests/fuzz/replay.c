/*
 * The main of a fuzz target that is built without libFuzzer: feeds it the empty input and every
 * file of the folders named as arguments. A folder that does not exist has no files.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return;
    /* The exact size, so that AddressSanitizer sees the first byte read behind the end. */
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *data = size > 0 ? malloc((size_t)size) : NULL;
    if (data && fread(data, 1, (size_t)size, f) == (size_t)size) {
        printf("%s\n", path);
        fflush(stdout);
        LLVMFuzzerTestOneInput(data, (size_t)size);
    }
    free(data);
    fclose(f);
}

int main(int argc, char **argv)
{
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (entry->d_name[0] != '.')
                replay_file(path);
        }
        if (dir)
            closedir(dir);
    }
    return 0;
}
