/*
 * The system on Windows: UTF-8 arguments, binary streams, a UTF-8 console, and no unfinished files
 * behind a Ctrl-C.
 */
#include <os/place.h>
#include <os/system.h>
#include <os/windows_text.h>

#include <windows.h>

#include <shellapi.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

wchar_t *windows_wide(const char *utf8)
{
    int len = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, NULL, 0);
    wchar_t *wide = len > 0 ? malloc((size_t)len * sizeof *wide) : NULL;
    if (!wide) {
        errno = len > 0 ? ENOMEM : EILSEQ;
        return NULL;
    }
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, wide, len);
    return wide;
}

char *windows_utf8(const wchar_t *wide)
{
    int len = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *utf8 = len > 0 ? malloc((size_t)len) : NULL;
    if (utf8)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, utf8, len, NULL, NULL);
    return utf8;
}

int windows_errno(void)
{
    static const struct {
        DWORD error;
        int sys;
    } table[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},    {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},       {ERROR_INVALID_NAME, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},     {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EBUSY},  {ERROR_LOCK_VIOLATION, EBUSY},
        {ERROR_USER_MAPPED_FILE, EBUSY},   {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_FILE_EXISTS, EEXIST},       {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_DISK_FULL, ENOSPC},         {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_FILE_TOO_LARGE, EFBIG},     {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_BROKEN_PIPE, EPIPE},        {ERROR_NO_DATA, EPIPE},
        {ERROR_INVALID_HANDLE, EBADF},     {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM}, {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
    };
    DWORD error = GetLastError();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].error == error)
            return table[i].sys;
    return EIO;
}

/* Ctrl-C, Ctrl-Break, a closed window: unfinished files go, then the default handler ends us. */
static BOOL WINAPI on_termination(DWORD event)
{
    (void)event;
    place_remove_all();
    return FALSE;
}

/* A mapped file on a disk or server that went away. */
static LONG WINAPI on_exception(EXCEPTION_POINTERS *exception)
{
    static const char message[] = "the input file can no longer be read: its disk failed or its "
                                  "server went away\n";
    if (exception->ExceptionRecord->ExceptionCode != EXCEPTION_IN_PAGE_ERROR)
        return EXCEPTION_CONTINUE_SEARCH;
    place_remove_all();
    DWORD written;
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), message, sizeof message - 1, &written, NULL);
    ExitProcess(1);
}

static UINT console_code_page;

static void restore_console(void)
{
    SetConsoleOutputCP(console_code_page);
}

/* The C runtime gives arguments in the ANSI code page, which has lost characters. */
static void utf8_arguments(int *argc, char ***argv)
{
    int count;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **utf8 = wide ? calloc((size_t)count + 1, sizeof *utf8) : NULL;
    for (int i = 0; utf8 && i < count; i++) {
        utf8[i] = windows_utf8(wide[i]);
        if (!utf8[i]) {
            fputs("no memory for the arguments\n", stderr);
            exit(1);
        }
    }
    LocalFree(wide);
    if (!utf8)
        return;
    *argc = count;
    *argv = utf8;
}

void os_start(int *argc, char ***argv)
{
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stderr), _O_BINARY);
    console_code_page = GetConsoleOutputCP();
    if (console_code_page != 0 && console_code_page != CP_UTF8 && SetConsoleOutputCP(CP_UTF8))
        atexit(restore_console);
    SetConsoleCtrlHandler(on_termination, TRUE);
    AddVectoredExceptionHandler(1, on_exception);
    utf8_arguments(argc, argv);
}

static HANDLE stream_handle(int fd)
{
    return GetStdHandle(fd == 2 ? STD_ERROR_HANDLE : STD_OUTPUT_HANDLE);
}

bool os_is_terminal(int fd)
{
    DWORD mode;
    return GetConsoleMode(stream_handle(fd), &mode) != 0;
}

uint64_t os_clock_ns(void)
{
    LARGE_INTEGER frequency, now;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&now);
    uint64_t f = (uint64_t)frequency.QuadPart;
    uint64_t t = (uint64_t)now.QuadPart;
    return t / f * 1000000000u + t % f * 1000000000u / f; /* t * 1e9 would overflow in hours */
}

unsigned os_cpu_count(void)
{
    DWORD_PTR process_mask, system_mask;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &process_mask, &system_mask))
        return 1;
    unsigned count = (unsigned)__builtin_popcountll(process_mask);
    /* With more than one group of 64 processors the mask is of one group, or zero. */
    return count > 0 ? count : (unsigned)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}

static _Atomic int stream_errno;

static bool stream_write(int fd, const uint8_t *bytes, size_t len)
{
    enum { CHUNK_MAX = 32 * 1024 }; /* older consoles refuse more at once */
    while (len > 0) {
        DWORD n = 0;
        DWORD chunk = len < CHUNK_MAX ? (DWORD)len : (DWORD)CHUNK_MAX;
        if (!WriteFile(stream_handle(fd), bytes, chunk, &n, NULL)) {
            atomic_store(&stream_errno, windows_errno());
            return false;
        }
        bytes += n;
        len -= n;
    }
    return true;
}

static bool write_stdout(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    return stream_write(1, bytes, len);
}

static bool write_stderr(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    return stream_write(2, bytes, len);
}

spgo_sink os_stream_sink(int fd)
{
    return (spgo_sink){.write = fd == 2 ? write_stderr : write_stdout};
}

int os_stream_error(void)
{
    return atomic_load(&stream_errno);
}
