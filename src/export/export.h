/*
 * What other tools of the field take. Text forms go to an out; errors of writing are the out's.
 * Each form is what its tool reads; none but pprof's has a published specification.
 */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include <base/out.h>
#include <profile/address_profile.h>

/* llvm-profgen --unsymbolized-profile: ranges and branches, counted from symbols_info.text_rva. */
void export_unsymbolized(const address_profile *profile, const symbols *s, out *o);

/* create_llvm_prof --profiler=text: ranges, addresses (none), branches, as virtual addresses. */
void export_autofdo(const address_profile *profile, const symbols *s, out *o);

/*
 * perf2bolt -pa: B, F and f lines, as virtual addresses; 0 stands for what is in another image.
 * BOLT checks ranges and branches itself, so it is best given what was recorded
 * (address_profile_as_recorded).
 */
spgo_code export_bolt(const address_profile *profile, symbols *s, out *o, spgo_error *err);

/*
 * llvm-profgen --perfscript. First where the image was (once for all files), then for each LBR
 * record of an SPT file a line with its hits times weight and one with its branches, newest first.
 * program: an index in the file. SPGO_TRUNCATED and SPGO_CORRUPT: the file is damaged, what could
 * be read is written.
 */
void export_perf_mapping(const symbols *s, out *o);
spgo_code export_perf_records(const spgo_spt *spt, uint16_t program, uint64_t weight,
                              const symbols *s, out *o, spgo_error *err);

/* The forms of viewers: each procedure with the calls inlined into it, weighed by the counts of
 * their instructions. unit: what is counted, "instructions" or "samples". */

/* pprof's profile.proto, compressed with gzip where zlib is there. */
spgo_code export_pprof(const address_profile *profile, const char *unit, symbols *s,
                       code_decoder *d, spgo_sink sink, spgo_error *err);

/* "outer;inner count" lines, sorted. */
spgo_code export_folded(const address_profile *profile, symbols *s, code_decoder *d, out *o,
                        spgo_error *err);

spgo_code export_speedscope(const address_profile *profile, symbols *s, code_decoder *d, out *o,
                            spgo_error *err);

#endif
