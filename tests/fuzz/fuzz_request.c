/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request of twinrun serve: a line for the path, then Host, Origin and Accept. What
 * is taken must be within its bounds: a name that leads nowhere, text that is text, a limit.
 */
#include "query.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool yes)
{
    if (!yes)
        abort();
}

static void must_be_text(const char *s, size_t room)
{
    must(strlen(s) < room);
    for (; *s; s++)
        must((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void look_at(const struct serve_query *q, int status, const char *why)
{
    must(status == 200 || status == 400 || status == 404);
    must((status == 200) == (why[0] == '\0') || status == 200);
    must((status == 404) == (q->route == SERVE_NOTHING));
    must(strlen(why) < 200);
    if (status != 200)
        return;
    must(q->limit >= 1 && q->limit <= SERVE_LIMIT_MOST);
    must(q->since_ns >= 0 && q->before_ns >= 0);
    must(!*q->before_id || tw_is_hex(q->before_id, 32));
    must((q->route != SERVE_RUN && !serve_is_of_pair(q->route)) || tw_is_hex(q->name, 32));
    must(q->route != SERVE_SEARCH || tw_is_hex(q->name, 32) || serve_search_is_name(q->name));
    must(q->rows >= 1 && q->rows <= SERVE_VIEW_MOST);
    must(q->columns >= 1 && q->columns <= SERVE_VIEW_MOST);
    must(q->from <= UINT32_MAX && q->to <= UINT32_MAX && q->other <= SERVE_OTHER_MOST);
    must_be_text(q->tensor, sizeof q->tensor);
    must(!strchr(q->name, '/') && *q->name != '.');
    must(q->route == SERVE_ASSET || !strchr(q->name, '.'));
    must(q->route != SERVE_PAGE || !*q->name);
    must_be_text(q->project, sizeof q->project);
    must_be_text(q->command, sizeof q->command);
    must_be_text(q->outcome, sizeof q->outcome);
    must_be_text(q->verb, sizeof q->verb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t now_ns = (int64_t)1800000000 * 1000000000;
    char *part[4] = {NULL}, why[200] = "";
    struct serve_query *q = malloc(sizeof *q);
    size_t at = 0;
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *end = at < size ? memchr(data + at, '\n', size - at) : NULL;
        const size_t n = end ? (size_t)(end - data) - at : size - at;
        part[i] = malloc(n + 1); /* as long as it is: an overrun is seen */
        if (part[i]) {
            memcpy(part[i], data + at, n);
            part[i][n] = '\0';
        }
        at += n + (end != NULL);
    }
    if (q && part[0] && part[1] && part[2] && part[3]) {
        look_at(q, serve_query_parse(part[0], now_ns, q, why), why);
        const char *own = serve_host_fault(part[1], true), *any = serve_host_fault(part[1], false);
        must(own || !any); /* what is ours is some host */
        (void)serve_origin_fault(part[2], part[1], false);
        (void)serve_wants_openmetrics(part[3]);
        (void)serve_wants_gzip(part[3]);
        (void)serve_has_tag(part[3], "\"t\"");
        must(!serve_is_public(part[0]) || q->route <= SERVE_ASSET);
    }
    for (size_t i = 0; i < 4; i++)
        free(part[i]);
    free(q);
    return 0;
}
