/*
 * Real images against what another reader says of them: its text is made again from what ours
 * reads, and must be the same to the last byte. Skipped without the data.
 */
#include "test_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <base/bytes.h>
#include <base/guid.h>
#include <base/out.h>
#include <format/pe/pe.h>

/* ------------------------------------------------------------------ the other reader's text */

typedef struct flag_name {
    const char *name;
    uint32_t value;
} flag_name;

/* Sorted by name, as they are shown. */
static const flag_name file_flags[] = {{"IMAGE_FILE_32BIT_MACHINE", 0x100},
                                       {"IMAGE_FILE_EXECUTABLE_IMAGE", PE_FILE_EXECUTABLE_IMAGE},
                                       {"IMAGE_FILE_LARGE_ADDRESS_AWARE", 0x20},
                                       {NULL, 0}};
static const flag_name dll_flags[] = {{"IMAGE_DLL_CHARACTERISTICS_DYNAMIC_BASE", 0x40},
                                      {"IMAGE_DLL_CHARACTERISTICS_HIGH_ENTROPY_VA", 0x20},
                                      {"IMAGE_DLL_CHARACTERISTICS_NX_COMPAT", 0x100},
                                      {"IMAGE_DLL_CHARACTERISTICS_TERMINAL_SERVER_AWARE", 0x8000},
                                      {NULL, 0}};
static const flag_name section_flags[] = {
    {"IMAGE_SCN_CNT_CODE", PE_SECTION_CODE},
    {"IMAGE_SCN_CNT_INITIALIZED_DATA", PE_SECTION_INITIALIZED_DATA},
    {"IMAGE_SCN_MEM_DISCARDABLE", PE_SECTION_DISCARDABLE},
    {"IMAGE_SCN_MEM_EXECUTE", PE_SECTION_EXECUTE},
    {"IMAGE_SCN_MEM_READ", PE_SECTION_READ},
    {"IMAGE_SCN_MEM_WRITE", PE_SECTION_WRITE},
    {NULL, 0}};

static void put_flags(out *o, const char *indent, uint32_t value, const flag_name *names)
{
    out_printf(o, "%sCharacteristics [ (0x%" PRIX32 ")\n", indent, value);
    for (; names->name; names++) {
        if (value & names->value)
            out_printf(o, "%s  %s (0x%" PRIX32 ")\n", indent, names->name, names->value);
    }
    out_printf(o, "%s]\n", indent);
}

