/*
 * Declarations in source text. The text is first reduced to what matters for it: comments, literals
 * and preprocessor lines become blanks. A definition is then a name, its parameters in parentheses,
 * and a brace that follows with nothing in between that could only stand in a statement; it is the
 * one looked for if its body is still open where the code starts.
 */
#include <symbol/source_lines.h>

#include <stdlib.h>
#include <string.h>

#include <base/sha256.h>
#include <base/text.h>
#include <os/file.h>

enum {
    TEXT_MAX = 64 * 1024 * 1024,
    LINES_BACK_MAX = 1000, /* from the first code to the declaration */
    PATH_SIZE = 4096,
    CACHED = 32
};

/* Text reduced to code, and where its lines start. */
typedef struct source_text {
    char *code;
    size_t len;
    size_t *lines; /* of line i + 1; one more at the end */
    size_t line_count;
    bool is_rust;
} source_text;

typedef struct cached_file {
    char *path; /* as recorded; NULL: free */
    source_text text;
    uint64_t used; /* when; the oldest makes room */
    bool found;
} cached_file;

struct source_lines {
    char **roots;
    size_t root_count;
    uint64_t clock;
    cached_file files[CACHED];
};

/* ------------------------------------------------------------------ reducing */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

typedef struct blanker {
    char *s;
    size_t len, at;
    bool is_rust, at_line_start; /* only blanks since the last newline */
} blanker;

static bool next_is(const blanker *b, const char *text)
{
    size_t n = strlen(text);
    return b->len - b->at >= n && memcmp(b->s + b->at, text, n) == 0;
}

/* Blanks up to `end`; newlines stay, so that lines keep their numbers. */
static void blank_to(blanker *b, size_t end)
{
    for (; b->at < end && b->at < b->len; b->at++)
        if (b->s[b->at] != '\n')
            b->s[b->at] = ' ';
}

static void blank_line(blanker *b)
{
    size_t end = b->at;
    while (end < b->len && b->s[end] != '\n')
        end++;
    blank_to(b, end);
}

static void blank_comment(blanker *b)
{
    size_t depth = 0, end = b->at;
    while (end + 1 < b->len) {
        if (b->s[end] == '*' && b->s[end + 1] == '/') {
            end += 2;
            if (--depth == 0)
                break;
        } else if (b->s[end] == '/' && b->s[end + 1] == '*') {
            depth = depth == 0 || b->is_rust ? depth + 1 : depth; /* Rust's nest */
            end += 2;
        } else {
            end++;
        }
    }
    blank_to(b, depth == 0 && end <= b->len ? end : b->len);
}

/* A directive with the lines that continue it. */
static void blank_directive(blanker *b)
{
    while (b->at < b->len && b->s[b->at] != '\n') {
        if (next_is(b, "/*")) {
            blank_comment(b);
        } else if (b->s[b->at] == '\\') {
            blank_to(b, b->at + 1);
            if (next_is(b, "\r"))
                b->at++;
            if (next_is(b, "\n"))
                b->at++;
        } else {
            blank_to(b, b->at + 1);
        }
    }
}

/* A literal in quotes; an unclosed one of C ends with its line. */
static void blank_quoted(blanker *b, char quote)
{
    size_t end = b->at + 1;
    while (end < b->len && b->s[end] != quote && (b->s[end] != '\n' || b->is_rust))
        end += b->s[end] == '\\' && end + 1 < b->len && b->s[end + 1] != '\n' ? 2 : 1;
    if (end < b->len && b->s[end] == quote)
        end++;
    blank_to(b, end);
}

