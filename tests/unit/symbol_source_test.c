/* Declarations found in source text, and the files that are looked into for them. */
#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/sha256.h>
#include <base/text.h>
#include <os/file.h>
#include <symbol/source_lines.h>

static uint32_t find(const char *text, const char *name, uint32_t first_line)
{
    return source_text_find(text_str(text), false, text_str(name), first_line);
}

static uint32_t find_rust(const char *text, const char *name, uint32_t first_line)
{
    return source_text_find(text_str(text), true, text_str(name), first_line);
}

/* ------------------------------------------------------------------ text */

static void the_line_of_the_name(void **state)
{
    (void)state;
    const char *text = "int g;\n"
                       "static inline\n"
                       "int\n"
                       "foo(\n"
                       "    int x,\n"
                       "    int y)\n"
                       "{\n"
                       "    if (x > y)\n"
                       "        return x;\n"
                       "    return y;\n"
                       "}\n";
    assert_int_equal(find(text, "foo", 7), 4);
    assert_int_equal(find(text, "foo", 10), 4);
    assert_int_equal(find(text, "bar", 8), 0);
    assert_int_equal(find(text, "foo", 3), 0);
}

static void lines_outside_of_the_text(void **state)
{
    (void)state;
    assert_int_equal(find("int f() { return 1; }", "f", 1), 1);
    assert_int_equal(find("int f() { return 1; }", "f", 0), 0);
    assert_int_equal(find("int f() { return 1; }", "f", 2), 0);
    assert_int_equal(find("", "f", 1), 0);
}

/* A call of itself, a declaration, and another function of this name are not it. */
static void calls_are_no_declarations(void **state)
{
    (void)state;
    const char *text = "int f(int);\n"
                       "int f(int n)\n"
                       "{\n"
                       "    while (f(n - 1)) {\n"
                       "        n = f(n) + 1;\n"
                       "    }\n"
                       "    return f(n);\n"
                       "}\n"
                       "int g() { return f(1); }\n";
    assert_int_equal(find(text, "f", 5), 2);
    assert_int_equal(find(text, "f", 7), 2);
    assert_int_equal(find(text, "f", 9), 0);
    assert_int_equal(find(text, "g", 9), 9);
}

static void of_overloads_the_one_that_is_open(void **state)
{
    (void)state;
    const char *text = "int f(int a) {\n"
                       "    return a;\n"
                       "}\n"
                       "int f(char a) {\n"
                       "    return a;\n"
                       "}\n";
    assert_int_equal(find(text, "f", 2), 1);
    assert_int_equal(find(text, "f", 5), 4);
}

static void comments_strings_and_directives_do_not_count(void **state)
{
    (void)state;
    const char *text = "int f(int a)\n"
                       "{\n"
                       "    // f(x) {\n"
                       "    /* f(x) { */ const char *s = \"} f(x) {\\\"\";\n"
                       "#define f(x) { \\\n"
                       "    f(x) {\n"
                       "    char c = '}', d = '\\'', e = '\"';\n"
                       "    s = R\"x(} f() {)x\";\n"
                       "    long n = 1'000'000;\n"
                       "    return a;\n"
                       "}\n";
    assert_int_equal(find(text, "f", 10), 1);
}

static void members_and_their_parts(void **state)
{
    (void)state;
    const char *text = "struct A {\n"
                       "    A(int n)\n"
                       "        : a(n), b{n}, c<int>{n, n}\n"
                       "    {\n"
                       "        a = 1;\n"
                       "    }\n"
                       "    ~A() { a = 0; }\n"
                       "    auto get() const noexcept(true)\n"
                       "        -> std::vector<int>\n"
                       "    {\n"
                       "        return {};\n"
                       "    }\n"
                       "    bool operator==(const A &o) const { return a == o.a; }\n"
                       "    int operator ()(int x) { return x; }\n"
                       "    void *operator new[](size_t n) { return 0; }\n"
                       "};\n"
                       "void\n"
                       "A::put(int x) &&\n"
                       "{\n"
                       "}\n";
    assert_int_equal(find(text, "ns::A::A", 5), 2);
    assert_int_equal(find(text, "ns::A::A", 4), 2);
    assert_int_equal(find(text, "ns::A::~A", 7), 7);
    assert_int_equal(find(text, "ns::A::get", 11), 8);
    assert_int_equal(find(text, "ns::A::operator==", 13), 13);
    assert_int_equal(find(text, "ns::A::operator()", 14), 14);
    assert_int_equal(find(text, "ns::A::operator new[]", 15), 15);
    assert_int_equal(find(text, "ns::A::put", 19), 18);
    assert_int_equal(find(text, "ns::A::operator=", 13), 0);
}

