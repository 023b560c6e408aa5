/* What the targets that read ETL files share. */
#ifndef FUZZ_ETL_H
#define FUZZ_ETL_H

#include <format/etl/etl.h>

/* Compressed buffers may expand to a GiB, which is right but takes longer under sanitizers than a
 * run may last. */
static inline bool fuzz_is_too_large(const etl_file *f)
{
    enum { EXPANDED_MAX = 1 << 20 };
    uint64_t sum = 0;
    for (size_t i = 0; i < etl_buffer_count(f); i++)
        sum +=
            etl_get_buffer(f, i)->flags & ETL_FLAG_COMPRESSED ? etl_get_buffer(f, i)->data_end : 0;
    return sum > EXPANDED_MAX;
}

#endif
