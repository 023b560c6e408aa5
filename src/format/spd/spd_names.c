/* What flags and kinds of calls are called. */
#include "spd.h"

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
