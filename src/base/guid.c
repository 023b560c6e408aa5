/* GUIDs as text and back: see guid.h. */
#include <base/guid.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where each byte's digits stand in the text without braces, and which bytes follow each other
 * there: the first three groups are little-endian. */
static const uint8_t text_at[16] = {6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34};
static const uint8_t byte_order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

static const char upper[] = "0123456789ABCDEF";
static const char lower[] = "0123456789abcdef";

static void put_byte(char *p, uint8_t v, const char *digits)
{
    p[0] = digits[v >> 4];
    p[1] = digits[v & 15];
}

/* The 36 characters without braces. */
static void put_guid(char *p, const spgo_guid *g, const char *digits)
{
    for (int i = 0; i < 16; i++)
        put_byte(p + text_at[i], g->bytes[i], digits);
    p[8] = p[13] = p[18] = p[23] = '-';
}

void guid_text(char out[GUID_TEXT_SIZE], const spgo_guid *g)
{
    out[0] = '{';
    put_guid(out + 1, g, upper);
    memcpy(out + 37, "}", 2);
}

void guid_text_lower(char out[GUID_TEXT_SIZE], const spgo_guid *g)
{
    put_guid(out, g, lower);
    out[36] = '\0';
}

void symbol_key_text(char out[SYMBOL_KEY_SIZE], const spgo_image_id *id)
{
    for (int i = 0; i < 16; i++)
        put_byte(out + 2 * i, id->guid.bytes[byte_order[i]], upper);
    (void)snprintf(out + 32, SYMBOL_KEY_SIZE - 32, "%" PRIX32, id->age);
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
    if (len == 38 && text[0] == '{' && text[37] == '}') {
        text++;
        len -= 2;
    }
    if (len != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-')
        return false;
    for (int i = 0; i < 16; i++) {
        int high = digit_value(text[text_at[i]]);
        int low = digit_value(text[text_at[i] + 1]);
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
