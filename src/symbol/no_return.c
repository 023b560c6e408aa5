/*
 * Functions of the C, C++ and Rust libraries that never return, by their linkage names: for images
 * whose debug information does not say it, as of thunks to another image. Only names that belong to
 * an implementation or a standard are here, since a program's own function may have any other.
 */
#include <symbol/procedures.h>

#include <stdlib.h>
#include <string.h>

#include <base/text.h>

static const char *const names[] = {
    /* by strcmp, for the search */
    "?terminate@@YAXXZ",
    "ExitProcess",
    "ExitThread",
    "_CxxThrowException",
    "_Exit",
    "_Unwind_Resume",
    "_ZSt10unexpectedv",
    "_ZSt9terminatev",
    "__assert_fail",
    "__assert_perror_fail",
    "__chk_fail",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_call_unexpected",
    "__cxa_deleted_virtual",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_length",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__longjmp_chk",
    "__report_gsfailure",
    "__report_rangecheckfailure",
    "__report_securityfailure",
    "__stack_chk_fail",
    "__std_terminate",
    "_exit",
    "_invalid_parameter_noinfo_noreturn",
    "_invoke_watson",
    "_longjmp",
    "abort",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "rust_begin_unwind",
    "rust_panic",
    "siglongjmp",
    "thrd_exit",
};

static const char *const prefixes[] = {
    "?_Xbad_alloc@std@@",
    "?_Xbad_function_call@std@@",
    "?_Xinvalid_argument@std@@",
    "?_Xlength_error@std@@",
    "?_Xout_of_range@std@@",
    "?_Xruntime_error@std@@",
    "_ZN4core5slice5index22slice_index_order_fail",
    "_ZN4core5slice5index24slice_end_index_len_fail",
    "_ZN4core5slice5index26slice_start_index_len_fail",
    "_ZN4core6option13expect_failed",
    "_ZN4core6result13unwrap_failed",
    "_ZN4core9panicking",
    "_ZN5alloc5alloc18handle_alloc_error",
    "_ZN5alloc7raw_vec17capacity_overflow",
};

static bool starts_with(spgo_str s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && memcmp(s.ptr, prefix, len) == 0;
}

/* libstdc++: _ZSt20__throw_length_errorPKc and its like. */
static bool is_std_throw(spgo_str s)
{
    if (!starts_with(s, "_ZSt"))
        return false;
    size_t at = 4;
    while (at < s.len && s.ptr[at] >= '0' && s.ptr[at] <= '9')
        at++;
    return at > 4 && starts_with((spgo_str){s.ptr + at, s.len - at}, "__throw_");
}

static int compare_name(const void *key, const void *row)
{
    const spgo_str *s = key;
    const char *name = *(const char *const *)row;
    size_t len = strlen(name);
    int order = memcmp(s->ptr, name, s->len < len ? s->len : len);
    return order ? order : (s->len > len) - (s->len < len);
}

bool procedure_name_never_returns(spgo_str name)
{
    const char *version = name.len ? memchr(name.ptr + 1, '@', name.len - 1) : NULL;
    if (name.len == 0)
        return false;
    /* "abort@plt", "abort@@GLIBC_2.2.5"; decorated names have their own. */
    if (version && name.ptr[0] != '?')
        name.len = (size_t)(version - name.ptr);
    if (bsearch(&name, names, sizeof names / sizeof *names, sizeof *names, compare_name))
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (starts_with(name, prefixes[i]))
            return true;
    return is_std_throw(name);
}
