/* SPDX-License-Identifier: Apache-2.0 */
/* The word that was probably meant. Edit distance with transpositions (optimal string alignment),
 * three rows. */
#include "base.h"

#include <string.h>

/* How many slips (a letter too many, too few, wrong, or two exchanged) lie between two words, the
 * first 48 bytes of each. Three rows of the table suffice. */
static unsigned edit_distance(const char *a, const char *b)
{
    enum { CUT = 48 };
    unsigned rows[3][CUT + 1];
    size_t n = strnlen(a, CUT), m = strnlen(b, CUT);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *cur = rows[i % 3], *prev = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        cur[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = prev[j - 1] + (a[i - 1] != b[j - 1]);
            best = prev[j] + 1 < best ? prev[j] + 1 : best;
            best = cur[j - 1] + 1 < best ? cur[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            cur[j] = best;
        }
    }
    return rows[n % 3][m];
}

/* A name that begins with the word is near, too. Of equally near ones the first counts. */
const char *tw_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    /* one per three letters */
    unsigned slips = (unsigned)strlen(word) / 3, best_distance = slips ? slips : 1;
    for (; *names; names++) {
        unsigned d = strlen(word) >= 2 && tw_starts(*names, word) ? 1 : edit_distance(word, *names);
        if (d <= best_distance && (!best || d < best_distance)) {
            best = *names;
            best_distance = d;
        }
    }
    return best;
}
