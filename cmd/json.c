/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the JSON answers of the commands. */
#include "json.h"

#include "base.h"
#include "options.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>

static int print(json_t *j, size_t digits)
{
    int rc = 0;
    char *dumped = j ? json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)) : NULL;
    char *shown = dumped ? tw_printable_json(dumped) : NULL;
    if (!shown || fputs(shown, stdout) < 0 || putchar('\n') < 0) {
        tw_say("cannot write the JSON answer%s", shown ? "" : ": out of memory");
        rc = TW_EXIT_TROUBLE;
    }
    tw_free(shown);
    free(dumped);
    json_decref(j);
    return rc;
}

int tw_json_print(json_t *j)
{
    return print(j, 9);
}

int tw_json_print_exact(json_t *j)
{
    return print(j, 17);
}
