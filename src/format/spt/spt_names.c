/* The opcodes of SPT and what they are called. */
#include <format/spt/spt_internal.h>

#define SPT_OP(value, name, kind)                                                                  \
    _Static_assert(SPGO_SPT_##name == (value), "spt_names.def and spgo/spt.h disagree");
#include <format/spt/spt_names.def>
#undef SPT_OP

const char *spgo_spt_opcode_name(uint8_t opcode)
{
    switch (opcode) {
#define SPT_OP(value, name, kind)                                                                  \
    case value:                                                                                    \
        return #name;
#include <format/spt/spt_names.def>
#undef SPT_OP
    default:
        return NULL;
    }
}

spgo_spt_kind spgo_spt_opcode_kind(uint8_t opcode)
{
    switch (opcode) {
#define SPT_OP(value, name, kind)                                                                  \
    case value:                                                                                    \
        return SPGO_SPT_KIND_##kind;
#include <format/spt/spt_names.def>
#undef SPT_OP
    default:
        return SPGO_SPT_KIND_NONE;
    }
}
