/*
 * The part of an output file that is the same everywhere: a buffer for appended bytes, patches and
 * reads that may lie in the buffer, in the file or across both, and the first error, kept until
 * the commit.
 */
#include <os/file.h>
#include <os/place.h>

#include <base/fail.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BUFFER_SIZE = 1024 * 1024 };

struct os_output {
    place *place;
    uint8_t *buffer;
    size_t buffered;  /* bytes in the buffer; they follow the flushed ones */
    uint64_t flushed; /* bytes in the file */
    int sys_errno;    /* of the first operation that failed */
};

static bool keep_error(os_output *out, int sys)
{
    if (out->sys_errno == 0)
        out->sys_errno = sys;
    return out->sys_errno == 0;
}

static bool flush(os_output *out)
{
    if (out->sys_errno != 0)
        return false;
    if (out->buffered == 0)
        return true;
    int sys = place_write(out->place, out->flushed, out->buffer, out->buffered);
    out->flushed += out->buffered;
    out->buffered = 0;
    return keep_error(out, sys);
}

static bool output_write(void *ctx, const void *bytes, size_t len)
{
    os_output *out = ctx;
    if (out->sys_errno != 0)
        return false;
    if (len > OUTPUT_BUFFER_SIZE - out->buffered && !flush(out))
        return false;
    if (len >= OUTPUT_BUFFER_SIZE) { /* a copy through the buffer would gain nothing */
        int sys = place_write(out->place, out->flushed, bytes, len);
        out->flushed += len;
        return keep_error(out, sys);
    }
    if (len > 0)
        memcpy(out->buffer + out->buffered, bytes, len);
    out->buffered += len;
    return true;
}

/* How many of the `len` bytes at `offset` are in the file; the others are in the buffer. */
static size_t len_in_file(const os_output *out, uint64_t offset, size_t len)
{
    if (offset >= out->flushed)
        return 0;
    uint64_t in_file = out->flushed - offset;
    return in_file < len ? (size_t)in_file : len;
}

static bool is_written(const os_output *out, uint64_t offset, size_t len)
{
    uint64_t size = os_output_size(out);
    return offset <= size && len <= size - offset;
}

static bool output_patch(void *ctx, uint64_t offset, const void *bytes, size_t len)
{
    os_output *out = ctx;
    if (out->sys_errno != 0)
        return false;
    if (!is_written(out, offset, len))
        return keep_error(out, EINVAL);
    size_t in_file = len_in_file(out, offset, len);
    if (in_file > 0 && !keep_error(out, place_write(out->place, offset, bytes, in_file)))
        return false;
    if (in_file < len)
        memcpy(out->buffer + (offset + in_file - out->flushed), (const uint8_t *)bytes + in_file,
               len - in_file);
    return true;
}

static bool output_read(void *ctx, uint64_t offset, void *bytes, size_t len)
{
    os_output *out = ctx;
    if (out->sys_errno != 0)
        return false;
    if (!is_written(out, offset, len))
        return keep_error(out, EINVAL);
    size_t in_file = len_in_file(out, offset, len);
    if (in_file > 0 && !keep_error(out, place_read(out->place, offset, bytes, in_file)))
        return false;
    if (in_file < len)
        memcpy((uint8_t *)bytes + in_file, out->buffer + (offset + in_file - out->flushed),
               len - in_file);
    return true;
}

static spgo_code open_output(const char *path, os_output **out, spgo_error *err)
{
    *out = NULL;
    os_output *o = calloc(1, sizeof *o);
    if (!o)
        return spgo_fail_nomem(err, "output", sizeof *o);
    o->buffer = malloc(OUTPUT_BUFFER_SIZE);
    if (!o->buffer) {
        os_output_discard(o);
        return spgo_fail_nomem(err, "output", OUTPUT_BUFFER_SIZE);
    }
    spgo_code code = place_open(path, &o->place, err);
    if (code != SPGO_OK) {
        os_output_discard(o);
        return code;
    }
    *out = o;
    return SPGO_OK;
}

spgo_code os_output_open(const char *path, os_output **out, spgo_error *err)
{
    return open_output(path, out, err);
}

spgo_code os_output_open_scratch(os_output **out, spgo_error *err)
{
    return open_output(NULL, out, err);
}

spgo_sink os_output_sink(os_output *out)
{
    return (spgo_sink){
        .ctx = out, .write = output_write, .patch = output_patch, .read = output_read};
}

uint64_t os_output_size(const os_output *out)
{
    return out->flushed + out->buffered;
}

static const char *way_out(int sys)
{
    switch (sys) {
    case ENOSPC:
        return "; free some space on its disk or choose another place";
    case EFBIG:
        return "; the system or a limit (ulimit -f) allows no file of this size there";
    case EPIPE:
        return "; its reader has gone away";
    default:
        return "; nothing was left there";
    }
}

static spgo_code first_error(const os_output *out, spgo_error *err)
{
    if (out->sys_errno == 0)
        return SPGO_OK;
    return spgo_fail_sys(err, out->sys_errno, "output", "cannot be written%s",
                         way_out(out->sys_errno));
}

spgo_code os_output_commit(os_output *out, spgo_error *err)
{
    if (flush(out))
        keep_error(out, place_publish(out->place, out->flushed));
    spgo_code code = first_error(out, err);
    os_output_discard(out);
    return code;
}

spgo_code os_output_reread(os_output *out, os_input **in, spgo_error *err)
{
    *in = NULL;
    (void)flush(out);
    spgo_code code = first_error(out, err);
    if (code == SPGO_OK)
        code = place_reread(out->place, out->flushed, in, err);
    os_output_discard(out);
    return code;
}

void os_output_discard(os_output *out)
{
    if (!out)
        return;
    place_close(out->place);
    free(out->buffer);
    free(out);
}
