/*
 * Reading the container. The superblock names the map pages, these name the pages of the directory,
 * and the directory names the pages of the streams: three levels, each checked before it is
 * followed.
 */
#include <format/pdb/msf.h>

#include <inttypes.h>
#include <string.h>

#include <base/reader.h>

enum { SUPERBLOCK_SIZE = 52, PAGE_SIZE_MIN = 512, PAGE_SIZE_MAX = 65536, MAGIC_SIZE = 32 };

/* A set of page numbers. */
typedef struct page_set {
    uint8_t *bits;
    uint32_t count;
} page_set;

static bool page_set_add(page_set *s, uint32_t page)
{
    uint8_t bit = (uint8_t)(1u << (page & 7));
    if (s->bits[page >> 3] & bit)
        return false;
    s->bits[page >> 3] |= bit;
    return true;
}

spgo_code msf_no_room(const msf *m, const arena *mem, const char *where, uint64_t size_bytes,
                      spgo_error *err)
{
    if (m->budget_bytes && size_bytes > m->budget_bytes - arena_used(mem))
        return spgo_fail(err, SPGO_LIMIT, where, SPGO_NO_OFFSET,
                         "%" PRIu64 " more bytes exceed the budget of %" PRIu64
                         " bytes; raise it if the file is to be trusted",
                         size_bytes, m->budget_bytes);
    return spgo_fail_nomem(err, where, (size_t)size_bytes);
}

static uint64_t pages_of(const msf *m, uint64_t size_bytes)
{
    return (size_bytes + m->page_size - 1) >> m->page_shift;
}

static uint64_t page_offset(const msf *m, uint32_t page)
{
    return (uint64_t)page << m->page_shift;
}

/* Is the page there? The last one may be cut behind the bytes that count. */
static bool page_holds(const msf *m, uint32_t page, uint64_t bytes)
{
    uint64_t off = page_offset(m, page);
    return page < m->page_count && off <= m->file.len && bytes <= m->file.len - off;
}

/* ------------------------------------------------------------------ superblock */

typedef struct superblock {
    uint32_t directory_size;
    uint64_t directory_pages, map_pages;
} superblock;

static spgo_code check_page_size(uint32_t page_size, spgo_error *err)
{
    if (page_size < PAGE_SIZE_MIN || page_size > PAGE_SIZE_MAX || (page_size & (page_size - 1)))
        return spgo_fail(err, SPGO_CORRUPT, "msf.page_size", MAGIC_SIZE,
                         "the page size is %" PRIu32 ", no power of two from 512 to 65536",
                         page_size);
    return SPGO_OK;
}

