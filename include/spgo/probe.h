/*
 * Steering the probes from inside a program that is linked with libspgo_probe. Every function does
 * nothing where the runtime is not linked or records nothing, if SPGO_PROBE_OPTIONAL is defined
 * before this header; otherwise the program must be linked with it.
 *
 * Data is collected for a thread while, on each of the levels global, process and thread, it was
 * started at least once more often than it was stopped (it starts with one start on each), and was
 * not suspended more often than resumed. There is one process in a file, so global is process.
 *
 * The names of Visual Studio's profiling interface are macros at the end.
 */
#ifndef SPGO_PROBE_H
#define SPGO_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef SPGO_PROBE_OPTIONAL
#define SPGO_PROBE_API __attribute__((weak, visibility("default")))
#else
#define SPGO_PROBE_API __attribute__((visibility("default")))
#endif

typedef enum spgo_probe_level {
    SPGO_PROBE_GLOBAL = 1,
    SPGO_PROBE_PROCESS = 2,
    SPGO_PROBE_THREAD = 3
} spgo_probe_level;

typedef enum spgo_probe_result {
    SPGO_PROBE_OK = 0,
    SPGO_PROBE_NOTHING,   /* the runtime records nothing in this process */
    SPGO_PROBE_BAD_LEVEL, /* no such level, or an id that is not this process's or thread's */
    SPGO_PROBE_BAD_ID,    /* a mark's id is below 0 */
    SPGO_PROBE_FULL       /* no space for a mark */
} spgo_probe_result;

SPGO_PROBE_API spgo_probe_result spgo_probe_start(spgo_probe_level level);
SPGO_PROBE_API spgo_probe_result spgo_probe_stop(spgo_probe_level level);
SPGO_PROBE_API spgo_probe_result spgo_probe_suspend(spgo_probe_level level);
SPGO_PROBE_API spgo_probe_result spgo_probe_resume(spgo_probe_level level);

/* A point in time that reports can be cut at. comment may be NULL; what is longer than 191 bytes
 * is cut. */
SPGO_PROBE_API spgo_probe_result spgo_probe_mark(int64_t id, const char *comment);

/* At most 31 bytes. */
SPGO_PROBE_API spgo_probe_result spgo_probe_name_thread(const char *name);
SPGO_PROBE_API spgo_probe_result spgo_probe_name_process(const char *name);

#ifdef __cplusplus
}
#endif

#ifdef SPGO_PROBE_VISUAL_STUDIO_NAMES
#define PROFILE_GLOBALLEVEL SPGO_PROBE_GLOBAL
#define PROFILE_PROCESSLEVEL SPGO_PROBE_PROCESS
#define PROFILE_THREADLEVEL SPGO_PROBE_THREAD
#define PROFILE_CURRENTID 0u
#define StartProfile(level, id) ((void)(id), spgo_probe_start(level))
#define StopProfile(level, id) ((void)(id), spgo_probe_stop(level))
#define SuspendProfile(level, id) ((void)(id), spgo_probe_suspend(level))
#define ResumeProfile(level, id) ((void)(id), spgo_probe_resume(level))
#define MarkProfile(id) spgo_probe_mark(id, 0)
#define CommentMarkProfile(id, comment) spgo_probe_mark(id, comment)
#define NameProfile(name, level, id)                                                               \
    ((void)(id),                                                                                   \
     (level) == SPGO_PROBE_THREAD ? spgo_probe_name_thread(name) : spgo_probe_name_process(name))
#endif
#endif