static void template_arguments_are_left_out(void **state)
{
    (void)state;
    const char *text = "template <class T>\n"
                       "T largest(T a, T b)\n"
                       "{\n"
                       "    return a > b ? a : b;\n"
                       "}\n"
                       "template <>\n"
                       "int largest<int>(int a, int b)\n"
                       "{\n"
                       "    return a;\n"
                       "}\n";
    assert_int_equal(find(text, "ns::largest<std::map<int,char> >", 4), 2);
    assert_int_equal(find(text, "ns::largest<int>", 9), 7);
}

static void what_compilers_make_is_not_looked_for(void **state)
{
    (void)state;
    const char *text = "int f() { return 1; }\n";
    assert_int_equal(find(text, "`anonymous namespace'::f", 1), 1);
    assert_int_equal(find(text, "A::`scalar deleting destructor'", 1), 0);
    assert_int_equal(find(text, "f::closure$0", 1), 0);
    assert_int_equal(find(text, "", 1), 0);
    assert_int_equal(find(text, "f::", 1), 0);
}

static void both_branches_of_a_condition(void **state)
{
    (void)state;
    const char *text = "int f(int a)\n"
                       "{\n"
                       "#if A\n"
                       "    if (a) {\n"
                       "#else\n"
                       "    if (!a) {\n"
                       "#endif\n"
                       "        a = 2;\n"
                       "    }\n"
                       "    return a;\n"
                       "}\n";
    assert_int_equal(find(text, "f", 8), 1);
    assert_int_equal(find(text, "f", 10), 1);
}

static void rust(void **state)
{
    (void)state;
    const char *text = "impl<'a> A<'a> {\n"
                       "    #[inline]\n"
                       "    pub fn get<T: Into<u8>>(&'a self, c: char) -> Option<T>\n"
                       "    where\n"
                       "        T: Iterator<Item = u8>, u8: Copy,\n"
                       "    {\n"
                       "        /* /* } */ } */ let s = r#\"}\"\"#;\n"
                       "        if get(c) { return None; }\n"
                       "        let q = '}';\n"
                       "        done()\n"
                       "    }\n"
                       "}\n";
    assert_int_equal(find_rust(text, "m::impl$3::get<u8>", 8), 3);
    assert_int_equal(find_rust(text, "m::impl$3::get<u8>", 10), 3);
    assert_int_equal(find_rust(text, "m::done", 10), 0);
}

static void last_parts_of_names(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"f", "f", ""},
        {"a::b<c::d>::e<f>", "e", "a::b<c::d>"},
        {"A::operator<", "operator<", "A"},
        {"A::operator>>", "operator>>", "A"},
        {"A::operator->", "operator->", "A"},
        {"operator new", "operator new", ""},
        {"my_operator", "my_operator", ""},
        {"A<(B::c)1>::~A<(B::c)1>", "~A", "A<(B::c)1>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spgo_str rest = text_str(cases[i][0]), last = source_name_last(&rest);
        if (!text_equal(last, text_str(cases[i][1])) || !text_equal(rest, text_str(cases[i][2])))
            fail_msg("%s: %.*s and %.*s", cases[i][0], (int)last.len, last.ptr, (int)rest.len,
                     rest.ptr);
    }
}

/* ------------------------------------------------------------------ files */

static const char text_of_file[] = "int f()\n{\n    return 1;\n}\n";

