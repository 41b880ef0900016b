/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked once more, when a server did not answer: a request by itself never is. */
#include "http.h"

#include <time.h>

enum { TRIES = 3 };

/* Behind try number `tried`, which is not the last one. */
static void wait_before_next(const struct tw_http_try *t, int tried)
{
    static const struct timespec wait[TRIES - 1] = {{0, 200000000}, {1, 0}};
    const struct timespec asked = {(time_t)t->later_s, 0};
    nanosleep(asked.tv_sec > wait[tried].tv_sec ? &asked : &wait[tried], NULL);
}

int tw_http_persist(int (*attempt)(void *user, struct tw_http_try *out, struct twin_error *err),
                    void *user, struct twin_error *err)
{
    for (int i = 0;; i++) {
        struct twin_error why = TWIN_ERROR_INIT;
        struct tw_http_try t = {.passes = false};
        const int rc = attempt(user, &t, &why);
        if (rc == 0)
            return 0;
        if (!t.passes || i + 1 == TRIES)
            return twin_error_set(err, rc, "%s", why.message);
        wait_before_next(&t, i);
    }
}