static void put_time(out *o, const char *indent, uint32_t time_stamp)
{
    char text[32];
    time_t t = (time_t)time_stamp;
    struct tm *utc = gmtime(&t);
    assert_non_null(utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", utc);
    out_printf(o, "%sTimeDateStamp: %s (0x%" PRIX32 ")\n", indent, text, time_stamp);
}

static void put_title(out *o, const char *name, const pe_image *image)
{
    bool is_x64 = image->machine == PE_MACHINE_AMD64;
    out_printf(o, "\nFile: %s.exe\nFormat: COFF-%s\nArch: %s\nAddressSize: %ubit\n", name,
               is_x64 ? "x86-64" : "i386", is_x64 ? "x86_64" : "i386", is_x64 ? 64u : 32u);
}

static void put_file_header(out *o, const pe_image *image)
{
    out_printf(o, "ImageFileHeader {\n  Machine: IMAGE_FILE_MACHINE_%s (0x%X)\n",
               pe_machine_name(image->machine), image->machine);
    out_printf(o, "  SectionCount: %zu\n", image->section_count);
    put_time(o, "  ", image->time_date_stamp);
    out_printf(o, "  PointerToSymbolTable: 0x%" PRIX32 "\n  SymbolCount: %" PRIu32 "\n",
               image->symbol_table_off, image->symbol_count);
    out_printf(o, "  StringTableSize: %zu\n  OptionalHeaderSize: %u\n", image->strings.len,
               image->optional_header_size);
    put_flags(o, "  ", image->characteristics, file_flags);
    out_text(o, "}\n");
}

static void put_directories(out *o, const pe_image *image)
{
    static const char *const names[PE_DIRECTORY_MAX] = {"ExportTable",
                                                        "ImportTable",
                                                        "ResourceTable",
                                                        "ExceptionTable",
                                                        "CertificateTable",
                                                        "BaseRelocationTable",
                                                        "Debug",
                                                        "Architecture",
                                                        "GlobalPtr",
                                                        "TLSTable",
                                                        "LoadConfigTable",
                                                        "BoundImport",
                                                        "IAT",
                                                        "DelayImportDescriptor",
                                                        "CLRRuntimeHeader",
                                                        "Reserved"};
    out_printf(o, "  NumberOfRvaAndSize: %" PRIu32 "\n  DataDirectory {\n",
               image->directory_count_stated);
    for (size_t i = 0; i < image->directory_count; i++)
        out_printf(o, "    %sRVA: 0x%" PRIX32 "\n    %sSize: 0x%" PRIX32 "\n", names[i],
                   image->directories[i].rva, names[i], image->directories[i].size_bytes);
    out_text(o, "  }\n");
}

static void put_version(out *o, const char *name, pe_version v)
{
    out_printf(o, "  Major%sVersion: %u\n  Minor%sVersion: %u\n", name, v.major, name, v.minor);
}

static void put_optional_header(out *o, const pe_image *image)
{
    out_printf(o, "ImageOptionalHeader {\n  Magic: 0x%X\n", image->is_64bit ? 0x20b : 0x10b);
    put_version(o, "Linker", image->linker);
    out_printf(o, "  SizeOfCode: %" PRIu32 "\n  SizeOfInitializedData: %" PRIu32 "\n",
               image->code_size, image->initialized_data_size);
    out_printf(o, "  SizeOfUninitializedData: %" PRIu32 "\n  AddressOfEntryPoint: 0x%" PRIX32 "\n",
               image->uninitialized_data_size, image->entry_rva);
    out_printf(o, "  BaseOfCode: 0x%" PRIX32 "\n", image->code_rva);
    if (!image->is_64bit)
        out_printf(o, "  BaseOfData: 0x%" PRIX32 "\n", image->data_rva);
    out_printf(o, "  ImageBase: 0x%" PRIX64 "\n", image->image_base);
    out_printf(o, "  SectionAlignment: %" PRIu32 "\n  FileAlignment: %" PRIu32 "\n",
               image->section_alignment, image->file_alignment);
    put_version(o, "OperatingSystem", image->operating_system);
    put_version(o, "Image", image->image_version);
    put_version(o, "Subsystem", image->subsystem_version);
    out_printf(o, "  SizeOfImage: %" PRIu32 "\n  SizeOfHeaders: %" PRIu32 "\n",
               image->size_of_image, image->size_of_headers);
    out_printf(o, "  CheckSum: 0x%" PRIX32 "\n  Subsystem: IMAGE_SUBSYSTEM_%s (0x%X)\n",
               image->checksum, pe_subsystem_name(image->subsystem), image->subsystem);
    put_flags(o, "  ", image->dll_characteristics, dll_flags);
    out_printf(o, "  SizeOfStackReserve: %" PRIu64 "\n  SizeOfStackCommit: %" PRIu64 "\n",
               image->stack_reserve_size, image->stack_commit_size);
    out_printf(o, "  SizeOfHeapReserve: %" PRIu64 "\n  SizeOfHeapCommit: %" PRIu64 "\n",
               image->heap_reserve_size, image->heap_commit_size);
    put_directories(o, image);
    out_text(o, "}\n");
}

/* Only its last field means something to a PE reader; the rest comes from the bytes. */
static void put_dos_header(out *o, const pe_image *image)
{
    static const struct {
        const char *name;
        unsigned off;
    } words[] = {{"UsedBytesInTheLastPage", 2},
                 {"FileSizeInPages", 4},
                 {"NumberOfRelocationItems", 6},
                 {"HeaderSizeInParagraphs", 8},
                 {"MinimumExtraParagraphs", 10},
                 {"MaximumExtraParagraphs", 12},
                 {"InitialRelativeSS", 14},
                 {"InitialSP", 16},
                 {"Checksum", 18},
                 {"InitialIP", 20},
                 {"InitialRelativeCS", 22},
                 {"AddressOfRelocationTable", 24},
                 {"OverlayNumber", 26},
                 {"OEMid", 36},
                 {"OEMinfo", 38}};
    out_text(o, "DOSHeader {\n  Magic: MZ\n");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        out_printf(o, "  %s: %u\n", words[i].name, load_u16(image->bytes.ptr + words[i].off));
    out_printf(o, "  AddressOfNewExeHeader: %" PRIu64 "\n}\n", image->header_off);
}

static void put_sections(out *o, const pe_image *image)
{
    out_text(o, "Sections [\n");
    for (size_t i = 0; i < image->section_count; i++) {
        pe_section s = pe_section_at(image, i);
        out_printf(o, "  Section {\n    Number: %zu\n    Name: ", i + 1);
        out_str(o, s.name);
        for (size_t k = 0; k < s.short_name.len; k++)
            out_printf(o, "%s%02X", k ? " " : " (", s.short_name.ptr[k]);
        out_printf(o, ")\n    VirtualSize: 0x%" PRIX32 "\n    VirtualAddress: 0x%" PRIX32 "\n",
                   s.virtual_size, s.rva);
        out_printf(o, "    RawDataSize: %" PRIu32 "\n    PointerToRawData: 0x%" PRIX32 "\n",
                   s.raw_size, s.raw_off);
        out_printf(o,
                   "    PointerToRelocations: 0x%" PRIX32 "\n    PointerToLineNumbers: 0x%" PRIX32
                   "\n    RelocationCount: %u\n    LineNumberCount: %u\n",
                   s.relocations_off, s.line_numbers_off, s.relocation_count, s.line_number_count);
        put_flags(o, "    ", s.flags, section_flags);
        out_text(o, "  }\n");
    }
    out_text(o, "]\n");
}

/* ------------------------------------------------------------------ debug directory */

static void put_raw_data(out *o, spgo_span data)
{
    out_text(o, "    RawData (\n");
    for (size_t at = 0; at < data.len; at += 16) {
        size_t n = data.len - at < 16 ? data.len - at : 16;
        out_printf(o, "      %04zX:", at);
        for (size_t i = 0; i < 16; i++) {
            out_text(o, i % 4 == 0 ? " " : "");
            if (i < n)
                out_printf(o, "%02X", data.ptr[at + i]);
            else
                out_text(o, "  ");
        }
        out_text(o, "  |");
        for (size_t i = 0; i < n; i++) {
            uint8_t c = data.ptr[at + i];
            out_printf(o, "%c", c >= 0x20 && c < 0x7f ? c : '.');
        }
        out_text(o, "|\n");
    }
    out_text(o, "    )\n");
}

static void put_debug_row(out *o, const pe_debug *d)
{
    /* Two types have another name there. */
    const char *name = d->type == 12 ? "VCFeature" : pe_debug_type_name(d->type);
    out_printf(o, "  DebugEntry {\n    Characteristics: 0x%" PRIX32 "\n", d->characteristics);
    put_time(o, "    ", d->time_date_stamp);
    out_printf(o, "    MajorVersion: 0x%X\n    MinorVersion: 0x%X\n", d->version.major,
               d->version.minor);
    out_printf(o, "    Type: %s (0x%" PRIX32 ")\n    SizeOfData: 0x%" PRIX32 "\n", name, d->type,
               d->size_bytes);
    out_printf(o, "    AddressOfRawData: 0x%" PRIX32 "\n    PointerToRawData: 0x%" PRIX32 "\n",
               d->data_rva, d->data_off);
    if (d->type == PE_DEBUG_CODEVIEW) {
        pe_codeview cv;
        char guid[GUID_TEXT_SIZE];
        assert_int_equal(pe_codeview_read(d, &cv, NULL), SPGO_OK);
        guid_text(guid, &cv.id.guid);
        out_printf(o, "    PDBInfo {\n      PDBSignature: 0x%" PRIX32 "\n      PDBGUID: %s\n",
                   cv.signature, guid);
        out_printf(o, "      PDBAge: %" PRIu32 "\n      PDBFileName: ", cv.id.age);
        out_str(o, cv.pdb_path);
        out_text(o, "\n    }\n");
    } else if (d->data.len > 0) {
        put_raw_data(o, d->data);
    }
    out_text(o, "  }\n");
}

static void put_debug_directory(out *o, const pe_image *image)
{
    pe_table t;
    assert_int_equal(pe_debug_open(image, &t, NULL), SPGO_OK);
    out_text(o, "DebugDirectory [\n");
    for (size_t i = 0; i < t.count; i++) {
        pe_debug d = pe_debug_at(image, &t, i);
        put_debug_row(o, &d);
    }
    out_text(o, "]\n");
}

/* ------------------------------------------------------------------ unwind */

static void put_unwind_code(out *o, const pe_unwind *u, const pe_unwind_code *c)
{
    const char *name = pe_unwind_op_name(c->op);
    out_printf(o, "        0x%02X: %s ", c->prolog_off, name);
    switch (c->op) {
    case PE_UNWIND_PUSH_NONVOL:
        out_printf(o, "reg=%s\n", pe_x64_register_name(c->info));
        break;
    case PE_UNWIND_ALLOC_LARGE:
    case PE_UNWIND_ALLOC_SMALL:
        out_printf(o, "size=%" PRIu32 "\n", c->value);
        break;
    case PE_UNWIND_SET_FPREG:
        out_printf(o, "reg=%s, offset=0x%" PRIX32 "\n", pe_x64_register_name(u->frame_register),
                   c->value);
        break;
    case PE_UNWIND_SAVE_NONVOL:
        out_printf(o, "reg=%s, offset=0x%" PRIX32 "\n", pe_x64_register_name(c->info), c->value);
        break;
    case PE_UNWIND_SAVE_XMM128:
        out_printf(o, "reg=XMM%u, offset=0x%" PRIX32 "\n", c->info, c->value);
        break;
    default:
        out_text(o, "?\n");
    }
}

static void put_unwind_info(out *o, const pe_image *image, const pe_unwind *u)
{
    size_t slot = 0;
    pe_unwind_code c;
    out_printf(o, "    UnwindInfo {\n      Version: %u\n      Flags [ (0x%X)\n", u->version,
               u->flags);
    if (u->flags & PE_UNWIND_EXCEPTION_HANDLER)
        out_text(o, "        ExceptionHandler (0x1)\n");
    if (u->flags & PE_UNWIND_TERMINATE_HANDLER)
        out_text(o, "        TerminateHandler (0x2)\n");
    out_printf(o, "      ]\n      PrologSize: %u\n", u->prolog_size);
    if (u->frame_register)
        out_printf(o, "      FrameRegister: %s (0x%X)\n      FrameOffset: 0x%X\n",
                   pe_x64_register_name(u->frame_register), u->frame_register, u->frame_offset);
    else
        out_text(o, "      FrameRegister: -\n      FrameOffset: -\n");
    out_printf(o, "      UnwindCodeCount: %u\n      UnwindCodes [\n", u->code_count);
    while (pe_unwind_code_next(u, &slot, &c))
        put_unwind_code(o, u, &c);
    assert_int_equal(slot, u->code_count);
    out_text(o, "      ]\n");
    if (u->flags & (PE_UNWIND_EXCEPTION_HANDLER | PE_UNWIND_TERMINATE_HANDLER))
        out_printf(o, "      Handler: (0x%" PRIX64 ")\n", image->image_base + u->handler_rva);
    out_text(o, "    }\n");
}

/*
 * An incremental link leaves room behind the rows: zeros up to the section's end, which the
 * directory leaves out. The other reader takes the section instead, and shows such fields by their
 * offsets in it.
 */
static void put_room_for_functions(out *o, const pe_image *image, const pe_table *t)
{
    pe_section s;
    assert_true(pe_section_find(image, ".pdata", &s));
    spgo_span all = pe_section_data(image, &s);
    for (size_t at = t->count * t->row_size; at + t->row_size <= all.len; at += t->row_size) {
        pe_table rest = {.bytes = {all.ptr + at, t->row_size}, .row_size = t->row_size, .count = 1};
        pe_runtime_function f = pe_x64_function_at(&rest, 0);
        assert_true(f.begin_rva == 0 && f.end_rva == 0 && f.unwind_rva == 0);
        out_printf(o,
                   "  RuntimeFunction {\n    StartAddress: (0x%zX)\n    EndAddress: (0x%zX)\n"
                   "    UnwindInfoAddress: (0x%zX)\n  }\n",
                   at, at + 4, at + 8);
    }
}

static void put_functions(out *o, const pe_image *image)
{
    pe_table t;
    assert_int_equal(pe_functions_open(image, &t, NULL), SPGO_OK);
    for (size_t i = 0; i < t.count; i++) {
        pe_runtime_function f = pe_x64_function_at(&t, i);
        pe_unwind u;
        assert_int_equal(pe_unwind_read(image, f.unwind_rva, &u, NULL), SPGO_OK);
        out_printf(o, "  RuntimeFunction {\n    StartAddress: (0x%" PRIX64 ")\n",
                   image->image_base + f.begin_rva);
        out_printf(o, "    EndAddress: (0x%" PRIX64 ")\n    UnwindInfoAddress: (0x%" PRIX64 ")\n",
                   image->image_base + f.end_rva, image->image_base + f.unwind_rva);
        put_unwind_info(o, image, &u);
        out_text(o, "  }\n");
    }
    put_room_for_functions(o, image, &t);
}

static void put_unwind(out *o, const pe_image *image)
{
    out_text(o, "UnwindInformation [\n");
    if (image->machine == PE_MACHINE_I386)
        out_printf(o, "  unsupported Image Machine: IMAGE_FILE_MACHINE_%s (0x%X)\n",
                   pe_machine_name(image->machine), image->machine);
    else
        put_functions(o, image);
    out_text(o, "]\n");
}

/* ------------------------------------------------------------------ comparison */

typedef struct opened {
    spgo_span file;
    pe_image image;
} opened;

static opened open_image(const char *name)
{
    char path[160];
    opened f;
    snprintf(path, sizeof path, "pdb/%s", name);
    f.file = test_data_or_skip(path);
    assert_true(pe_sniff(f.file));
    assert_int_equal(pe_open(f.file, PE_LAYOUT_FILE, &f.image, NULL), SPGO_OK);
    return f;
}

static void expect_text(spgo_span actual, spgo_span expected, const char *path)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < actual.len && i < expected.len; i++) {
        if (actual.ptr[i] != expected.ptr[i])
            fail_msg("%s:%zu: \"%.*s\" instead", path, line, (int)(i + 20 - start),
                     (const char *)actual.ptr + start);
        if (actual.ptr[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    assert_int_equal(actual.len, expected.len);
}

static const char *const golden_names[] = {"bp_regtest64", "bs_x64_rust158",
                                           "bs_x64_vs2022_incremental", "sym_crash"};
enum { GOLDEN_COUNT = sizeof golden_names / sizeof *golden_names };

static void compare(const char *name, const char *kind)
{
    char path[96];
    bytes b = {0};
    out o;
    snprintf(path, sizeof path, "%s.exe", name);
    opened f = open_image(path);
    snprintf(path, sizeof path, "pdb/golden/%s.%s.txt", name, kind);
    spgo_span expected = test_data_or_skip(path);
    assert_int_equal(out_init(&o, bytes_sink(&b), NULL), SPGO_OK);
    put_title(&o, name, &f.image);
    if (strcmp(kind, "pe") == 0) {
        put_file_header(&o, &f.image);
        put_optional_header(&o, &f.image);
        put_dos_header(&o, &f.image);
        put_sections(&o, &f.image);
        put_debug_directory(&o, &f.image);
    } else {
        put_unwind(&o, &f.image);
    }
    assert_true(out_flush(&o));
    expect_text(bytes_span(&b), expected, path);
    out_free(&o);
    bytes_free(&b);
    test_data_free(expected);
    test_data_free(f.file);
}

static void test_headers_and_debug_directories(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++)
        compare(golden_names[i], "pe");
}

static void test_unwind_information(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++)
        compare(golden_names[i], "unwind");
}