/* R"x(...)x" of C++, r#"..."# of Rust; false: it is no raw string. */
static bool blank_raw(blanker *b)
{
    char close[24];
    size_t n = 0, at = b->at + 1;
    if (b->is_rust) {
        close[n++] = '"';
        while (at < b->len && b->s[at] == '#' && n < sizeof close) {
            close[n++] = '#';
            at++;
        }
        if (at >= b->len || b->s[at] != '"')
            return false;
    } else {
        if (at >= b->len || b->s[at++] != '"')
            return false;
        close[n++] = ')';
        while (at < b->len && b->s[at] != '(' && n < sizeof close - 1)
            close[n++] = b->s[at++];
        if (at >= b->len || b->s[at] != '(')
            return false;
        close[n++] = '"';
    }
    for (at++; at + n <= b->len; at++) {
        if (memcmp(b->s + at, close, n) == 0) {
            blank_to(b, at + n);
            return true;
        }
    }
    blank_to(b, b->len);
    return true;
}

/* A character, unless the quote is a digit separator or starts a lifetime. */
static void blank_character(blanker *b)
{
    bool in_word = b->at > 0 && is_word(b->s[b->at - 1]);
    bool is_prefix = b->at > 0 && memchr("uUL8b", b->s[b->at - 1], 5) &&
                     (b->at < 2 || !is_word(b->s[b->at - 2]) || b->s[b->at - 2] == 'u');
    bool is_short = b->at + 2 < b->len && (b->s[b->at + 1] == '\\' || b->s[b->at + 2] == '\'' ||
                                           (unsigned char)b->s[b->at + 1] >= 0x80);
    if ((in_word && !is_prefix) || (b->is_rust && !is_short))
        b->at++;
    else
        blank_quoted(b, '\'');
}

static void blank_next(blanker *b)
{
    char c = b->s[b->at];
    bool starts_line = b->at_line_start;
    b->at_line_start = c == '\n' || (starts_line && (c == ' ' || c == '\t' || c == '\r'));
    bool follows_word = b->at > 0 && is_word(b->s[b->at - 1]);
    if (next_is(b, "//"))
        blank_line(b);
    else if (next_is(b, "/*"))
        blank_comment(b);
    else if (c == '#' && starts_line && !b->is_rust)
        blank_directive(b);
    else if (c == '"')
        blank_quoted(b, c);
    else if (c == '\'')
        blank_character(b);
    else if (!(c == (b->is_rust ? 'r' : 'R') && (!follows_word || !b->is_rust) && blank_raw(b)))
        b->at++;
}

static bool find_line_starts(source_text *t)
{
    size_t count = 1;
    for (size_t i = 0; i < t->len; i++)
        count += t->code[i] == '\n';
    t->lines = calloc(count + 1, sizeof *t->lines);
    if (!t->lines)
        return false;
    for (size_t i = 0; i < t->len; i++)
        if (t->code[i] == '\n')
            t->lines[++t->line_count] = i + 1;
    t->line_count++;
    t->lines[t->line_count] = t->len;
    return true;
}

static void free_text(source_text *t)
{
    free(t->code);
    free(t->lines);
    *t = (source_text){0};
}

static bool reduce(spgo_str text, bool is_rust, source_text *out)
{
    *out = (source_text){.len = text.len, .is_rust = is_rust};
    out->code = malloc(text.len + 1);
    if (!out->code)
        return false;
    if (text.len > 0)
        memcpy(out->code, text.ptr, text.len);
    out->code[text.len] = 0;
    blanker b = {.s = out->code, .len = text.len, .is_rust = is_rust, .at_line_start = true};
    while (b.at < b.len)
        blank_next(&b);
    if (find_line_starts(out))
        return true;
    free_text(out);
    return false;
}

/* ------------------------------------------------------------------ names */

static bool is_at(spgo_str s, size_t at, const char *text)
{
    size_t n = strlen(text);
    return s.len - at >= n && memcmp(s.ptr + at, text, n) == 0;
}

/* Where "operator" starts as the last part of a name: its symbol may have brackets. */
static bool find_operator(spgo_str name, size_t *at)
{
    for (size_t i = name.len; i > 0; i--) {
        size_t start = i - 1, end = start + strlen("operator");
        if (is_at(name, start, "operator") && (start == 0 || name.ptr[start - 1] == ':') &&
            (end == name.len || !is_word(name.ptr[end]))) {
            *at = start;
            return true;
        }
    }
    return false;
}

