/*
 * Names and encodings. Names of a trace come from another system and perhaps from a hostile file:
 * nothing here assumes that text is well-formed, and case folding stays with A-Z so that the
 * result never depends on a locale.
 */
#include <base/text.h>

#include <base/reader.h>

#include <string.h>

enum { DISTANCE_LEN_MAX = 127, REPLACEMENT = 0xFFFD };

static unsigned char fold(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u + ('a' - 'A')) : u;
}

spgo_str text_str(const char *text)
{
    return text ? (spgo_str){text, strlen(text)} : (spgo_str){"", 0};
}

spgo_str text_base_name(spgo_str path)
{
    size_t start = path.len;
    while (start > 0 && path.ptr[start - 1] != '/' && path.ptr[start - 1] != '\\')
        start--;
    return path.len ? (spgo_str){path.ptr + start, path.len - start} : path;
}

bool text_equal(spgo_str a, spgo_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool text_equal_nocase(spgo_str a, spgo_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (fold(a.ptr[i]) != fold(b.ptr[i]))
            return false;
    }
    return true;
}

/* The bytes that '?' stands for: a whole character, or one byte where there is none. */
static size_t char_len(spgo_str s, size_t at)
{
    uint32_t ignored;
    size_t len = text_utf8_next(s.ptr + at, s.len - at, &ignored);
    return len ? len : 1;
}

/*
 * Greedy matching that only ever goes back to the latest '*': what an earlier one could match
 * differently, the latest can make up for. At most pattern length times name length steps.
 */
bool text_match(spgo_str pattern, spgo_str name)
{
    size_t p = 0;
    size_t n = 0;
    size_t star = SIZE_MAX; /* pattern position behind the latest '*' */
    size_t star_name = 0;   /* where in the name the text behind it is being tried */

    while (n < name.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = ++p;
            star_name = n;
        } else if (p < pattern.len && pattern.ptr[p] == '?') {
            p++;
            n += char_len(name, n);
        } else if (p < pattern.len && fold(pattern.ptr[p]) == fold(name.ptr[n])) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star;
            star_name += char_len(name, star_name);
            n = star_name;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's distance, one row of the table at a time. Texts too long for a name are simply
 * not near. */
unsigned text_distance(spgo_str a, spgo_str b, unsigned max)
{
    size_t gap = a.len > b.len ? a.len - b.len : b.len - a.len;
    if (gap > max || a.len > DISTANCE_LEN_MAX || b.len > DISTANCE_LEN_MAX)
        return max + 1;

    unsigned row[DISTANCE_LEN_MAX + 1];
    for (unsigned j = 0; j <= b.len; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            unsigned change = fold(a.ptr[i - 1]) == fold(b.ptr[j - 1]) ? 0 : 1;
            unsigned next = min3(row[j] + 1, row[j - 1] + 1, diagonal + change);
            diagonal = row[j];
            row[j] = next;
        }
    }
    return row[b.len] <= max ? row[b.len] : max + 1;
}

/* ------------------------------------------------------------------ encodings */

static bool is_continuation(const char *p)
{
    return ((unsigned char)*p & 0xC0) == 0x80;
}

size_t text_utf8_next(const char *p, size_t left, uint32_t *code_point)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000}; /* shorter forms exist below */

    if (left == 0)
        return 0;
    unsigned char first = (unsigned char)*p;
    if (first < 0x80) {
        *code_point = first;
        return 1;
    }
    size_t len = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || left < len)
        return 0;
    uint32_t c = first & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (!is_continuation(p + i))
            return 0;
        c = c << 6 | ((unsigned char)p[i] & 0x3Fu);
    }
    if (c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 0;
    *code_point = c;
    return len;
}

size_t text_utf8_put(char out[4], uint32_t c)
{
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        c = REPLACEMENT;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

bool text_is_utf8(spgo_str s)
{
    uint32_t ignored;
    for (size_t at = 0, len; at < s.len; at += len) {
        len = text_utf8_next(s.ptr + at, s.len - at, &ignored);
        if (len == 0)
            return false;
    }
    return true;
}

/* The code point at *at, which moves behind it; at least one whole unit must be left. A lone
 * surrogate comes back as itself, which text_utf8_put turns into the replacement character. */
static uint32_t utf16_next(spgo_span utf16, size_t *at)
{
    uint32_t c = load_u16(utf16.ptr + *at);
    *at += 2;
    if (c >= 0xD800 && c <= 0xDBFF && utf16.len - *at >= 2) {
        uint32_t low = load_u16(utf16.ptr + *at);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *at += 2;
            return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return c;
}

size_t text_from_utf16_into(char *out, size_t out_size, spgo_span utf16)
{
    size_t len = 0;

    if (out_size == 0)
        return 0;
    for (size_t at = 0; utf16.len - at >= 2;) {
        char one[4];
        size_t n = text_utf8_put(one, utf16_next(utf16, &at));
        if (n > out_size - 1 - len)
            break;
        memcpy(out + len, one, n);
        len += n;
    }
    out[len] = '\0';
    return len;
}

static size_t utf8_size_of(spgo_span utf16)
{
    size_t len = 0;
    char one[4];
    for (size_t at = 0; utf16.len - at >= 2;)
        len += text_utf8_put(one, utf16_next(utf16, &at));
    return len;
}

spgo_str text_from_utf16(arena *a, spgo_span utf16)
{
    size_t size = utf8_size_of(utf16) + 1;
    char *text = arena_push(a, size, 1);
    if (!text)
        return (spgo_str){"", 0};
    return (spgo_str){text, text_from_utf16_into(text, size, utf16)};
}
