/* The runtime's files: header, then slots. Slots have one size, so that a damaged one costs no
 * other. */
#include <format/step/step.h>

#include <base/reader.h>

#include <inttypes.h>
#include <string.h>

enum { PAIR_BYTES = 16, CHUNK_BYTES_MAX = 1 << 30 };

/* ------------------------------------------------------------------ header */

static void read_counters(reader *r, step_header *h)
{
    uint64_t *const counters[] = {
        &h->slot_count,      &h->record_count, &h->short_count,      &h->branch_count,
        &h->step_count,      &h->empty_count,  &h->broken_count,     &h->lost_count,
        &h->blocked_count,   &h->stray_count,  &h->image_lost_count, &h->thread_count,
        &h->timerless_count, &h->step_cpu_ns,  &h->process_cpu_ns,
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        *counters[i] = reader_u64(r);
}

static void read_header(reader *r, step_header *h)
{
    uint32_t *const words[] = {
        &h->version, &h->header_bytes, &h->slot_bytes, &h->chunk_bytes, &h->branches_max,
        &h->filter,  &h->pid,          &h->parent_pid, &h->start_kind,  &h->end_kind,
    };
    const uint8_t *magic = reader_take(r, sizeof h->magic);
    if (magic)
        memcpy(h->magic, magic, sizeof h->magic);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *words[i] = reader_u32(r);
    h->start_time_ns = reader_u64(r);
    h->end_time_ns = reader_u64(r);
    h->start_realtime_ns = reader_u64(r);
    h->interval_ns = reader_u64(r);
    h->overhead_ppm = reader_u32(r);
    h->command_size = reader_u32(r);
    read_counters(r, h);
    reader_skip(r, sizeof h->reserved);
    const uint8_t *command = reader_take(r, sizeof h->command);
    if (command)
        memcpy(h->command, command, sizeof h->command);
}

static spgo_code fail_field(spgo_error *err, size_t offset, const char *name, uint64_t value)
{
    return spgo_fail(err, SPGO_CORRUPT, "step.header", offset,
                     "the header's %s is %" PRIu64 ", which no runtime writes", name, value);
}

/* Every rule that the slots are found by. */
static spgo_code check_layout(const step_header *h, spgo_error *err)
{
    if (h->branches_max < STEP_BRANCHES_MIN || h->branches_max > STEP_BRANCHES_MAX)
        return fail_field(err, offsetof(step_header, branches_max), "branches_max",
                          h->branches_max);
    uint32_t least = STEP_RECORD_BYTES + (PAIR_BYTES + 1) * h->branches_max;
    if (h->slot_bytes < least || h->slot_bytes % 8 != 0)
        return fail_field(err, offsetof(step_header, slot_bytes), "slot_bytes", h->slot_bytes);
    if (h->chunk_bytes < h->slot_bytes || h->chunk_bytes > CHUNK_BYTES_MAX)
        return fail_field(err, offsetof(step_header, chunk_bytes), "chunk_bytes", h->chunk_bytes);
    if (h->header_bytes < sizeof *h)
        return fail_field(err, offsetof(step_header, header_bytes), "header_bytes",
                          h->header_bytes);
    if (h->command_size > STEP_COMMAND_BYTES)
        return fail_field(err, offsetof(step_header, command_size), "command_size",
                          h->command_size);
    return SPGO_OK;
}

static uint64_t slot_offset(const step_document *d, uint64_t slot)
{
    return d->header.header_bytes + slot / d->slots_per_chunk * d->header.chunk_bytes +
           slot % d->slots_per_chunk * d->header.slot_bytes;
}

/* Slots that lie in the file whole. */
static uint64_t slots_in_file(const step_document *d)
{
    const step_header *h = &d->header;
    if (d->file.len < h->header_bytes)
        return 0;
    uint64_t size = d->file.len - h->header_bytes;
    uint64_t rest = size % h->chunk_bytes / h->slot_bytes;
    return size / h->chunk_bytes * d->slots_per_chunk +
           (rest < d->slots_per_chunk ? rest : d->slots_per_chunk);
}

spgo_code step_open(spgo_span file, step_document *doc, diag *findings, spgo_error *err)
{
    static const uint8_t nothing[8];
    reader r = reader_from(file, 0);
    *doc = (step_document){.file = file};
    step_header *h = &doc->header;
    read_header(&r, h);
    if (file.len >= sizeof h->magic && memcmp(file.ptr, nothing, sizeof nothing) == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, "step.header", 0,
                         "the recording of this process was never begun");
    if (file.len >= sizeof h->magic && memcmp(file.ptr, STEP_FILE_MAGIC, sizeof h->magic) != 0)
        return spgo_fail(err, SPGO_UNSUPPORTED, "step.header", 0,
                         "this is no file of the stepping runtime: it does not begin with %s",
                         STEP_FILE_MAGIC);
    SPGO_TRY(reader_finish(&r, "step.header", err));
    if (h->version != STEP_FILE_VERSION)
        return spgo_fail(err, SPGO_UNSUPPORTED, "step.header", offsetof(step_header, version),
                         "the file is of version %" PRIu32 "; %d is read here", h->version,
                         STEP_FILE_VERSION);
    SPGO_TRY(check_layout(h, err));
    doc->slots_per_chunk = h->chunk_bytes / h->slot_bytes;
    doc->command = (spgo_span){file.ptr + offsetof(step_header, command), h->command_size};
    doc->slot_count = slots_in_file(doc);
    if (doc->slot_count >= h->slot_count)
        doc->slot_count = h->slot_count;
    else if (h->lost_count == 0)
        diag_add(findings, SPGO_TRUNCATED, file.len,
                 "the file holds %" PRIu64 " of %" PRIu64 " slots", doc->slot_count, h->slot_count);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ events */

static reader slot_reader(const step_document *d, uint64_t slot)
{
    uint64_t offset = slot_offset(d, slot);
    return reader_from((spgo_span){d->file.ptr + offset, d->header.slot_bytes}, offset);
}

static bool read_record(step_walk *w, reader *r, step_event *e)
{
    const step_header *h = &w->doc->header;
    e->record.tid = reader_u32(r);
    e->record.cpu = reader_u32(r);
    uint64_t count_off = reader_offset(r);
    e->record.branch_count = reader_u16(r);
    e->record.stop = reader_u16(r);
    e->record.step_count = reader_u32(r);
    e->record.start_ip = reader_u64(r);
    e->record.end_ip = reader_u64(r);
    e->record.start_time_ns = reader_u64(r);
    e->record.cpu_ns = reader_u64(r);
    e->record.pairs = reader_take(r, (uint64_t)PAIR_BYTES * h->branches_max);
    uint64_t kinds_off = reader_offset(r);
    e->record.kinds = reader_take(r, h->branches_max);
    if (r->code != SPGO_OK || e->record.branch_count == 0 ||
        e->record.branch_count > h->branches_max) {
        diag_add(w->findings, SPGO_CORRUPT, count_off,
                 "a record of %" PRIu32 " branches, where 1 to %" PRIu32 " are possible",
                 e->record.branch_count, h->branches_max);
        return false;
    }
    for (uint32_t i = 0; i < e->record.branch_count; i++) {
        uint8_t kind = e->record.kinds[i];
        if (kind < STEP_BRANCH_JCC || kind > STEP_BRANCH_FAR) {
            diag_add(w->findings, SPGO_CORRUPT, kinds_off + i, "a branch of the unknown kind %u",
                     kind);
            return false;
        }
    }
    return true;
}

/* Puts together a path that goes on in the `span` - 1 slots behind the image's. */
static bool read_path(step_walk *w, reader *r, uint64_t slot, uint32_t span, uint32_t size)
{
    if (size >= sizeof w->path) {
        diag_add(w->findings, SPGO_CORRUPT, reader_offset(r) - 4,
                 "an image's path of %" PRIu32 " bytes", size);
        return false;
    }
    size_t done = 0;
    for (uint32_t i = 0; done < size; i++) {
        reader more;
        if (i > 0) {
            if (i >= span) {
                diag_add(w->findings, SPGO_CORRUPT, slot_offset(w->doc, slot),
                         "an image's path of %" PRIu32 " bytes in %" PRIu32 " slots", size, span);
                return false;
            }
            more = slot_reader(w->doc, slot + i);
            r = &more;
            if (reader_u32(r) != STEP_SLOT_TEXT) {
                diag_add(w->findings, SPGO_CORRUPT, slot_offset(w->doc, slot + i),
                         "an image's path is cut off");
                return false;
            }
            reader_skip(r, STEP_SLOT_HEAD_BYTES - 4);
        }
        size_t part = reader_left(r) < size - done ? reader_left(r) : size - done;
        memcpy(w->path + done, reader_take(r, part), part);
        done += part;
    }
    w->path[done] = 0;
    return true;
}

static bool read_image(step_walk *w, reader *r, uint64_t slot, uint32_t span, step_event *e)
{
    e->image.start_addr = reader_u64(r);
    uint64_t size_off = reader_offset(r);
    e->image.size_bytes = reader_u64(r);
    e->image.file_offset = reader_u64(r);
    e->image.inode = reader_u64(r);
    e->image.dev_major = reader_u32(r);
    e->image.dev_minor = reader_u32(r);
    e->image.prot = reader_u32(r);
    uint32_t path_size = reader_u32(r);
    if (e->image.size_bytes == 0 || e->image.size_bytes > UINT64_MAX - e->image.start_addr) {
        diag_add(w->findings, SPGO_CORRUPT, size_off, "an image of %" PRIu64 " bytes at 0x%" PRIx64,
                 e->image.size_bytes, e->image.start_addr);
        return false;
    }
    if (!read_path(w, r, slot, span, path_size))
        return false;
    e->image.path = (spgo_str){w->path, path_size};
    return true;
}

static bool read_thread(reader *r, step_event *e)
{
    e->thread.tid = reader_u32(r);
    reader_skip(r, 4);
    e->thread.cpu_ns = reader_u64(r);
    return true;
}

/* Reads the slot's event, if it is one and whole. */
static bool read_slot(step_walk *w, uint64_t slot, step_event *e)
{
    reader r = slot_reader(w->doc, slot);
    *e = (step_event){.offset = reader_offset(&r)};
    uint32_t kind = reader_u32(&r), span = reader_u32(&r);
    e->time_ns = reader_u64(&r);
    if (kind == STEP_SLOT_UNFINISHED) {
        w->unfinished_count++;
        return false;
    }
    if (kind > STEP_SLOT_THREAD_END)
        return false;
    if (span == 0 || span > w->doc->slot_count - slot) {
        diag_add(w->findings, SPGO_CORRUPT, e->offset + 4,
                 "a slot that says to be %" PRIu32 ", with %" PRIu64 " left", span,
                 w->doc->slot_count - slot);
        return false;
    }
    switch (kind) {
    case STEP_SLOT_RECORD:
        e->kind = STEP_EVENT_RECORD;
        return read_record(w, &r, e);
    case STEP_SLOT_IMAGE:
        e->kind = STEP_EVENT_IMAGE;
        return read_image(w, &r, slot, span, e);
    case STEP_SLOT_IMAGE_END:
        e->kind = STEP_EVENT_IMAGE_END;
        return read_image(w, &r, slot, span, e);
    case STEP_SLOT_THREAD:
        e->kind = STEP_EVENT_THREAD;
        return read_thread(&r, e);
    case STEP_SLOT_THREAD_END:
        e->kind = STEP_EVENT_THREAD_END;
        return read_thread(&r, e);
    default: /* text, read with its image */
        return false;
    }
}

void step_walk_begin(step_walk *w, const step_document *doc, diag *findings)
{
    w->doc = doc;
    w->findings = findings;
    w->slot = 0;
    w->unfinished_count = 0;
    w->path[0] = 0;
}

bool step_walk_next(step_walk *w, step_event *event)
{
    while (w->slot < w->doc->slot_count) {
        if (read_slot(w, w->slot++, event))
            return true;
    }
    return false;
}

step_branch step_branch_at(const step_event *record, uint32_t index)
{
    const uint8_t *pair = record->record.pairs + (size_t)PAIR_BYTES * index;
    return (step_branch){load_u64(pair), load_u64(pair + 8)};
}
