/*
 * Files on Windows: the same promises as file_posix.c, by file mappings, delete-on-close temporary
 * files and MoveFileEx.
 */
#include <os/file.h>
#include <os/place.h>
#include <os/windows_text.h>

#include <base/fail.h>

#include <windows.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPY_CHUNK_SIZE = 256 * 1024,
    RELEASE_STEP = 16 * 1024 * 1024,
    TEMP_NAME_ATTEMPTS = 100,
    TEMP_PATH_MAX = 1024,
    OPEN_PLACES_MAX = 64
};

static const DWORD SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/* ReadFile and WriteFile take 32-bit lengths. */
static DWORD chunk_len(uint64_t len)
{
    return len < COPY_CHUNK_SIZE ? (DWORD)len : (DWORD)COPY_CHUNK_SIZE;
}

static OVERLAPPED at_offset(uint64_t offset)
{
    OVERLAPPED at = {0};
    at.Offset = (DWORD)(offset & 0xffffffffu);
    at.OffsetHigh = (DWORD)(offset >> 32);
    return at;
}

static int write_at(HANDLE file, uint64_t offset, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        OVERLAPPED at = at_offset(offset);
        DWORD n = 0;
        if (!WriteFile(file, bytes, chunk_len(len), &n, &at))
            return windows_errno();
        if (n == 0)
            return ENOSPC;
        bytes += n;
        offset += n;
        len -= n;
    }
    return 0;
}

static int read_at(HANDLE file, uint64_t offset, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        OVERLAPPED at = at_offset(offset);
        DWORD n = 0;
        if (!ReadFile(file, bytes, chunk_len(len), &n, &at))
            return windows_errno();
        if (n == 0)
            return EIO;
        bytes += n;
        offset += n;
        len -= n;
    }
    return 0;
}

static int write_stream(HANDLE stream, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        DWORD n = 0;
        if (!WriteFile(stream, bytes, chunk_len(len), &n, NULL))
            return windows_errno();
        bytes += n;
        len -= n;
    }
    return 0;
}