spgo_str source_name_last(spgo_str *rest)
{
    spgo_str s = *rest;
    size_t i = s.len, depth = 0, end = s.len;
    if (find_operator(s, &i)) {
        *rest = (spgo_str){s.ptr, i >= 2 ? i - 2 : 0};
        return (spgo_str){s.ptr + i, end - i};
    }
    for (; i > 0; i--) {
        char c = s.ptr[i - 1];
        if (c == '>') {
            depth++;
        } else if (c == '<' && depth > 0) {
            if (--depth == 0 && end == s.len)
                end = i - 1;
        } else if (c == ':' && depth == 0) {
            break;
        }
    }
    *rest = (spgo_str){s.ptr, i >= 2 ? i - 2 : 0};
    return (spgo_str){s.ptr + i, end > i ? end - i : 0};
}

/* Names that stand in no source: of lambdas, closures, and what compilers make. */
static bool is_written(spgo_str last)
{
    return last.len > 0 && !memchr(last.ptr, '`', last.len) && !memchr(last.ptr, '$', last.len) &&
           last.ptr[0] != '<';
}

/* ------------------------------------------------------------------ finding */

/* A walk over the code before `end`. */
typedef struct walk {
    const source_text *t;
    size_t at, end;
} walk;

static void skip_space(walk *w)
{
    while (w->at < w->end && strchr(" \t\r\n\f\v", w->t->code[w->at]))
        w->at++;
}

/* From an opening bracket to behind its closing one; false: that is not there. */
static bool skip_brackets(walk *w, char open, char close)
{
    size_t depth = 0;
    for (; w->at < w->end; w->at++) {
        char c = w->t->code[w->at];
        bool is_arrow = c == '>' && w->t->code[w->at - 1] == '-';
        depth += c == open;
        if (c == close && !is_arrow && --depth == 0) {
            w->at++;
            return true;
        }
    }
    return false;
}

static char last_before(const walk *w)
{
    size_t i = w->at;
    while (i > 0 && strchr(" \t\r\n\f\v", w->t->code[i - 1]))
        i--;
    return i > 0 ? w->t->code[i - 1] : 0;
}

/* From behind the parameters to the brace that opens the body; false: this is no definition. */
static bool find_body(walk *w)
{
    bool in_members = false; /* of a constructor: a(1), b{2} */
    while (w->at < w->end) {
        char c = w->t->code[w->at];
        if (c == '{') {
            char before = last_before(w);
            if (!in_members || !(is_word(before) || before == '>'))
                return true;
            if (!skip_brackets(w, '{', '}'))
                return false;
        } else if (c == '(' || c == '[') {
            if (!skip_brackets(w, c, c == '(' ? ')' : ']'))
                return false;
        } else if (c == ':' && w->at + 1 < w->end && w->t->code[w->at + 1] == ':') {
            w->at += 2;
        } else if (c == ':') {
            in_members = !w->t->is_rust;
            w->at++;
        } else if (strchr(";})]+/?|^%.", c) ||
                   (!w->t->is_rust && (c == '=' || (c == ',' && !in_members)))) {
            return false;
        } else {
            w->at++;
        }
    }
    return false;
}

/* Is the body that opens here still open at `line_start`? */
static bool is_open_at(const walk *w, size_t line_start)
{
    size_t depth = 0;
    for (size_t i = w->at; i < line_start; i++) {
        char c = w->t->code[i];
        depth += c == '{';
        if (c == '}' && --depth == 0)
            return false;
    }
    return true;
}

