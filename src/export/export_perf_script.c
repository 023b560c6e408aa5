/* What `perf script -F ip,brstack --show-mmap-events` would print: see export.h. */
#include <export/export.h>

#include <inttypes.h>

#include <base/fail.h>
#include <base/saturate.h>
#include <base/text.h>

enum { PAGE_BYTES = 4096 };

/*
 * llvm-profgen takes an address for one of the image by the mapping's own offset: of ELF the file
 * offset of the first executable segment, of PE the RVA of the first code section at the base.
 */
void export_perf_mapping(const symbols *s, out *o)
{
    const symbols_info *info = symbols_get_info(s);
    const code_image *image = symbols_code(s);
    uint64_t addr = image->base_addr, size = PAGE_BYTES, offset = 0;
    for (size_t i = 0; i < image->segment_count; i++) {
        const code_segment *segment = &image->segments[i];
        if (!segment->is_executable)
            continue;
        uint64_t end = segment->rva + (uint64_t)segment->bytes.len;
        if (info->is_pe) {
            offset = offset ? offset : segment->rva;
            size = end;
        } else {
            offset = info->text_off;
            addr = image->base_addr + info->text_rva;
            size = end - info->text_rva;
            break;
        }
    }
    out_printf(
        o, "PERF_RECORD_MMAP2 1/1: [0x%" PRIx64 "(0x%" PRIx64 ") @ 0x%" PRIx64 " 00:00 0 0]: r-xp ",
        addr, size, offset);
    out_name(o, text_str(info->image_path));
    out_bytes(o, "\n", 1);
}

static void put_addr(uint64_t base, uint32_t rva, out *o)
{
    out_hex(o, rva == SPGO_SPT_OUTSIDE ? 0 : base + rva);
}

/* Hits, then the address that was reached last and the branches. */
static void put_record(const spgo_spt_record *r, uint64_t hits, uint64_t base, out *o)
{
    out_u64(o, hits);
    out_bytes(o, "\n", 1);
    put_addr(base, spgo_spt_arc_to(r, 0), o);
    for (unsigned i = 0; i < r->entry_count; i++) {
        out_bytes(o, " 0x", 3);
        put_addr(base, spgo_spt_arc_from(r, i), o);
        out_bytes(o, "/0x", 3);
        put_addr(base, spgo_spt_arc_to(r, i), o);
        out_bytes(o, "/P/-/-/0", 8);
    }
    out_bytes(o, "\n", 1);
}

spgo_code export_perf_records(const spgo_spt *spt, uint16_t program, uint64_t weight,
                              const symbols *s, out *o, spgo_error *err)
{
    const uint64_t base = symbols_code(s)->base_addr;
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_code first = SPGO_OK;
    for (;;) {
        spgo_spt_record r;
        spgo_error met;
        spgo_code code = spgo_spt_next(&c, &r, &met);
        if (code == SPGO_NOT_FOUND)
            return first;
        if (code != SPGO_OK) {
            if (first == SPGO_OK && err)
                *err = met;
            first = first == SPGO_OK ? code : first;
            continue;
        }
        if (r.program == program && r.opcode == SPGO_SPT_LBR && r.entry_count > 0)
            put_record(&r, saturating_multiply(r.hits, weight), base, o);
    }
}