/* ------------------------------------------------------------------ single facts */

static void test_a_chain_that_loops(void **state)
{
    (void)state;
    opened f = open_image("sym_cfi_chained_loop.exe");
    pe_table t;
    pe_runtime_function row, primary;
    spgo_error err;
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(t.count, 1);
    row = pe_x64_function_at(&t, 0);
    assert_int_equal(pe_x64_primary(&f.image, &row, &primary, &err), SPGO_CORRUPT);
    assert_int_equal(err.offset, 0x300);
    test_data_free(f.file);
}

static const pe_function *function_at(const pe_extents *e, uint32_t rva, pe_function *f)
{
    size_t at = 0;
    while (pe_function_next(e, &at, f)) {
        if (f->rva == rva)
            return f;
    }
    fail_msg("no function at 0x%" PRIx32, rva);
    return NULL;
}

/* Three rows of which two are chained to the first make one function without gaps. */
static void test_chained_pieces_are_one_function(void **state)
{
    (void)state;
    opened f = open_image("bp_pe_only_symbol_test.dll");
    arena *a = arena_new(0);
    pe_extents e;
    pe_function function;
    assert_int_equal(pe_extents_build(&f.image, a, &e, NULL, NULL), SPGO_OK);
    assert_int_equal(e.rows_left_out, 0);
    assert_int_equal(e.rows_alone, 0);
    function_at(&e, 0x1840, &function);
    assert_int_equal(function.piece_count, 1);
    assert_int_equal(function.pieces[0].begin_rva, 0x1840);
    assert_int_equal(function.pieces[0].end_rva, 0x187b);
    size_t at = 0, count = 0;
    while (pe_function_next(&e, &at, &function))
        count++;
    assert_int_equal(count, 106 - 14);
    arena_free(a);
    test_data_free(f.file);
}