/* The name as a word of its own; blanks of operators ("operator ()") do not matter. */
static bool match_name(walk *w, spgo_str name)
{
    const char *code = w->t->code;
    if (w->at > 0 && is_word(code[w->at - 1]) && is_word(name.ptr[0]))
        return false;
    for (size_t i = 0; i < name.len;) {
        if (w->at < w->end && code[w->at] == name.ptr[i]) {
            w->at++;
            i++;
        } else if (i > 0 && name.ptr[i] == ' ') {
            i++;
        } else if (i > 0 && w->at < w->end && (code[w->at] == ' ' || code[w->at] == '\t') &&
                   !is_word(name.ptr[i])) {
            w->at++;
        } else {
            return false;
        }
    }
    return w->at >= w->end || !is_word(code[w->at]) || !is_word(name.ptr[name.len - 1]);
}

/* Rust's calls need no parentheses around them where a brace may follow: only fn tells. */
static bool follows_fn(const source_text *t, size_t at)
{
    walk w = {t, at, t->len};
    if (last_before(&w) != 'n')
        return false;
    while (at > 0 && t->code[at - 1] != 'n')
        at--;
    return at >= 2 && t->code[at - 2] == 'f' && (at == 2 || !is_word(t->code[at - 3]));
}

static bool is_definition(const source_text *t, size_t at, size_t end, size_t line_start,
                          spgo_str name)
{
    walk w = {t, at, end};
    if (!match_name(&w, name) || (t->is_rust && !follows_fn(t, at)))
        return false;
    skip_space(&w);
    if (w.at < w.end && t->code[w.at] == '<') {
        if (!skip_brackets(&w, '<', '>'))
            return false;
        skip_space(&w);
    }
    if (w.at >= w.end || t->code[w.at] != '(' || !skip_brackets(&w, '(', ')'))
        return false;
    return find_body(&w) && is_open_at(&w, line_start);
}

static uint32_t line_of(const source_text *t, size_t at)
{
    size_t low = 0, high = t->line_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->lines[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return (uint32_t)low;
}

static uint32_t find_declaration(const source_text *t, spgo_str name, uint32_t first_line)
{
    spgo_str last = source_name_last(&name);
    if (!is_written(last) || first_line == 0 || first_line > t->line_count)
        return 0;
    size_t line_start = t->lines[first_line - 1], end = t->lines[first_line];
    size_t back = first_line > LINES_BACK_MAX ? t->lines[first_line - LINES_BACK_MAX] : 0;
    for (size_t at = end; at > back; at--)
        if (t->code[at - 1] == last.ptr[0] && is_definition(t, at - 1, end, line_start, last))
            return line_of(t, at - 1);
    return 0;
}

uint32_t source_text_find(spgo_str text, bool is_rust, spgo_str name, uint32_t first_line)
{
    source_text t;
    if (!reduce(text, is_rust, &t))
        return 0;
    uint32_t line = find_declaration(&t, name, first_line);
    free_text(&t);
    return line;
}

/* ------------------------------------------------------------------ files */

source_lines *source_lines_new(const char *const *roots, size_t root_count)
{
    source_lines *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->roots = calloc(root_count + 1, sizeof *s->roots);
    for (size_t i = 0; s->roots && i < root_count; i++) {
        size_t size = strlen(roots[i]) + 1;
        s->roots[i] = malloc(size);
        if (!s->roots[i])
            break;
        memcpy(s->roots[i], roots[i], size);
        s->root_count++;
    }
    if (s->roots && s->root_count == root_count)
        return s;
    source_lines_free(s);
    return NULL;
}

void source_lines_free(source_lines *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->root_count; i++)
        free(s->roots[i]);
    for (size_t i = 0; i < CACHED; i++) {
        free(s->files[i].path);
        free_text(&s->files[i].text);
    }
    free(s->roots);
    free(s);
}

/* Is it the text that was compiled? What only has a hash of another kind is believed. */
static bool checksum_agrees(const source_file *file, spgo_span bytes)
{
    uint8_t digest[SHA256_SIZE];
    if (file->checksum_kind != SOURCE_SHA256 || file->checksum.len != SHA256_SIZE)
        return true;
    sha256(bytes, digest);
    return memcmp(digest, file->checksum.ptr, SHA256_SIZE) == 0;
}

