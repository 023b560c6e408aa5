/* Names and encodings: ASCII-case-insensitive comparison, wildcards, base names, UTF-16 to UTF-8.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <base/arena.h>

/* The part behind the last '/' or '\\'. */
spgo_str text_base_name(spgo_str path);
spgo_str text_str(const char *text); /* of a NUL-terminated string; NULL gives an empty one */

bool text_equal(spgo_str a, spgo_str b);
bool text_equal_nocase(spgo_str a, spgo_str b); /* folds A-Z only */

/* '*' stands for any run of characters, '?' for one; A-Z folded. Linear in practice, never
 * exponential. */
bool text_match(spgo_str pattern, spgo_str name);

/* How many edits lead from a to b (A-Z folded), capped at `max` + 1: to offer near names. */
unsigned text_distance(spgo_str a, spgo_str b, unsigned max);

/* UTF-16LE bytes as NUL-terminated UTF-8 in the arena; lone surrogates become U+FFFD. Empty text
 * when there is no memory. */
spgo_str text_from_utf16(arena *a, spgo_span utf16);

/* The same into a caller's buffer, cut at a whole character, always NUL-terminated; returns the
 * length. */
size_t text_from_utf16_into(char *out, size_t out_size, spgo_span utf16);

/* Is this well-formed UTF-8? */
bool text_is_utf8(spgo_str s);

/* The length in bytes (1 to 4) of the well-formed UTF-8 character at p, of which `left` bytes are
 * there, and its code point; 0 if ill-formed or left is 0. */
size_t text_utf8_next(const char *p, size_t left, uint32_t *code_point);

/* Writes the UTF-8 form of a code point and returns its length; a surrogate or a number above
 * U+10FFFF is written as U+FFFD. */
size_t text_utf8_put(char out[4], uint32_t code_point);

#endif