static void write_file(const char *path)
{
    os_output *out;
    assert_int_equal(os_output_open(path, &out, NULL), SPGO_OK);
    spgo_sink sink = os_output_sink(out);
    assert_true(sink.write(sink.ctx, text_of_file, strlen(text_of_file)));
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
}

static const char file_name[] = "symbol_source_test.tmp.c";

static int make_source(void **state)
{
    (void)state;
    write_file(file_name);
    return 0;
}

static int remove_source(void **state)
{
    (void)state;
    return remove(file_name);
}

static uint32_t find_in_file(const char *root, const char *path, const uint8_t *sha256_digest)
{
    source_lines *s = source_lines_new(&root, root ? 1 : 0);
    assert_non_null(s);
    source_file file = {.path = text_str(path)};
    if (sha256_digest) {
        file.checksum = (spgo_span){sha256_digest, SHA256_SIZE};
        file.checksum_kind = SOURCE_SHA256;
    }
    uint32_t line = source_lines_find(s, &file, text_str("f"), 3);
    assert_int_equal(source_lines_find(s, &file, text_str("f"), 3), line); /* from the cache */
    source_lines_free(s);
    return line;
}

static void the_end_of_the_path_is_found_under_a_root(void **state)
{
    (void)state;
    assert_int_equal(find_in_file(".", "c:\\build\\x\\symbol_source_test.tmp.c", NULL), 1);
    assert_int_equal(find_in_file(".", "/b/../symbol_source_test.tmp.c", NULL), 1);
    assert_int_equal(find_in_file(".", "c:\\build\\other.c", NULL), 0);
    assert_int_equal(find_in_file("no such folder", "c:\\symbol_source_test.tmp.c", NULL), 0);
    assert_int_equal(find_in_file(NULL, "symbol_source_test.tmp.c", NULL), 0);
}

static void another_version_of_the_file_is_not_used(void **state)
{
    (void)state;
    uint8_t digest[SHA256_SIZE];
    sha256((spgo_span){(const uint8_t *)text_of_file, strlen(text_of_file)}, digest);
    assert_int_equal(find_in_file(".", "c:\\symbol_source_test.tmp.c", digest), 1);
    digest[31] ^= 1;
    assert_int_equal(find_in_file(".", "c:\\symbol_source_test.tmp.c", digest), 0);
}

static void paths_that_are_none(void **state)
{
    (void)state;
    assert_int_equal(find_in_file(".", "", NULL), 0);
    assert_int_equal(find_in_file(".", "/", NULL), 0);
    assert_int_equal(find_in_file(".", "\\\\host\\share\\x.c", NULL), 0);
    assert_int_equal(find_in_file(NULL, "/dev/zero", NULL), 0);
}

/* More files than are kept at once. */
static void many_files(void **state)
{
    (void)state;
    const char *root = ".";
    source_lines *s = source_lines_new(&root, 1);
    assert_non_null(s);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 100; i++) {
            char path[64];
            snprintf(path, sizeof path, "/%d/%s", i, i % 2 ? file_name : "none.c");
            source_file file = {.path = text_str(path)};
            assert_int_equal(source_lines_find(s, &file, text_str("f"), 3), i % 2);
        }
    source_lines_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_of_the_name),
        cmocka_unit_test(lines_outside_of_the_text),
        cmocka_unit_test(calls_are_no_declarations),
        cmocka_unit_test(of_overloads_the_one_that_is_open),
        cmocka_unit_test(comments_strings_and_directives_do_not_count),
        cmocka_unit_test(members_and_their_parts),
        cmocka_unit_test(template_arguments_are_left_out),
        cmocka_unit_test(what_compilers_make_is_not_looked_for),
        cmocka_unit_test(both_branches_of_a_condition),
        cmocka_unit_test(rust),
        cmocka_unit_test(last_parts_of_names),
        cmocka_unit_test(the_end_of_the_path_is_found_under_a_root),
        cmocka_unit_test(another_version_of_the_file_is_not_used),
        cmocka_unit_test(paths_that_are_none),
        cmocka_unit_test(many_files),
    };
    return cmocka_run_group_tests(tests, make_source, remove_source);
}