/* Another tool's symbol file has a line "STACK CFI INIT rva size" for each row. */
static void test_rows_of_a_symbol_file(void **state)
{
    (void)state;
    static const char key[] = "STACK CFI INIT ";
    opened f = open_image("bp_pe_only_symbol_test.dll");
    spgo_span symbols = test_data_or_skip("pdb/golden/bp_pe_only_symbol_test.breakpad.sym");
    pe_table t;
    size_t row = 0;
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    for (size_t at = 0; at + sizeof key < symbols.len; at++) {
        const char *line = (const char *)symbols.ptr + at;
        if ((at > 0 && line[-1] != '\n') || memcmp(line, key, sizeof key - 1) != 0)
            continue;
        char *end;
        unsigned long begin = strtoul(line + sizeof key - 1, &end, 16);
        unsigned long size = strtoul(end, NULL, 16);
        size_t i = 0;
        while (i < t.count && pe_x64_function_at(&t, i).begin_rva != begin)
            i++;
        assert_true(i < t.count);
        assert_int_equal(pe_x64_function_at(&t, i).end_rva, begin + size);
        row++;
    }
    assert_int_equal(row, t.count);
    test_data_free(symbols);
    test_data_free(f.file);
}

static void test_arm64_functions(void **state)
{
    (void)state;
    opened f = open_image("own/t_arm64.exe");
    pe_table t;
    pe_arm64_function a;
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(t.count, 1);
    assert_int_equal(pe_arm64_function_at(&f.image, &t, 0, &a, NULL), SPGO_OK);
    assert_true(a.is_packed && !a.is_fragment);
    assert_int_equal(a.begin_rva, 0x1130);
    assert_int_equal(a.size_bytes, 144);
    test_data_free(f.file);

    f = open_image("bs_arm64_uwp_vs2019.dll");
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(t.count, 28);
    assert_int_equal(pe_arm64_function_at(&f.image, &t, 3, &a, NULL), SPGO_OK);
    assert_false(a.is_packed);
    assert_int_equal(a.begin_rva, 0x10b0);
    assert_int_equal(a.xdata_rva, 0x24e4);
    assert_int_equal(a.size_bytes, 300);
    assert_true(a.has_handler && !a.has_single_epilog && !a.is_fragment);
    assert_int_equal(a.epilog_count, 1);
    assert_int_equal(a.codes.len, 8);
    assert_int_equal(a.codes.ptr[0], 0xe1);
    test_data_free(f.file);
}

