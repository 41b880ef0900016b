/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a token held against the right one in constant time? Run by valgrind (tests/agents/
 * test_serve_requests.py): the right one's digest is memory that was never written, and memcheck
 * reports each branch and each address that depends on such memory. Nothing here looks at the
 * answer itself, which does.
 *
 *     token_secret GUESS            as the server does it
 *     token_secret GUESS broken     as it must not be done: memcheck has to report this
 */
#include "http.h"

#include <stdio.h>
#include <string.h>

static volatile unsigned char sink;

int main(int argc, char **argv)
{
    static struct server s;
    unsigned char *never = tw_reallocarray(NULL, 1, sizeof s.token);
    char *guess = tw_printf("Bearer %s", argc > 1 ? argv[1] : "");
    if (!never || !guess)
        return 1;
    memcpy(s.token, never, sizeof s.token);
    sink = (unsigned char)serve_token_is(&s, guess);
    for (size_t i = 0; argc > 2 && i < sizeof s.token; i++)
        if (s.token[i] != (unsigned char)guess[i % strlen(guess)]) {
            sink = (unsigned char)i; /* seen from outside, or the compiler drops the loop */
            break;
        }
    tw_free(never);
    tw_free(guess);
    return 0;
}
