/* FILETIMEs as text: see filetime.h. Done by hand because a dump prints one for every event. */
#include <base/filetime.h>

#include <string.h>

static char *put_digits(char *p, unsigned v, int digits)
{
    for (int i = digits; i-- > 0; v /= 10)
        p[i] = (char)('0' + v % 10);
    return p + digits;
}

static char *put_after(char *p, char separator, unsigned v, int digits)
{
    *p = separator;
    return put_digits(p + 1, v, digits);
}

/* "2024-05-01". Years count from March, so that the leap day is the last of its year, and in eras
 * of 400 years, after which the calendar repeats itself. */
static char *put_date(char *p, unsigned days_since_1601)
{
    enum { DAYS_TO_1601 = 584694, DAYS_OF_ERA = 146097 }; /* from 0000-03-01 */
    unsigned days = days_since_1601 + DAYS_TO_1601;
    unsigned era = days / DAYS_OF_ERA;
    unsigned day_of_era = days % DAYS_OF_ERA;
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month_from_march = (5 * day_of_year + 2) / 153;
    unsigned month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    unsigned year = 400 * era + year_of_era + (month <= 2 ? 1 : 0);

    p = put_digits(p, year, year > 9999 ? 5 : 4);
    p = put_after(p, '-', month, 2);
    return put_after(p, '-', day_of_year - (153 * month_from_march + 2) / 5 + 1, 2);
}

size_t filetime_text(char text[FILETIME_TEXT_SIZE], uint64_t filetime)
{
    enum { SECONDS_OF_DAY = 86400 };
    uint64_t seconds = filetime / FILETIME_PER_SECOND;
    unsigned in_day = (unsigned)(seconds % SECONDS_OF_DAY);
    char *p = put_date(text, (unsigned)(seconds / SECONDS_OF_DAY));
    p = put_after(p, 'T', in_day / 3600, 2);
    p = put_after(p, ':', in_day / 60 % 60, 2);
    p = put_after(p, ':', in_day % 60, 2);
    p = put_after(p, '.', (unsigned)(filetime % FILETIME_PER_SECOND), 7);
    memcpy(p, "Z", 2);
    return (size_t)(p + 1 - text);
}
