/* The names of PE's numbers: see pe_names.def. */
#include <format/pe/pe.h>

const char *pe_machine_name(uint16_t machine)
{
    switch (machine) {
#define PE_MACHINE(value, name)                                                                    \
    case value:                                                                                    \
        return name;
#include <format/pe/pe_names.def>
    default:
        return NULL;
    }
}

const char *pe_directory_name(size_t index)
{
    switch (index) {
#define PE_DIRECTORY(value, name)                                                                  \
    case value:                                                                                    \
        return name;
#include <format/pe/pe_names.def>
    default:
        return NULL;
    }
}

const char *pe_subsystem_name(uint16_t subsystem)
{
    switch (subsystem) {
#define PE_SUBSYSTEM(value, name)                                                                  \
    case value:                                                                                    \
        return name;
#include <format/pe/pe_names.def>
    default:
        return NULL;
    }
}

const char *pe_debug_type_name(uint32_t type)
{
    switch (type) {
#define PE_DEBUG_TYPE(value, name)                                                                 \
    case value:                                                                                    \
        return name;
#include <format/pe/pe_names.def>
    default:
        return NULL;
    }
}

const char *pe_unwind_op_name(unsigned op)
{
    switch (op) {
#define PE_UNWIND_OP(value, name)                                                                  \
    case value:                                                                                    \
        return name;
#include <format/pe/pe_names.def>
    default:
        return NULL;
    }
}

const char *pe_x64_register_name(unsigned number)
{
    static const char *const names[16] = {"RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI",
                                          "R8",  "R9",  "R10", "R11", "R12", "R13", "R14", "R15"};
    return names[number & 15];
}
