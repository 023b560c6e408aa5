/* A bounded list of findings: see diag.h. */
#include <base/diag.h>

#include <stdarg.h>
#include <stdio.h>

void diag_add(diag *d, spgo_code code, uint64_t offset, const char *fmt, ...)
{
    if (!d)
        return;
    d->total++;
    if (d->kept_count == DIAG_KEPT_MAX)
        return;
    diag_item *item = &d->kept[d->kept_count++];
    item->code = code;
    item->offset = offset;
    va_list args;
    va_start(args, fmt);
    vsnprintf(item->sentence, sizeof item->sentence, fmt, args);
    va_end(args);
}
