/*
 * Payloads of the events: the counterpart of the decoders. Fields that no consumer of profiles
 * needs (kernel stacks' limits, checks, reserved words) are written as zeros.
 */
#include <format/etl/etl_write.h>

#include <string.h>

/* ------------------------------------------------------------------ processes and threads */

static void put_text8z(bytes *b, spgo_str s)
{
    bytes_put(b, s.ptr, s.len);
    bytes_u8(b, 0);
}

/* Readers look only at whether the first word of the TOKEN_USER before the identifier is zero,
 * which is also how a process without one is written. */
static void put_sid(bytes *b, spgo_span sid, unsigned ptr_size)
{
    if (sid.len == 0) {
        bytes_u32(b, 0);
        return;
    }
    bytes_ptr(b, 1, ptr_size);
    bytes_ptr(b, 0, ptr_size);
    bytes_put(b, sid.ptr, sid.len);
}

static void put_utf16z_span(bytes *b, spgo_span utf16)
{
    bytes_put(b, utf16.ptr, utf16.len & ~(size_t)1);
    bytes_u16(b, 0);
}

void etl_encode_process(bytes *b, const etl_process *p, const char *command_line, unsigned version,
                        unsigned ptr_size)
{
    if (version == 0) {
        bytes_ptr(b, p->pid, ptr_size);
        bytes_ptr(b, p->parent_pid, ptr_size);
    } else {
        /* version 1 has the page directory here */
        bytes_ptr(b, version == 1 ? 0 : p->unique_key, ptr_size);
        bytes_u32(b, p->pid);
        bytes_u32(b, p->parent_pid);
        bytes_u32(b, p->session_id);
        bytes_u32(b, (uint32_t)p->exit_status);
    }
    if (version >= 3)
        bytes_ptr(b, 0, ptr_size); /* page directory */
    if (version >= 4)
        bytes_u32(b, p->flags);
    put_sid(b, p->sid, ptr_size);
    put_text8z(b, p->image_name);
    if (version >= 2)
        bytes_utf16z(b, command_line ? command_line : "");
    if (version >= 4) {
        put_utf16z_span(b, p->package);
        put_utf16z_span(b, p->app);
    }
    if (version >= 5)
        bytes_u64(b, p->exit_filetime);
}

void etl_encode_thread(bytes *b, const etl_thread *t, const char *name, unsigned version,
                       unsigned ptr_size)
{
    if (version == 0) { /* the only version that begins with the thread */
        bytes_u32(b, t->tid);
        bytes_u32(b, t->pid);
        return;
    }
    bytes_u32(b, t->pid);
    bytes_u32(b, t->tid);
    for (int i = 0; i < 4; i++) /* bounds of the kernel's and the user's stack */
        bytes_ptr(b, 0, ptr_size);
    bytes_ptr(b, t->start_addr, ptr_size);
    bytes_ptr(b, t->win32_start_addr, ptr_size);
    if (version == 1) {
        bytes_u8(b, 0); /* wait mode */
        return;
    }
    bytes_ptr(b, 0, ptr_size); /* thread environment block */
    bytes_u32(b, 0);           /* sub-process tag */
    if (version < 3)
        return;
    bytes_u32(b, 0); /* priorities and flags */
    if (name || version >= 4)
        bytes_utf16z(b, name ? name : "");
}

void etl_encode_thread_name(bytes *b, uint32_t pid, uint32_t tid, const char *name)
{
    bytes_u32(b, pid);
    bytes_u32(b, tid);
    bytes_utf16z(b, name);
}

void etl_encode_cswitch(bytes *b, const etl_cswitch *c)
{
    bytes_u32(b, c->new_tid);
    bytes_u32(b, c->old_tid);
    bytes_u8(b, (uint8_t)c->new_priority);
    bytes_u8(b, (uint8_t)c->old_priority);
    bytes_u16(b, 0); /* previous C-state, spare */
    bytes_u8(b, c->old_wait_reason);
    bytes_u8(b, c->old_wait_mode);
    bytes_u8(b, c->old_state);
    bytes_u8(b, 0); /* ideal processor */
    bytes_u32(b, c->new_wait_time);
    bytes_u32(b, 0);
}

/* ------------------------------------------------------------------ images and volumes */

void etl_encode_image(bytes *b, const etl_image *i, const char *file_name, unsigned version,
                      unsigned ptr_size)
{
    bytes_ptr(b, i->base, ptr_size);
    bytes_ptr(b, i->size, ptr_size);
    if (version >= 1)
        bytes_u32(b, i->pid);
    if (version >= 2) {
        bytes_u32(b, i->checksum);
        bytes_u32(b, i->time_date_stamp);
        bytes_u32(b, 0); /* signature level and type */
        bytes_ptr(b, i->default_base, ptr_size);
        bytes_fill(b, 0, 16);
    }
    bytes_utf16z(b, file_name);
}

/* The identity events are packed: the process follows the base without alignment. */
void etl_encode_image_id(bytes *b, const etl_image_id *i, const char *original_name,
                         unsigned ptr_size)
{
    bytes_ptr(b, i->base, ptr_size);
    bytes_ptr(b, i->size, ptr_size);
    bytes_u32(b, i->pid);
    bytes_u32(b, i->time_date_stamp);
    bytes_utf16z(b, original_name);
}