static void test_exports(void **state)
{
    (void)state;
    opened f = open_image("moz_basic64-dwarf.dll");
    pe_exports e;
    assert_int_equal(pe_exports_open(&f.image, &e, NULL), SPGO_OK);
    assert_int_equal(e.names.count, 12);
    assert_int_equal(e.functions.count, 12);
    pe_export x = pe_export_by_name(&e, 2);
    assert_int_equal(x.name.len, strlen("_Z5test1Pi"));
    assert_memory_equal(x.name.ptr, "_Z5test1Pi", x.name.len);
    assert_int_equal(x.ordinal, 3);
    assert_int_equal(x.rva, 0x13a0);
    assert_false(x.is_forwarder);
    test_data_free(f.file);
}

static void test_mingw_symbols_and_dwarf(void **state)
{
    (void)state;
    opened f = open_image("moz_basic64-dwarf.dll");
    pe_symbols symbols;
    pe_symbol symbol;
    size_t found = 0;
    assert_int_equal(f.image.strings.len, 4291);
    assert_int_equal(pe_symbols_open(&f.image, &symbols, NULL), SPGO_OK);
    assert_int_equal(symbols.table.count, 990);
    while (pe_symbols_next(&symbols, &symbol)) {
        if (symbol.name.len == 10 && memcmp(symbol.name.ptr, "_Z5test1Pi", 10) == 0) {
            found++;
            assert_true(symbol.has_rva);
            assert_int_equal(symbol.rva, 0x13a0);
            assert_int_equal(symbol.type >> 4, PE_SYMBOL_FUNCTION);
        }
    }
    assert_int_equal(found, 1);
    pe_section section;
    assert_true(pe_section_find(&f.image, ".debug_info", &section));
    spgo_span dwarf = pe_section_data(&f.image, &section);
    assert_int_equal(dwarf.len, section.virtual_size);
    assert_true(section.virtual_size < section.raw_size);
    /* The first unit's length, and its version. */
    assert_true(load_u32(dwarf.ptr) < dwarf.len);
    assert_in_range(load_u16(dwarf.ptr + 4), 2, 5);
    test_data_free(f.file);
}

