/* What flags, kinds of calls and functions are called. */
#include "spd_internal.h"

#include <inttypes.h>
#include <stdio.h>

const char *spd_flag_name(spd_flag_kind kind, uint32_t bit)
{
    static const struct {
        spd_flag_kind kind;
        uint32_t bit;
        const char *name;
    } flags[] = {
#define SPD_FLAG(kind, bit, name) {kind, bit, name},
#include "spd_names.def"
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (flags[i].kind == kind && flags[i].bit == bit)
            return flags[i].name;
    }
    return NULL;
}

const char *spd_call_kind_name(uint32_t kind)
{
    switch (kind) {
#define SPD_CALL_KIND(number, name)                                                                \
    case number:                                                                                   \
        return name;
#include "spd_names.def"
    default:
        return NULL;
    }
}

const char *spd_label(char text[SPD_LABEL_SIZE], const spd_function *f)
{
    size_t n = 0;
    if (!f->name.len) {
        snprintf(text, SPD_LABEL_SIZE, "of hash %016" PRIx64, f->hash);
        return text;
    }
    for (; n < f->name.len && n < SPD_LABEL_SIZE - 1; n++) {
        uint8_t c = (uint8_t)f->name.ptr[n];
        text[n] = (char)(c < ' ' || c >= 0x7f ? '?' : c);
    }
    text[n] = '\0';
    return text;
}
