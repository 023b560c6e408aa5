/*
 * From a record's identity to the event it is. A kernel event travels as a hook (group and opcode)
 * or, relogged or written by a program, under its group's class GUID; both become one key.
 */
#include <string.h>

#include <format/etl/etl_internal.h>
#include <format/etl/etl_write.h>

/* clang-format off */
#define GUID(d1, d2, d3, ...)                                                                     \
    {{(d1) & 0xff, (d1) >> 8 & 0xff, (d1) >> 16 & 0xff, (d1) >> 24 & 0xff,                        \
      (d2) & 0xff, (d2) >> 8, (d3) & 0xff, (d3) >> 8, __VA_ARGS__}}
/* clang-format on */

#define ETL_CLASS(id, code, guid) const spgo_guid ETL_GUID_##id = guid;
#include <format/etl/etl_names.def>

enum {
#define ETL_CLASS(id, code, guid) CLASS_##id = (code),
#include <format/etl/etl_names.def>
    CLASS_NONE = 0xFFFF
};

#define KEY(class, opcode) ((uint32_t)CLASS_##class << 8 | (opcode))

static uint32_t class_of_guid(const spgo_guid *g)
{
    static const struct {
        spgo_guid guid;
        uint16_t code;
    } classes[] = {
#define ETL_CLASS(id, code, guid) {guid, code},
#include <format/etl/etl_names.def>
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!memcmp(g->bytes, classes[i].guid.bytes, sizeof g->bytes))
            return classes[i].code;
    return CLASS_NONE;
}

static bool is_classic(uint8_t type)
{
    return type == ETL_FULL32 || type == ETL_FULL64 || type == ETL_INSTANCE32 ||
           type == ETL_INSTANCE64;
}

/* Class code and opcode in one number. */
static uint32_t key_of(const etl_record *r)
{
    if (r->has_hook)
        return r->hook;
    if (!is_classic(r->type))
        return (uint32_t)CLASS_NONE << 8;
    uint32_t class = class_of_guid(&r->guid);
    /* As a hook, the image load belongs to the process group; as a class, to that of images. */
    if (class == CLASS_IMAGE && r->opcode == 0x0A)
        class = CLASS_PROCESS;
    return class << 8 | r->opcode;
}

etl_event etl_record_event(const etl_record *r)
{
    switch (key_of(r)) {
#define ETL_EVENT(class, opcode, event, family, name)                                              \
    case KEY(class, opcode):                                                                       \
        return ETL_EV_##event;
#define ETL_ALIAS(class, opcode, event)                                                            \
    case KEY(class, opcode):                                                                       \
        return ETL_EV_##event;
#include <format/etl/etl_names.def>
    default:
        return ETL_EV_UNKNOWN;
    }
}

etl_family etl_record_family(const etl_record *r)
{
    static const uint8_t families[ETL_EV_COUNT] = {
#define ETL_EVENT(class, opcode, event, family, name) [ETL_EV_##event] = ETL_FAMILY_##family,
#include <format/etl/etl_names.def>
    };
    return (etl_family)families[etl_record_event(r)];
}

const char *etl_event_name(etl_event e)
{
    static const char *const names[ETL_EV_COUNT] = {
        [ETL_EV_UNKNOWN] = "Unknown",
#define ETL_EVENT(class, opcode, event, family, name) [ETL_EV_##event] = name,
#include <format/etl/etl_names.def>
    };
    return (unsigned)e < ETL_EV_COUNT ? names[e] : names[ETL_EV_UNKNOWN];
}

const char *etl_known_name(const etl_record *r)
{
    switch (key_of(r)) {
#define ETL_NAMED(class, opcode, name)                                                             \
    case KEY(class, opcode):                                                                       \
        return name;
#include <format/etl/etl_names.def>
    default:
        break;
    }
    etl_event e = etl_record_event(r);
    return e == ETL_EV_UNKNOWN ? NULL : etl_event_name(e);
}

const char *etl_record_type_name(uint8_t type)
{
    switch (type) {
    case ETL_SYSTEM32:
        return "SYS32";
    case ETL_SYSTEM64:
        return "SYS64";
    case ETL_COMPACT32:
        return "COMPACT32";
    case ETL_COMPACT64:
        return "COMPACT64";
    case ETL_FULL32:
        return "FULL32";
    case ETL_FULL64:
        return "FULL64";
    case ETL_INSTANCE32:
        return "INST32";
    case ETL_INSTANCE64:
        return "INST64";
    case ETL_ERROR:
        return "ERROR";
    case ETL_MESSAGE:
        return "MESSAGE";
    case ETL_PERFINFO32:
        return "PI32";
    case ETL_PERFINFO64:
        return "PI64";
    case ETL_EVENT32:
        return "EVH32";
    case ETL_EVENT64:
        return "EVH64";
    default:
        return NULL;
    }
}