/* lld writes a CodeView row of zeros into images with DWARF. */
static void test_no_pdb_beside_dwarf(void **state)
{
    (void)state;
    opened f = open_image("own/t_dwarf.exe");
    pe_codeview cv;
    pe_debug d;
    spgo_span hash;
    assert_true(pe_debug_find(&f.image, PE_DEBUG_CODEVIEW, &d));
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_NOT_FOUND);
    assert_true(pe_repro_hash(&f.image, &hash));
    assert_int_equal(hash.len, 0);
    test_data_free(f.file);
}

static void test_pogo_groups(void **state)
{
    (void)state;
    opened f = open_image("sym_crash.exe");
    pe_debug d;
    pe_pogo_group group, text = {0};
    size_t count = 0;
    assert_true(pe_debug_find(&f.image, PE_DEBUG_POGO, &d));
    pe_pogo p = pe_pogo_open(&d);
    assert_int_equal(p.signature, PE_POGO_LTCG);
    while (pe_pogo_next(&p, &group)) {
        if (count++ == 0)
            text = group;
    }
    assert_int_equal(p.rest.code, SPGO_OK);
    assert_int_equal(count, 33);
    assert_int_equal(text.rva, 0x1000);
    assert_int_equal(text.size_bytes, 0x2800);
    assert_int_equal(text.name.len, 8);
    assert_memory_equal(text.name.ptr, ".text$mn", 8);
    assert_int_equal(group.rva, 0x7060);
    test_data_free(f.file);
}