void etl_encode_image_no_debug(bytes *b, const etl_image_id *i, unsigned ptr_size)
{
    bytes_ptr(b, i->base, ptr_size);
    bytes_u32(b, i->pid);
}

void etl_encode_image_rsds(bytes *b, const etl_image_id *i, unsigned ptr_size)
{
    bytes_ptr(b, i->base, ptr_size);
    bytes_u32(b, i->pid);
    bytes_put(b, i->id.guid.bytes, sizeof i->id.guid.bytes);
    bytes_u32(b, i->id.age);
    put_text8z(b, i->pdb);
}

void etl_encode_volume(bytes *b, const char *nt_path, const char *dos_path)
{
    bytes_utf16z(b, nt_path);
    bytes_utf16z(b, dos_path);
}

/* ------------------------------------------------------------------ samples */

void etl_encode_sampled_profile(bytes *b, const etl_sample *s, unsigned ptr_size)
{
    bytes_ptr(b, s->ip, ptr_size);
    bytes_u32(b, s->tid);
    bytes_u16(b, s->count);
    bytes_u8(b, s->flags);
    bytes_u8(b, s->rank);
}

void etl_encode_sample_cache(bytes *b, const etl_sample *samples, size_t count, unsigned ptr_size)
{
    bytes_u32(b, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        etl_encode_sampled_profile(b, &samples[i], ptr_size);
}

void etl_encode_pmc_interrupt(bytes *b, const etl_sample *s, unsigned ptr_size)
{
    bytes_ptr(b, s->ip, ptr_size);
    bytes_u32(b, s->tid);
    bytes_u16(b, s->source);
    bytes_u16(b, 0);
}

void etl_encode_interval(bytes *b, const etl_interval *i, const char *name, unsigned version)
{
    bytes_u32(b, i->source);
    bytes_u32(b, i->new_interval);
    bytes_u32(b, i->old_interval);
    if (version >= 3)
        bytes_utf16z(b, name ? name : "");
}

void etl_encode_pmc_names(bytes *b, const char *const *names, size_t count)
{
    bytes_u32(b, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        bytes_utf16z(b, names[i]);
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Branches and stacks are most of a trace: where they already look like the file's, they are
 * copied as they are. */
static void put_pointers(bytes *b, const uint64_t *values, size_t count, unsigned ptr_size)
{
    if (count > SIZE_MAX / 8 || !bytes_reserve(b, count * ptr_size)) {
        b->failed = true;
        return;
    }
    uint8_t *p = b->ptr + b->len;
    if (ptr_size == 8 && is_little_endian() && count)
        memcpy(p, values, 8 * count);
    else if (ptr_size == 8)
        for (size_t i = 0; i < count; i++)
            store_u64(p + 8 * i, values[i]);
    else
        for (size_t i = 0; i < count; i++)
            store_u32(p + 4 * i, (uint32_t)values[i]);
    b->len += count * ptr_size;
}

void etl_encode_lbr(bytes *b, const etl_lbr *l, const uint64_t (*branches)[3], size_t count,
                    unsigned ptr_size)
{
    bytes_u64(b, l->time);
    bytes_u32(b, l->pid);
    bytes_u32(b, l->tid);
    bytes_u32(b, l->options);
    if (ptr_size == 8)
        bytes_u32(b, 0); /* aligns the entries */
    if (count)
        put_pointers(b, branches[0], count > SIZE_MAX / 3 ? SIZE_MAX : count * 3, ptr_size);
}

/* ------------------------------------------------------------------ stacks */

void etl_encode_stack(bytes *b, const etl_stack *s, const uint64_t *frames, size_t count,
                      unsigned ptr_size)
{
    bytes_u64(b, s->time);
    bytes_u32(b, s->pid);
    bytes_u32(b, s->tid);
    put_pointers(b, frames, count, ptr_size);
}

void etl_encode_stack_key_use(bytes *b, const etl_stack *s, unsigned ptr_size)
{
    bytes_u64(b, s->time);
    bytes_u32(b, s->pid);
    bytes_u32(b, s->tid);
    bytes_ptr(b, s->key, ptr_size);
}

void etl_encode_stack_key_def(bytes *b, const etl_stack *s, const uint64_t *frames, size_t count,
                              unsigned ptr_size)
{
    bytes_ptr(b, s->key, ptr_size);
    put_pointers(b, frames, count, ptr_size);
}

/* ------------------------------------------------------------------ extended items */

void etl_encode_extended(bytes *b, uint16_t type, spgo_span data, bool more)
{
    size_t total = (8 + data.len + 7) & ~(size_t)7;
    if (total > UINT16_MAX) { /* no record could hold it either */
        b->failed = true;
        return;
    }
    bytes_u16(b, (uint16_t)total);
    bytes_u16(b, type);
    bytes_u16(b, more ? 1 : 0);
    bytes_u16(b, (uint16_t)data.len);
    bytes_put(b, data.ptr, data.len);
    bytes_fill(b, 0, total - 8 - data.len);
}
