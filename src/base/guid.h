/* GUIDs and the identities of images: as text, and compared. */
#ifndef BASE_GUID_H
#define BASE_GUID_H

#include <spgo/types.h>

enum { GUID_TEXT_SIZE = 39, SYMBOL_KEY_SIZE = 41 };

/* Registry form with braces and upper-case digits: {47D6423E-9510-45DC-892B-2C46B4DD7A9C}. */
void guid_text(char out[GUID_TEXT_SIZE], const spgo_guid *g);

/* The 36 characters of the registry form without braces, in lower case. */
void guid_text_lower(char out[GUID_TEXT_SIZE], const spgo_guid *g);

/* The key of symbol stores: 32 upper-case digits, then the age in hexadecimal. */
void symbol_key_text(char out[SYMBOL_KEY_SIZE], const spgo_image_id *id);

/* Both forms, with or without braces; false if text is no GUID. */
bool guid_from_text(const char *text, size_t len, spgo_guid *out);

bool guid_equal(const spgo_guid *a, const spgo_guid *b);
bool guid_is_null(const spgo_guid *g);
bool image_id_equal(const spgo_image_id *a, const spgo_image_id *b);

#endif