static bool ends_with(spgo_str s, const char *text)
{
    size_t n = strlen(text);
    return s.len >= n && memcmp(s.ptr + s.len - n, text, n) == 0;
}

/* Only regular files: the path comes from debug information, which anybody may have written. */
static bool try_path(const char *path, const source_file *file, source_text *out)
{
    os_input *in;
    if (!os_is_regular_file(path) || os_input_open(path, &in, NULL) != SPGO_OK)
        return false;
    spgo_span bytes = os_input_bytes(in);
    bool ok =
        bytes.len > 0 && bytes.len <= TEXT_MAX && checksum_agrees(file, bytes) &&
        reduce((spgo_str){(const char *)bytes.ptr, bytes.len}, ends_with(file->path, ".rs"), out);
    os_input_close(in);
    return ok;
}

static bool has_dot_dot(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == 0 || at[2] == '/'))
            return true;
    return false;
}

/* The longest end of the recorded path that leads to a file under a root. */
static bool find_under_roots(const source_lines *s, const source_file *file, const char *recorded,
                             source_text *out)
{
    char path[2 * PATH_SIZE];
    for (const char *tail = recorded; *tail;) {
        for (size_t i = 0; i < s->root_count && *tail != '/' && !has_dot_dot(tail); i++) {
            size_t root = strlen(s->roots[i]), rest = strlen(tail);
            if (root + rest + 2 > sizeof path)
                continue;
            memcpy(path, s->roots[i], root);
            path[root] = '/';
            memcpy(path + root + 1, tail, rest + 1);
            if (try_path(path, file, out))
                return true;
        }
        const char *slash = strchr(tail, '/');
        if (!slash)
            break;
        tail = slash + 1;
    }
    return false;
}

static bool load(const source_lines *s, const source_file *file, source_text *out)
{
    char recorded[PATH_SIZE];
    if (file->path.len == 0 || file->path.len >= sizeof recorded ||
        memchr(file->path.ptr, 0, file->path.len))
        return false;
    for (size_t i = 0; i < file->path.len; i++)
        recorded[i] = file->path.ptr[i] == '\\' ? '/' : file->path.ptr[i];
    recorded[file->path.len] = 0;
    if (find_under_roots(s, file, recorded, out))
        return true;
    /* "//host/share" would ask another machine for it. */
    bool is_absolute = recorded[0] == '/' || (recorded[1] == ':' && recorded[2] == '/');
    bool is_remote = recorded[0] == '/' && recorded[1] == '/';
    return is_absolute && !is_remote && try_path(recorded, file, out);
}

static bool is_path(const cached_file *f, spgo_str path)
{
    return f->path && strlen(f->path) == path.len && memcmp(f->path, path.ptr, path.len) == 0;
}

/* The file's text, or NULL. Modules use few files in turns: some are kept. */
static const source_text *text_of(source_lines *s, const source_file *file)
{
    cached_file *oldest = &s->files[0];
    for (size_t i = 0; i < CACHED; i++) {
        cached_file *f = &s->files[i];
        if (is_path(f, file->path)) {
            f->used = ++s->clock;
            return f->found ? &f->text : NULL;
        }
        if (f->used < oldest->used)
            oldest = f;
    }
    free(oldest->path);
    free_text(&oldest->text);
    *oldest = (cached_file){.path = malloc(file->path.len + 1), .used = ++s->clock};
    if (!oldest->path)
        return NULL;
    if (file->path.len > 0)
        memcpy(oldest->path, file->path.ptr, file->path.len);
    oldest->path[file->path.len] = 0;
    oldest->found = load(s, file, &oldest->text);
    return oldest->found ? &oldest->text : NULL;
}

uint32_t source_lines_find(source_lines *s, const source_file *file, spgo_str name,
                           uint32_t first_line)
{
    const source_text *t = text_of(s, file);
    return t ? find_declaration(t, name, first_line) : 0;
}
