/*
 * What branch_plugin.c uses of QEMU's TCG plugin interface, version 1 (QEMU 4.2 to 8), from its
 * documentation: the distribution ships the programs that load plugins but not the header.
 */
#ifndef QEMU_PLUGIN_API_H
#define QEMU_PLUGIN_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_PLUGIN_EXPORT __attribute__((visibility("default")))

enum { QEMU_PLUGIN_VERSION = 1 };

/* What a callback may touch of the guest's registers: here nothing. */
typedef enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS = 0 } qemu_plugin_cb_flags;

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t {
    const char *target_name;
    struct {
        int min, cur;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus, max_vcpus;
    } system;
} qemu_info_t;

typedef struct qemu_plugin_tb qemu_plugin_tb;
typedef struct qemu_plugin_insn qemu_plugin_insn;

/* What a plugin exports. */
extern QEMU_PLUGIN_EXPORT int qemu_plugin_version;
QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv);

/* What the emulator exports. */
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id,
                                       void (*cb)(qemu_plugin_id_t id, unsigned vcpu));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*cb)(qemu_plugin_id_t id, qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb *tb, void (*cb)(unsigned vcpu, void *user),
                                          qemu_plugin_cb_flags flags, void *user);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
                                    void (*cb)(qemu_plugin_id_t id, void *user), void *user);
uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb *tb);
qemu_plugin_insn *qemu_plugin_tb_get_insn(const qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const qemu_plugin_insn *insn);
const void *qemu_plugin_insn_data(const qemu_plugin_insn *insn);
uint64_t qemu_plugin_start_code(void); /* of the program's executable segments */
uint64_t qemu_plugin_end_code(void);
void qemu_plugin_outs(const char *text);

#endif