/* A file that goes away with its handle, or INVALID_HANDLE_VALUE and errno. */
static HANDLE open_unnamed(void)
{
    wchar_t folder[MAX_PATH + 1];
    wchar_t path[MAX_PATH + 1];
    HANDLE file = INVALID_HANDLE_VALUE;
    if (GetTempPathW(MAX_PATH + 1, folder) != 0 && GetTempFileNameW(folder, L"spg", 0, path) != 0)
        file = CreateFileW(path, GENERIC_READ | GENERIC_WRITE, SHARE_ALL, NULL, CREATE_ALWAYS,
                           FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    if (file == INVALID_HANDLE_VALUE)
        errno = windows_errno();
    return file;
}

static void close_handle(HANDLE *handle)
{
    if (*handle != INVALID_HANDLE_VALUE)
        CloseHandle(*handle);
    *handle = INVALID_HANDLE_VALUE;
}

/* ---- Inputs ---- */

struct os_input {
    const uint8_t *ptr; /* NULL for an empty input */
    size_t len;
    HANDLE spool; /* keeps a temporary file alive under its mapping */
    _Atomic uint64_t released;
};

static spgo_code map_input(HANDLE file, os_input *in, spgo_error *err)
{
    LARGE_INTEGER size;
    if (!GetFileSizeEx(file, &size))
        return spgo_fail_sys(err, windows_errno(), "input", "cannot be read");
    if (size.QuadPart == 0)
        return SPGO_OK;
    if ((uint64_t)size.QuadPart > PTRDIFF_MAX)
        return spgo_fail(err, SPGO_LIMIT, "input", SPGO_NO_OFFSET,
                         "has %lld bytes, more than a program of this word size can map; use a "
                         "64-bit build",
                         (long long)size.QuadPart);
    HANDLE map = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    const void *view = map ? MapViewOfFile(map, FILE_MAP_READ, 0, 0, 0) : NULL;
    int sys = view ? 0 : windows_errno();
    if (map)
        CloseHandle(map); /* the view keeps it */
    if (!view)
        return spgo_fail_sys(err, sys, "input", "cannot be mapped");
    in->ptr = view;
    in->len = (size_t)size.QuadPart;
    return SPGO_OK;
}

/* Copies what `stream` delivers into `spool`: 0 or an errno value. */
static int copy_stream(HANDLE stream, HANDLE spool)
{
    uint8_t *chunk = malloc(COPY_CHUNK_SIZE);
    if (!chunk)
        return ENOMEM;
    int sys = 0;
    while (sys == 0) {
        DWORD n = 0;
        if (!ReadFile(stream, chunk, COPY_CHUNK_SIZE, &n, NULL)) {
            DWORD error = GetLastError();
            sys = error == ERROR_BROKEN_PIPE || error == ERROR_HANDLE_EOF ? 0 : windows_errno();
            break;
        }
        if (n == 0)
            break;
        sys = write_stream(spool, chunk, n);
    }
    free(chunk);
    return sys;
}

static spgo_code spool_input(HANDLE stream, os_input *in, spgo_error *err)
{
    in->spool = open_unnamed();
    if (in->spool == INVALID_HANDLE_VALUE)
        return spgo_fail_sys(err, errno, "input",
                             "is no regular file and must be copied, but no temporary file can "
                             "be created; set TMP to a folder that can be written");
    int sys = copy_stream(stream, in->spool);
    if (sys != 0)
        return spgo_fail_sys(err, sys, "input",
                             "cannot be copied into a temporary file; if the disk is full, set "
                             "TMP to a folder with more space");
    return map_input(in->spool, in, err);
}

static bool is_directory(const wchar_t *path)
{
    DWORD attributes = GetFileAttributesW(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

static spgo_code open_path(const char *path, HANDLE *file, spgo_error *err)
{
    wchar_t *wide = windows_wide(path);
    if (!wide)
        return spgo_fail_sys(err, errno, "input", "cannot be opened");
    spgo_code code = SPGO_OK;
    if (is_directory(wide)) {
        code = spgo_fail(err, SPGO_USAGE, "input", SPGO_NO_OFFSET,
                         "is a directory; name the file inside it");
    } else {
        *file = CreateFileW(wide, GENERIC_READ, SHARE_ALL, NULL, OPEN_EXISTING,
                            FILE_FLAG_SEQUENTIAL_SCAN, NULL);
        if (*file == INVALID_HANDLE_VALUE) {
            int sys = windows_errno();
            code = spgo_fail_sys(err, sys, "input", "cannot be opened%s",
                                 sys == ENOENT ? "; check the spelling and the current directory"
                                               : "");
        }
    }
    free(wide);
    return code;
}

static spgo_code load_input(HANDLE file, os_input *in, spgo_error *err)
{
    LARGE_INTEGER at;
    bool mappable = GetFileType(file) == FILE_TYPE_DISK &&
                    SetFilePointerEx(file, (LARGE_INTEGER){.QuadPart = 0}, &at, FILE_CURRENT) &&
                    at.QuadPart == 0;
    return mappable ? map_input(file, in, err) : spool_input(file, in, err);
}

spgo_code os_input_open(const char *path, os_input **in, spgo_error *err)
{
    *in = NULL;
    bool is_stdin = strcmp(path, "-") == 0;
    HANDLE file = is_stdin ? GetStdHandle(STD_INPUT_HANDLE) : INVALID_HANDLE_VALUE;
    if (!is_stdin)
        SPGO_TRY(open_path(path, &file, err));
    else if (file == NULL || file == INVALID_HANDLE_VALUE)
        return spgo_fail_sys(err, EBADF, "input", "cannot be read");
    os_input *result = calloc(1, sizeof *result);
    spgo_code code;
    if (result) {
        result->spool = INVALID_HANDLE_VALUE;
        code = load_input(file, result, err);
    } else {
        code = spgo_fail_nomem(err, "input", sizeof *result);
    }
    if (!is_stdin)
        CloseHandle(file);
    if (code != SPGO_OK) {
        os_input_close(result);
        return code;
    }
    *in = result;
    return SPGO_OK;
}

spgo_span os_input_bytes(const os_input *in)
{
    return (spgo_span){in->ptr, in->len};
}

void os_input_close(os_input *in)
{
    if (!in)
        return;
    if (in->ptr)
        UnmapViewOfFile(in->ptr);
    close_handle(&in->spool);
    free(in);
}

void os_input_release(os_input *in, uint64_t offset)
{
    uint64_t end = (offset < in->len ? offset : in->len) / RELEASE_STEP * RELEASE_STEP;
    uint64_t start = atomic_load_explicit(&in->released, memory_order_relaxed);
    do {
        if (end == start)
            return;
    } while (!atomic_compare_exchange_weak(&in->released, &start, end));
    /* Unlocking pages that are not locked takes them out of the working set. */
    if (end > start)
        VirtualUnlock((void *)((uintptr_t)in->ptr + (uintptr_t)start), (SIZE_T)(end - start));
}

void os_input_sequential(os_input *in)
{
    (void)in; /* said when the file was opened: FILE_FLAG_SEQUENTIAL_SCAN */
}

/* ---- Outputs ---- */

/* As in file_posix.c: the names of temporary files that exist now. */
enum slot_state { SLOT_FREE, SLOT_CLAIMED, SLOT_LIVE };
static struct temp_slot {
    _Atomic int state;
    wchar_t path[TEMP_PATH_MAX];
} temp_slots[OPEN_PLACES_MAX];

struct place {
    HANDLE file;            /* the temporary file */
    HANDLE stream;          /* the destination if the bytes are copied there at last */
    bool owns_stream;       /* false for standard output */
    wchar_t *target;        /* the destination if it is replaced */
    struct temp_slot *slot; /* the temporary file's name, NULL if it has none */
};

static struct temp_slot *claim_slot(void)
{
    for (size_t i = 0; i < OPEN_PLACES_MAX; i++) {
        int expected = SLOT_FREE;
        if (atomic_compare_exchange_strong(&temp_slots[i].state, &expected, SLOT_CLAIMED))
            return &temp_slots[i];
    }
    return NULL;
}

static bool take_slot(struct temp_slot *slot)
{
    int expected = SLOT_LIVE;
    return atomic_compare_exchange_strong(&slot->state, &expected, SLOT_CLAIMED);
}

void place_remove_all(void)
{
    for (size_t i = 0; i < OPEN_PLACES_MAX; i++)
        if (take_slot(&temp_slots[i]))
            DeleteFileW(temp_slots[i].path);
}

static size_t base_name_at(const wchar_t *path)
{
    size_t at = 0;
    for (size_t i = 0; path[i]; i++)
        if (path[i] == L'/' || path[i] == L'\\' || path[i] == L':')
            at = i + 1;
    return at;
}

static bool temp_name(wchar_t path[TEMP_PATH_MAX], const wchar_t *target, unsigned attempt)
{
    size_t name = base_name_at(target);
    uint64_t salt =
        (GetTickCount64() << 20 ^ GetCurrentProcessId() ^ (uint64_t)GetCurrentThreadId() << 36) +
        attempt * 0x9e3779b97f4a7c15u;
    int len = _snwprintf(path, TEMP_PATH_MAX - 1, L"%.*s.%.200s.%012I64x.tmp", (int)name, target,
                         target + name, salt & 0xffffffffffffu);
    path[TEMP_PATH_MAX - 1] = L'\0';
    return len > 0;
}

/* Shared for deletion, so that place_remove_all works while the handle is open. */
static HANDLE create_temp(struct temp_slot *slot, const wchar_t *target)
{
    for (unsigned attempt = 0; attempt < TEMP_NAME_ATTEMPTS; attempt++) {
        if (!temp_name(slot->path, target, attempt)) {
            SetLastError(ERROR_FILENAME_EXCED_RANGE);
            return INVALID_HANDLE_VALUE;
        }
        HANDLE file = CreateFileW(slot->path, GENERIC_READ | GENERIC_WRITE,
                                  FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_NEW,
                                  FILE_ATTRIBUTE_NORMAL, NULL);
        if (file != INVALID_HANDLE_VALUE || GetLastError() != ERROR_FILE_EXISTS)
            return file;
    }
    return INVALID_HANDLE_VALUE;
}

static spgo_code open_beside(place *p, spgo_error *err)
{
    struct temp_slot *slot = claim_slot();
    if (!slot)
        return spgo_fail(err, SPGO_LIMIT, "output", SPGO_NO_OFFSET,
                         "cannot be created: %d output files are open already; close some",
                         OPEN_PLACES_MAX);
    p->file = create_temp(slot, p->target);
    if (p->file == INVALID_HANDLE_VALUE) {
        int sys = windows_errno();
        atomic_store(&slot->state, SLOT_FREE);
        return spgo_fail_sys(err, sys, "output",
                             "cannot be created (a file beside it is written first and renamed "
                             "when complete); choose a folder that exists and can be written");
    }
    p->slot = slot;
    atomic_store(&slot->state, SLOT_LIVE);
    return SPGO_OK;
}

static spgo_code open_scratch(place *p, spgo_error *err)
{
    p->file = open_unnamed();
    if (p->file == INVALID_HANDLE_VALUE)
        return spgo_fail_sys(err, errno, "output",
                             "no temporary file can be created; set TMP to a folder that can be "
                             "written");
    return SPGO_OK;
}

static spgo_code open_stream(place *p, HANDLE stream, bool owned, spgo_error *err)
{
    p->stream = stream;
    p->owns_stream = owned;
    return open_scratch(p, err);
}

/* Opens a destination that is no regular file (a pipe, CON, NUL): INVALID_HANDLE_VALUE if it is
 * one or does not exist. */
static HANDLE open_if_stream(const wchar_t *path)
{
    HANDLE file = CreateFileW(path, GENERIC_WRITE, SHARE_ALL, NULL, OPEN_EXISTING,
                              FILE_ATTRIBUTE_NORMAL, NULL);
    if (file != INVALID_HANDLE_VALUE && GetFileType(file) == FILE_TYPE_DISK)
        close_handle(&file);
    return file;
}

static spgo_code open_destination(place *p, const char *path, spgo_error *err)
{
    if (!path)
        return open_scratch(p, err);
    if (strcmp(path, "-") == 0) {
        HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
        if (out == NULL || out == INVALID_HANDLE_VALUE)
            return spgo_fail_sys(err, EBADF, "output", "cannot be written");
        return open_stream(p, out, false, err);
    }
    if (*path == '\0')
        return spgo_fail(err, SPGO_USAGE, "output", SPGO_NO_OFFSET,
                         "the name of the output file is empty; give one, or - for standard "
                         "output");
    p->target = windows_wide(path);
    if (!p->target)
        return spgo_fail_sys(err, errno, "output", "cannot be created");
    DWORD attributes = GetFileAttributesW(p->target);
    bool exists = attributes != INVALID_FILE_ATTRIBUTES;
    if (exists && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        return spgo_fail(err, SPGO_USAGE, "output", SPGO_NO_OFFSET,
                         "is a directory; name a file inside it");
    if (exists && (attributes & FILE_ATTRIBUTE_READONLY))
        return spgo_fail_sys(err, EACCES, "output",
                             "exists and may not be changed; choose another name");
    HANDLE stream = open_if_stream(p->target);
    if (stream != INVALID_HANDLE_VALUE)
        return open_stream(p, stream, true, err);
    return open_beside(p, err);
}

spgo_code place_open(const char *path, place **p, spgo_error *err)
{
    *p = malloc(sizeof **p);
    if (!*p)
        return spgo_fail_nomem(err, "output", sizeof **p);
    **p = (place){.file = INVALID_HANDLE_VALUE, .stream = INVALID_HANDLE_VALUE};
    spgo_code code = open_destination(*p, path, err);
    if (code != SPGO_OK) {
        place_close(*p);
        *p = NULL;
    }
    return code;
}

int place_write(place *p, uint64_t offset, const void *bytes, size_t len)
{
    return write_at(p->file, offset, bytes, len);
}

int place_read(place *p, uint64_t offset, void *bytes, size_t len)
{
    return read_at(p->file, offset, bytes, len);
}

static int copy_to_stream(place *p, uint64_t size_bytes)
{
    uint8_t *chunk = malloc(COPY_CHUNK_SIZE);
    if (!chunk)
        return ENOMEM;
    int sys = 0;
    for (uint64_t done = 0; done < size_bytes && sys == 0;) {
        DWORD len = chunk_len(size_bytes - done);
        sys = read_at(p->file, done, chunk, len);
        if (sys == 0)
            sys = write_stream(p->stream, chunk, len);
        done += len;
    }
    free(chunk);
    return sys;
}

int place_publish(place *p, uint64_t size_bytes)
{
    if (p->stream != INVALID_HANDLE_VALUE)
        return copy_to_stream(p, size_bytes);
    close_handle(&p->file);
    if (!MoveFileExW(p->slot->path, p->target, MOVEFILE_REPLACE_EXISTING))
        return windows_errno();
    if (take_slot(p->slot))
        atomic_store(&p->slot->state, SLOT_FREE);
    p->slot = NULL;
    return 0;
}

spgo_code place_reread(place *p, uint64_t size_bytes, os_input **in, spgo_error *err)
{
    (void)size_bytes; /* the file has just so many */
    *in = calloc(1, sizeof **in);
    if (!*in)
        return spgo_fail_nomem(err, "input", sizeof **in);
    (*in)->spool = p->file;
    p->file = INVALID_HANDLE_VALUE;
    spgo_code code = map_input((*in)->spool, *in, err);
    if (code != SPGO_OK) {
        os_input_close(*in);
        *in = NULL;
    }
    return code;
}

void place_close(place *p)
{
    if (!p)
        return;
    close_handle(&p->file);
    if (p->owns_stream)
        close_handle(&p->stream);
    if (p->slot && take_slot(p->slot)) {
        DeleteFileW(p->slot->path);
        atomic_store(&p->slot->state, SLOT_FREE);
    }
    free(p->target);
    free(p);
}

/* ---- Questions about paths ---- */

bool os_file_exists(const char *path)
{
    wchar_t *wide = windows_wide(path);
    bool exists = wide && GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
    free(wide);
    return exists;
}

bool os_is_regular_file(const char *path)
{
    wchar_t *wide = windows_wide(path);
    WIN32_FILE_ATTRIBUTE_DATA info;
    bool ok = wide && GetFileAttributesExW(wide, GetFileExInfoStandard, &info);
    free(wide);
    return ok && !(info.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) &&
           (info.nFileSizeLow | info.nFileSizeHigh) != 0;
}

static bool file_identity(const char *path, BY_HANDLE_FILE_INFORMATION *info)
{
    wchar_t *wide = windows_wide(path);
    if (!wide)
        return false;
    HANDLE file =
        CreateFileW(wide, 0, SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    bool known = file != INVALID_HANDLE_VALUE && GetFileInformationByHandle(file, info);
    close_handle(&file);
    free(wide);
    return known;
}

bool os_same_file(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION ia, ib;
    return file_identity(a, &ia) && file_identity(b, &ib) &&
           ia.dwVolumeSerialNumber == ib.dwVolumeSerialNumber &&
           ia.nFileIndexHigh == ib.nFileIndexHigh && ia.nFileIndexLow == ib.nFileIndexLow;
}
