/* SPDX-License-Identifier: Apache-2.0 */
/* Commands with a number in place of a word in braces. */
#include "filled.h"

#include "base.h"

#include <string.h>

/* One word; malloc'ed. NULL: no memory. */
static char *fill_in(const char *word, const char *placeholder, uint64_t number)
{
    struct tw_buf b = {0};
    for (const char *at; (at = strstr(word, placeholder)); word = at + strlen(placeholder)) {
        tw_buf_append(&b, word, (size_t)(at - word));
        tw_buf_printf(&b, "%llu", (unsigned long long)number);
    }
    tw_buf_puts(&b, word);
    return tw_buf_steal(&b);
}

void tw_filled_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        tw_free(argv[i]);
    tw_free(argv);
}

char **tw_filled(char *const *argv, const char *placeholder, uint64_t number)
{
    size_t n = 0;
    while (argv[n])
        n++;
    char **filled = tw_calloc(n + 1, sizeof *filled);
    for (size_t i = 0; filled && i < n; i++)
        if (!(filled[i] = fill_in(argv[i], placeholder, number))) {
            tw_filled_free(filled);
            return NULL;
        }
    return filled;
}
