/* Images as plain segments: see image.h. */
#include <symbol/image.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>

static const char where[] = "symbol.image";

enum { PROFGEN_PAGE_SIZE = 4096 };

/* ------------------------------------------------------------------ kinds of files */

static spgo_code no_image(spgo_span bytes, spgo_error *err)
{
    const char *what = NULL;
    switch (pdb_sniff(bytes)) {
    case PDB_MSF7:
    case PDB_MSF2:
    case PDB_MSFZ:
        what = "a PDB; give the image (exe, dll, sys) it belongs to, and the PDB as debug file";
        break;
    case PDB_PORTABLE:
        what = "a portable PDB, which describes managed code; give a native image";
        break;
    default:
        break;
    }
    if (bytes.len == 0)
        what = "empty; give an ELF or PE image";
    else if (!what && bytes.len >= 8 && memcmp(bytes.ptr, "!<arch>\n", 8) == 0)
        what = "a library of object files; give the program that was linked with it";
    if (what)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0, "the file is %s", what);
    return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                     "the file is neither an ELF nor a PE image; give the program or library that "
                     "was recorded");
}

static bool pe_id(const pe_image *pe, spgo_image_id *id)
{
    pe_codeview cv;
    if (pe_codeview_find(pe, &cv, NULL) != SPGO_OK || cv.kind != PE_CODEVIEW_RSDS)
        return false;
    *id = cv.id;
    return true;
}

spgo_code image_identify(spgo_span bytes, bool *is_pe, spgo_image_id *id, bool *has_id,
                         spgo_error *err)
{
    *id = (spgo_image_id){0};
    *is_pe = pe_sniff(bytes);
    if (*is_pe) {
        pe_image pe;
        SPGO_TRY(pe_open(bytes, PE_LAYOUT_FILE, &pe, err));
        *has_id = pe_id(&pe, id);
        return SPGO_OK;
    }
    if (!elf_sniff(bytes))
        return no_image(bytes, err);
    elf_image elf;
    SPGO_TRY(elf_read(bytes, &elf, err));
    *has_id = elf.build_id_size > 0;
    *id = elf.id;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ segments */

static int by_rva(const void *a, const void *b)
{
    const code_segment *x = a, *y = b;
    if (x->rva != y->rva)
        return x->rva < y->rva ? -1 : 1;
    /* The longer one first, so that the order does not depend on the sort. */
    return x->bytes.len > y->bytes.len ? -1 : x->bytes.len < y->bytes.len;
}

/* Sorted, and where two overlap, the first one counts: as a loader that maps the second over it
 * would not have it, but such images are made by hand. */
static void put_segments(code_image *code, code_segment *rows, size_t count)
{
    qsort(rows, count, sizeof *rows, by_rva);
    uint64_t end = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        code_segment s = rows[i];
        uint64_t overlap = end > s.rva ? end - s.rva : 0;
        if (overlap >= s.bytes.len)
            continue;
        s.rva += (uint32_t)overlap;
        s.bytes.ptr += overlap;
        s.bytes.len -= (size_t)overlap;
        end = (uint64_t)s.rva + s.bytes.len;
        rows[kept++] = s;
    }
    code->segments = rows;
    code->segment_count = kept;
}

static spgo_span cut(spgo_span bytes, uint32_t rva)
{
    uint64_t room = (uint64_t)UINT32_MAX - rva;
    return (spgo_span){bytes.ptr, bytes.len < room ? bytes.len : (size_t)room};
}

static code_machine elf_machine(const elf_image *elf)
{
    if (elf->is_big_endian)
        return CODE_UNKNOWN;
    switch (elf->machine) {
    case ELF_MACHINE_386:
        return CODE_X86;
    case ELF_MACHINE_X86_64:
        return CODE_X64;
    case ELF_MACHINE_AARCH64:
        return CODE_ARM64;
    default:
        return CODE_UNKNOWN;
    }
}

