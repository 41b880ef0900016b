/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of CI, pushed to a Pushgateway of Prometheus: for pipelines that nobody scrapes. Only
 * these: a Pushgateway keeps what it was told for ever, and is meant for what ends by itself. The
 * group is a project's, never a run's, so that groups do not grow with runs; a push takes the place
 * of the one before it.
 */
#include "serve.h"

#include "metrics.h"
#include "state.h"
#include "told.h"

#include "base.h"

#include <string.h>

/* The address of a project's group. Its name in base64 with the URL's alphabet: it may hold slashes
 * and nothing. (github.com/prometheus/pushgateway, "URL".) */
static char *group_url(const char *gateway, const char *project)
{
    const char *slash = tw_ends(gateway, "/") ? "" : "/";
    char *name = tw_base64(project, strlen(project)), *url = NULL;
    for (char *c = name; c && *c; c++) {
        if (*c == '+')
            *c = '-';
        else if (*c == '/')
            *c = '_';
    }
    if (name)
        url = tw_printf("%s%smetrics/job/twinrun/project@base64/%s", gateway, slash,
                        *name ? name : "=");
    tw_free(name);
    return url;
}

static int push_project(const struct serve_told *to, const struct tw_slo_project *p, bool *any,
                        struct twin_error *err)
{
    struct tw_buf b = {0};
    *any = serve_metrics_of_ci(p, &b);
    char *url = *any ? group_url(to->url, p->name) : NULL;
    int rc = b.failed || (*any && !url) ? tw_no_memory(err, "for the results of CI") : 0;
    if (rc == 0 && *any) {
        struct tw_http_request q = {
            .url = url, .method = "PUT", .data = b.data, .data_bytes = b.len};
        rc = serve_told_send(to, &q, "Content-Type: text/plain; version=0.0.4; charset=utf-8", err);
    }
    tw_buf_free(&b);
    tw_free(url);
    return rc;
}

int tw_serve_push(const struct tw_serve_options *o, size_t *groups, struct twin_error *err)
{
    const struct serve_told to = {.option = "pushgateway",
                                  .name = "a Pushgateway",
                                  .url = o->pushgateway,
                                  .token_file = o->pushgateway_token_file,
                                  .ca_file = o->pushgateway_ca};
    struct serve_state *s = NULL;
    *groups = 0;
    int rc = serve_told_check(&to, err);
    rc = rc ? rc : tw_http_ready(to.name, err);
    rc = rc ? rc : serve_state_once(o, &s, err);
    for (size_t i = 0; rc == 0 && i < s->counted.count; i++) {
        bool any;
        rc = push_project(&to, &s->counted.project[i], &any, err);
        *groups += rc == 0 && any;
    }
    serve_state_free(s);
    return rc;
}
