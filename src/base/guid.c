/* GUIDs as text and back: see guid.h. */
#include <base/guid.h>

#include <base/reader.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void guid_text(char out[GUID_TEXT_SIZE], const spgo_guid *g)
{
    const uint8_t *b = g->bytes;
    snprintf(out, GUID_TEXT_SIZE,
             "{%08" PRIX32 "-%04X-%04X-%02X%02X-%02X%02X%02X%02X%02X%02X}", load_u32(b),
             (unsigned)load_u16(b + 4), (unsigned)load_u16(b + 6), b[8], b[9], b[10], b[11], b[12],
             b[13], b[14], b[15]);
}

void guid_text_lower(char out[GUID_TEXT_SIZE], const spgo_guid *g)
{
    char braced[GUID_TEXT_SIZE];
    guid_text(braced, g);
    for (int i = 1; i < GUID_TEXT_SIZE - 2; i++) {
        char c = braced[i];
        out[i - 1] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    }
    out[GUID_TEXT_SIZE - 3] = '\0';
}

void symbol_key_text(char out[SYMBOL_KEY_SIZE], const spgo_image_id *id)
{
    const uint8_t *b = id->guid.bytes;
    int n = snprintf(out, SYMBOL_KEY_SIZE, "%08" PRIX32 "%04X%04X", load_u32(b),
                     (unsigned)load_u16(b + 4), (unsigned)load_u16(b + 6));
    for (int i = 8; i < 16; i++)
        n += snprintf(out + n, (size_t)(SYMBOL_KEY_SIZE - n), "%02X", b[i]);
    snprintf(out + n, (size_t)(SYMBOL_KEY_SIZE - n), "%" PRIX32, id->age);
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool guid_from_text(const char *text, size_t len, spgo_guid *out)
{
    /* Where each byte's digits stand in the text: the first three groups are little-endian. */
    static const uint8_t at[16] = {6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34};
    if (len == 38 && text[0] == '{' && text[37] == '}') {
        text++;
        len -= 2;
    }
    if (len != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-')
        return false;
    for (int i = 0; i < 16; i++) {
        int high = digit_value(text[at[i]]);
        int low = digit_value(text[at[i] + 1]);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool guid_equal(const spgo_guid *a, const spgo_guid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool guid_is_null(const spgo_guid *g)
{
    static const spgo_guid null;
    return guid_equal(g, &null);
}

bool image_id_equal(const spgo_image_id *a, const spgo_image_id *b)
{
    return guid_equal(&a->guid, &b->guid) && a->age == b->age;
}