static spgo_code elf_segments(spgo_span bytes, symbol_image *image, diag *d, spgo_error *err)
{
    const elf_image *elf = &image->elf;
    code_segment *rows = arena_push(image->mem, elf->segment_count, sizeof *rows);
    if (!rows)
        return spgo_fail_nomem(err, where, elf->segment_count * sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < elf->segment_count; i++) {
        const elf_segment *s = &elf->segments[i];
        if (s->offset >= bytes.len || s->file_size == 0)
            continue;
        if (s->vaddr < elf->base_vaddr || s->vaddr - elf->base_vaddr >= UINT32_MAX) {
            diag_add(d, SPGO_LIMIT, s->offset,
                     "the segment at address 0x%" PRIx64 " is out of reach of a 32-bit RVA from "
                     "0x%" PRIx64 "; it is left out",
                     s->vaddr, elf->base_vaddr);
            continue;
        }
        uint64_t left = bytes.len - s->offset;
        spgo_span data = {bytes.ptr + s->offset,
                          (size_t)(s->file_size < left ? s->file_size : left)};
        uint32_t rva = (uint32_t)(s->vaddr - elf->base_vaddr);
        rows[count++] = (code_segment){
            .rva = rva, .bytes = cut(data, rva), .is_executable = s->flags & ELF_SEGMENT_EXECUTE};
    }
    if (elf->segments_left_out > 0)
        diag_add(d, SPGO_LIMIT, SPGO_NO_OFFSET, "%zu segments beyond %d are left out",
                 elf->segments_left_out, ELF_SEGMENT_MAX);
    image->code = (code_image){.machine = elf_machine(elf), .base_addr = elf->base_vaddr};
    put_segments(&image->code, rows, count);
    return SPGO_OK;
}

/* Where llvm-profgen's offsets count from, as an RVA and in the file: of the program headers in
 * their order, the first executable one. Without one both stay 0. */
static void find_elf_text(const elf_image *elf, symbols_info *info)
{
    for (size_t i = 0; i < elf->segment_count; i++) {
        const elf_segment *s = &elf->segments[i];
        if (!(s->flags & ELF_SEGMENT_EXECUTE))
            continue;
        uint64_t page = s->vaddr & ~(uint64_t)(PROFGEN_PAGE_SIZE - 1);
        if (page < elf->base_vaddr || page - elf->base_vaddr > UINT32_MAX)
            return;
        info->text_rva = (uint32_t)(page - elf->base_vaddr);
        info->text_off = s->offset & ~(uint64_t)(PROFGEN_PAGE_SIZE - 1);
        return;
    }
}

static code_machine pe_machine(const pe_image *pe)
{
    switch (pe->machine) {
    case PE_MACHINE_I386:
        return CODE_X86;
    case PE_MACHINE_AMD64:
        return CODE_X64;
    case PE_MACHINE_ARM64:
        return CODE_ARM64;
    default:
        return CODE_UNKNOWN;
    }
}