/* Built as a loader would, the image reads as its file does. */
static void test_mapped_layout(void **state)
{
    (void)state;
    opened f = open_image("bp_regtest64.exe");
    uint8_t *memory = calloc(1, f.image.size_of_image);
    assert_non_null(memory);
    memcpy(memory, f.file.ptr, f.image.size_of_headers);
    for (size_t i = 0; i < f.image.section_count; i++) {
        pe_section s = pe_section_at(&f.image, i);
        spgo_span data = pe_section_data(&f.image, &s);
        memcpy(memory + s.rva, data.ptr, data.len);
    }
    pe_image mapped;
    pe_codeview in_file, in_memory;
    pe_table t, u;
    assert_int_equal(
        pe_open((spgo_span){memory, f.image.size_of_image}, PE_LAYOUT_MAPPED, &mapped, NULL),
        SPGO_OK);
    assert_int_equal(pe_codeview_find(&f.image, &in_file, NULL), SPGO_OK);
    assert_int_equal(pe_codeview_find(&mapped, &in_memory, NULL), SPGO_OK);
    assert_true(image_id_equal(&in_file.id, &in_memory.id));
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(pe_functions_open(&mapped, &u, NULL), SPGO_OK);
    assert_int_equal(t.count, u.count);
    assert_memory_equal(t.bytes.ptr, u.bytes.ptr, t.bytes.len);
    free(memory);
    test_data_free(f.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_and_debug_directories),
        cmocka_unit_test(test_unwind_information),
        cmocka_unit_test(test_a_chain_that_loops),
        cmocka_unit_test(test_chained_pieces_are_one_function),
        cmocka_unit_test(test_rows_of_a_symbol_file),
        cmocka_unit_test(test_arm64_functions),
        cmocka_unit_test(test_exports),
        cmocka_unit_test(test_mingw_symbols_and_dwarf),
        cmocka_unit_test(test_no_pdb_beside_dwarf),
        cmocka_unit_test(test_pogo_groups),
        cmocka_unit_test(test_mapped_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