static spgo_code read_superblock(msf *m, superblock *s, spgo_error *err)
{
    static const char where[] = "msf.superblock";
    reader r = reader_from(m->file, 0);
    reader_skip(&r, MAGIC_SIZE);
    m->page_size = reader_u32(&r);
    reader_skip(&r, 4); /* which of the two free page maps counts */
    m->page_count = reader_u32(&r);
    s->directory_size = reader_u32(&r);
    reader_skip(&r, 4);
    SPGO_TRY(reader_finish(&r, where, err));
    SPGO_TRY(check_page_size(m->page_size, err));
    m->page_shift = (unsigned)__builtin_ctz(m->page_size);
    s->directory_pages = pages_of(m, s->directory_size);
    s->map_pages = pages_of(m, s->directory_pages * 4);
    uint64_t file_pages = pages_of(m, m->file.len);
    if (s->directory_size < 4 || s->directory_pages > m->page_count)
        return spgo_fail(err, SPGO_CORRUPT, where, 44,
                         "the stream directory has %" PRIu32 " bytes; it needs 4 at least and fits "
                         "into the file's %" PRIu32 " pages",
                         s->directory_size, m->page_count);
    if (s->directory_pages > file_pages)
        return spgo_fail(err, SPGO_TRUNCATED, where, m->file.len,
                         "the file has %zu bytes, fewer than its stream directory alone (%" PRIu32
                         "); it was cut short",
                         m->file.len, s->directory_size);
    if (s->map_pages > (m->page_size - SUPERBLOCK_SIZE) / 4)
        return spgo_fail(err, SPGO_CORRUPT, where, 44,
                         "the stream directory has %" PRIu32 " bytes, more than the superblock "
                         "can name pages for",
                         s->directory_size);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ directory */

static spgo_code take_page(const msf *m, page_set *taken, uint32_t page, uint64_t bytes,
                           uint64_t at, const char *what, spgo_error *err)
{
    static const char where[] = "msf.directory";
    if (page == 0 || page >= m->page_count)
        return spgo_fail(err, SPGO_CORRUPT, where, at,
                         "%s is page %" PRIu32 "; pages are 1 to %" PRIu32, what, page,
                         m->page_count - 1);
    if (!page_holds(m, page, bytes))
        return spgo_fail(err, SPGO_TRUNCATED, where, m->file.len,
                         "%s is page %" PRIu32 ", behind the end of the file; it was cut short",
                         what, page);
    if (!page_set_add(taken, page))
        return spgo_fail(err, SPGO_CORRUPT, where, at, "%s is page %" PRIu32 ", which is in use",
                         what, page);
    return SPGO_OK;
}

/* The page numbers of the directory, from the map pages. */
static spgo_code read_map(msf *m, const superblock *s, page_set *taken, arena *mem, spgo_error *err)
{
    uint64_t left = s->directory_pages * 4;
    uint8_t *map = arena_push(mem, (size_t)left, 1);
    if (!map)
        return msf_no_room(m, mem, "msf.directory", left, err);
    m->map = map;
    for (uint64_t i = 0; i < s->map_pages; i++) {
        uint64_t at = SUPERBLOCK_SIZE + 4 * i;
        if (at + 4 > m->file.len)
            return spgo_fail(err, SPGO_TRUNCATED, "msf.superblock", m->file.len,
                             "the file ends inside its superblock; it was cut short");
        uint32_t page = load_u32(m->file.ptr + at);
        size_t n = left < m->page_size ? (size_t)left : m->page_size;
        SPGO_TRY(take_page(m, taken, page, n, at, "a map page of the stream directory", err));
        memcpy(map, m->file.ptr + page_offset(m, page), n);
        map += n;
        left -= n;
    }
    return SPGO_OK;
}

/* The file offset of byte `pos` of the directory. */
static uint64_t directory_offset(const msf *m, uint64_t pos)
{
    uint32_t page = load_u32(m->map + 4 * (pos >> m->page_shift));
    return page_offset(m, page) + (pos & (m->page_size - 1));
}

static uint64_t map_entry_offset(const msf *m, uint64_t i)
{
    uint64_t pos = 4 * i;
    uint32_t page = load_u32(m->file.ptr + SUPERBLOCK_SIZE + 4 * (pos >> m->page_shift));
    return page_offset(m, page) + (pos & (m->page_size - 1));
}

static spgo_code read_directory(msf *m, const superblock *s, page_set *taken, arena *mem,
                                spgo_error *err)
{
    uint8_t *bytes = arena_push(mem, s->directory_size, 1);
    if (!bytes)
        return msf_no_room(m, mem, "msf.directory", s->directory_size, err);
    m->directory = (spgo_span){bytes, s->directory_size};
    size_t left = s->directory_size;
    for (uint64_t i = 0; i < s->directory_pages; i++) {
        uint32_t page = load_u32(m->map + 4 * i);
        size_t n = left < m->page_size ? left : m->page_size;
        SPGO_TRY(take_page(m, taken, page, n, map_entry_offset(m, i),
                           "a page of the stream directory", err));
        memcpy(bytes, m->file.ptr + page_offset(m, page), n);
        bytes += n;
        left -= n;
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ streams */

static uint32_t stream_page(const msf *m, const msf_stream *s, uint64_t i)
{
    return load_u32(m->directory.ptr + s->list_pos + 4 * i);
}

/* Stream 0 is the directory before the last change, whose pages may have been used again. */
static void check_list(const msf *m, uint32_t index, page_set *taken, diag *d)
{
    msf_stream *s = &m->streams[index];
    uint64_t left = s->size_bytes;
    for (uint32_t i = 0; left > 0; i++) {
        uint32_t page = stream_page(m, s, i);
        uint64_t n = left < m->page_size ? left : m->page_size;
        const char *why = NULL;
        if (page == 0 || page >= m->page_count)
            why = "does not exist", s->fault = SPGO_CORRUPT;
        else if (!page_holds(m, page, n))
            why = "is behind the end of the file", s->fault = SPGO_TRUNCATED;
        else if (index > 0 && !page_set_add(taken, page))
            why = "is in use already", s->fault = SPGO_CORRUPT;
        if (why) {
            s->fault_page = i;
            diag_add(d, s->fault, directory_offset(m, s->list_pos + 4 * (uint64_t)i),
                     "page %" PRIu32 " of stream %" PRIu32 " is page %" PRIu32
                     " of the file, which %s; the stream is not read",
                     i, index, page, why);
            return;
        }
        left -= n;
    }
}

static spgo_code read_streams(msf *m, page_set *taken, arena *mem, diag *d, spgo_error *err)
{
    static const char where[] = "msf.directory";
    reader r = reader_from(m->directory, 0);
    m->stream_count = (uint32_t)reader_count(&r, reader_u32(&r), 4);
    if (r.code)
        return spgo_fail(err, SPGO_CORRUPT, where, directory_offset(m, 0),
                         "the directory says it has %" PRIu32
                         " streams, too many for its %zu bytes",
                         load_u32(m->directory.ptr), m->directory.len);
    m->streams = arena_push(mem, m->stream_count, sizeof *m->streams);
    if (!m->streams)
        return msf_no_room(m, mem, where, m->stream_count * sizeof *m->streams, err);
    for (uint32_t i = 0; i < m->stream_count; i++)
        m->streams[i].size_bytes = reader_u32(&r);
    for (uint32_t i = 0; i < m->stream_count; i++) {
        msf_stream *s = &m->streams[i];
        s->list_pos = r.pos;
        if (s->size_bytes == UINT32_MAX)
            continue;
        reader_skip(&r, 4 * pages_of(m, s->size_bytes));
        if (r.code)
            return spgo_fail(err, SPGO_CORRUPT, where, directory_offset(m, 4 + 4 * (uint64_t)i),
                             "stream %" PRIu32 " has %" PRIu32
                             " bytes; the directory ends inside its list of pages",
                             i, s->size_bytes);
        check_list(m, i, taken, d);
    }
    return SPGO_OK;
}

spgo_code msf_open(spgo_span file, uint64_t budget_bytes, arena *mem, msf *out, diag *d,
                   spgo_error *err)
{
    *out = (msf){.file = file, .budget_bytes = budget_bytes};
    superblock s;
    SPGO_TRY(read_superblock(out, &s, err));
    uint64_t file_pages = pages_of(out, file.len);
    page_set taken = {.count =
                          out->page_count < file_pages ? out->page_count : (uint32_t)file_pages};
    taken.bits = arena_push(mem, taken.count / 8 + 1, 1);
    if (!taken.bits)
        return msf_no_room(out, mem, "msf.directory", taken.count / 8 + 1, err);
    SPGO_TRY(read_map(out, &s, &taken, mem, err));
    SPGO_TRY(read_directory(out, &s, &taken, mem, err));
    return read_streams(out, &taken, mem, d, err);
}

uint32_t msf_stream_size(const msf *m, uint32_t stream)
{
    return stream < m->stream_count ? m->streams[stream].size_bytes : UINT32_MAX;
}

uint64_t msf_file_offset(const msf *m, uint32_t stream, uint64_t off)
{
    uint32_t size = msf_stream_size(m, stream);
    if (size == UINT32_MAX || off > size || size == 0)
        return SPGO_NO_OFFSET;
    /* The end of the stream is behind its last byte, not on a page that it does not have. */
    uint64_t byte = off < size ? off : (uint64_t)size - 1;
    uint32_t page = stream_page(m, &m->streams[stream], byte >> m->page_shift);
    return page_offset(m, page) + (byte & (m->page_size - 1)) + (off - byte);
}

static spgo_code check_readable(const msf *m, uint32_t stream, spgo_error *err)
{
    static const char where[] = "msf.stream";
    if (msf_stream_size(m, stream) == UINT32_MAX)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                         "stream %" PRIu32 " is absent; the file has %" PRIu32, stream,
                         m->stream_count);
    const msf_stream *s = &m->streams[stream];
    if (s->fault)
        return spgo_fail(
            err, s->fault, where, directory_offset(m, s->list_pos + 4 * (uint64_t)s->fault_page),
            "stream %" PRIu32 " names page %" PRIu32 " of the file, which is not there "
            "or in use; the file is damaged",
            stream, stream_page(m, s, s->fault_page));
    return SPGO_OK;
}

static bool is_contiguous(const msf *m, const msf_stream *s)
{
    uint64_t count = pages_of(m, s->size_bytes);
    for (uint64_t i = 1; i < count; i++)
        if (stream_page(m, s, i) != stream_page(m, s, 0) + i)
            return false;
    return true;
}

spgo_code msf_stream_bytes(const msf *m, uint32_t stream, arena *mem, spgo_span *out,
                           spgo_error *err)
{
    *out = (spgo_span){NULL, 0};
    SPGO_TRY(check_readable(m, stream, err));
    const msf_stream *s = &m->streams[stream];
    if (s->size_bytes == 0)
        return SPGO_OK;
    if (is_contiguous(m, s)) {
        *out = (spgo_span){m->file.ptr + page_offset(m, stream_page(m, s, 0)), s->size_bytes};
        return SPGO_OK;
    }
    uint8_t *copy = arena_push(mem, s->size_bytes, 1);
    if (!copy)
        return msf_no_room(m, mem, "msf.stream", s->size_bytes, err);
    (void)msf_copy(m, stream, 0, copy, s->size_bytes);
    *out = (spgo_span){copy, s->size_bytes};
    return SPGO_OK;
}

size_t msf_copy(const msf *m, uint32_t stream, uint64_t off, void *out, size_t size)
{
    uint32_t whole = msf_stream_size(m, stream);
    if (whole == UINT32_MAX || m->streams[stream].fault || off >= whole)
        return 0;
    if (size > whole - off)
        size = (size_t)(whole - off);
    uint8_t *to = out;
    for (size_t left = size; left > 0;) {
        uint64_t in_page = off & (m->page_size - 1);
        size_t n = m->page_size - (size_t)in_page;
        if (n > left)
            n = left;
        uint32_t page = stream_page(m, &m->streams[stream], off >> m->page_shift);
        memcpy(to, m->file.ptr + page_offset(m, page) + in_page, n);
        to += n;
        off += n;
        left -= n;
    }
    return size;
}