static spgo_code pe_segments(symbol_image *image, spgo_error *err)
{
    const pe_image *pe = &image->pe;
    code_segment *rows = arena_push(image->mem, pe->section_count, sizeof *rows);
    if (!rows)
        return spgo_fail_nomem(err, where, pe->section_count * sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < pe->section_count; i++) {
        pe_section s = pe_section_at(pe, i);
        spgo_span data = cut(pe_section_data(pe, &s), s.rva);
        if (data.len == 0)
            continue;
        rows[count++] = (code_segment){
            .rva = s.rva, .bytes = data, .is_executable = s.flags & PE_SECTION_EXECUTE};
    }
    image->code = (code_image){.machine = pe_machine(pe), .base_addr = pe->image_base};
    put_segments(&image->code, rows, count);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ what speaks of profiles */

/* A whole text of a table of NUL-terminated ones? Faster than to look at each symbol, and a name in
 * the table is there because a symbol has it. */
static bool has_text(spgo_span table, const char *text)
{
    size_t size = strlen(text) + 1;
    const uint8_t *p = table.ptr;
    for (size_t left = table.len; left >= size;) {
        if (*p == (uint8_t)*text && memcmp(p, text, size) == 0)
            return true;
        const uint8_t *end = memchr(p, 0, left);
        if (!end)
            break;
        left -= (size_t)(end + 1 - p);
        p = end + 1;
    }
    return false;
}

static const char fs_symbol[] = "__llvm_fs_discriminator__";

static spgo_span elf_section_bytes(const elf_sections *s, const char *name)
{
    elf_section section;
    return elf_section_find(s, name, &section) ? section.data : (spgo_span){0};
}

static void read_elf_sections(spgo_span bytes, symbols_info *info)
{
    elf_sections s;
    if (elf_sections_open(bytes, &s, NULL) != SPGO_OK)
        return;
    if (info->probe_section.len == 0)
        info->probe_section = elf_section_bytes(&s, ".pseudo_probe");
    if (info->probe_desc_section.len == 0)
        info->probe_desc_section = elf_section_bytes(&s, ".pseudo_probe_desc");
    elf_symbols table;
    if (!info->has_fs_discriminators &&
        elf_symbols_open(&s, ELF_SECTION_TYPE_SYMBOLS, &table, NULL) == SPGO_OK)
        info->has_fs_discriminators = has_text(table.names, fs_symbol);
}

static void read_pe_sections(const pe_image *pe, symbols_info *info)
{
    pe_section section;
    if (pe_section_find(pe, ".pseudo_probe", &section))
        info->probe_section = pe_section_data(pe, &section);
    if (pe_section_find(pe, ".pseudo_probe_desc", &section))
        info->probe_desc_section = pe_section_data(pe, &section);
    info->has_fs_discriminators = has_text(pe->strings, fs_symbol);
}

bool image_has_dwarf(const symbol_image *image)
{
    pe_section section;
    if (image->is_pe)
        return pe_section_find(&image->pe, ".debug_info", &section);
    const spgo_span files[] = {image->bytes, image->debug};
    for (size_t i = 0; i < 2; i++) {
        elf_sections s;
        if (!elf_sniff(files[i]) || elf_sections_open(files[i], &s, NULL) != SPGO_OK)
            continue;
        if (elf_section_bytes(&s, ".debug_info").len > 0 ||
            elf_section_bytes(&s, ".zdebug_info").len > 0)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ both */

static spgo_code read_elf(spgo_span bytes, symbol_image *out, symbols_info *info, diag *d,
                          spgo_error *err)
{
    SPGO_TRY(elf_read(bytes, &out->elf, err));
    if (out->elf.type == ELF_TYPE_REL || out->elf.type == ELF_TYPE_CORE)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 16,
                         "the file is %s; give the program or library that was recorded",
                         out->elf.type == ELF_TYPE_REL ? "an object file that is not linked yet"
                                                       : "a core dump");
    info->has_id = out->elf.build_id_size > 0;
    info->id = out->elf.id;
    find_elf_text(&out->elf, info);
    read_elf_sections(bytes, info);
    return elf_segments(bytes, out, d, err);
}

static spgo_code read_pe(spgo_span bytes, symbol_image *out, symbols_info *info, diag *d,
                         spgo_error *err)
{
    SPGO_TRY(pe_open(bytes, PE_LAYOUT_FILE, &out->pe, err));
    out->is_pe = info->is_pe = true;
    info->has_id = pe_id(&out->pe, &info->id);
    read_pe_sections(&out->pe, info);
    pe_hybrid hybrid;
    if (pe_hybrid_read(&out->pe, &hybrid, NULL) == SPGO_OK && hybrid.metadata_rva != 0)
        diag_add(d, SPGO_UNSUPPORTED, SPGO_NO_OFFSET,
                 "the image holds code of more than one machine (ARM64EC, ARM64X or x86 on ARM64); "
                 "only that of %s is decoded",
                 code_machine_name(pe_machine(&out->pe)));
    return pe_segments(out, err);
}

spgo_code image_read(spgo_span bytes, symbol_image *out, symbols_info *info, diag *d,
                     spgo_error *err)
{
    out->bytes = bytes;
    if (pe_sniff(bytes))
        return read_pe(bytes, out, info, d, err);
    if (elf_sniff(bytes))
        return read_elf(bytes, out, info, d, err);
    return no_image(bytes, err);
}

void image_add_debug(symbol_image *image, spgo_span debug, symbols_info *info)
{
    image->debug = debug;
    if (elf_sniff(debug) && elf_read(debug, &image->debug_elf, NULL) == SPGO_OK)
        read_elf_sections(debug, info);
}
