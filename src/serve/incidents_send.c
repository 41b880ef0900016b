/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that tells an Alertmanager what the watcher found; it keeps nobody waiting. While the
 * ledger cannot be read, what was known is told on. An Alertmanager forgets what it is not told
 * again, and may be started anew, so all incidents are told every half minute; one that does not
 * answer is asked less and less often.
 */
#include "incidents.h"

#include "serve.h"
#include "thread.h"
#include "told.h"
#include "workers.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* LOOK_S: how often the watcher is asked. SAID_FOR_S: that an end is told again, for an
 * Alertmanager that loses what it was told. */
enum { LOOK_S = 1, AGAIN_S = 30, BACK_OFF_S = 60, SAID_FOR_S = 900, BATCH = 64 };
static const int64_t SECOND_NS = 1000000000;

/* An incident of `found`, with what an Alertmanager knows it by. */
struct told {
    struct serve_incident *i;
    char *key;
    bool is_known;       /* it was told while it went on */
    int64_t end_told_ns; /* its end was told first; 0: not yet */
};

struct serve_teller {
    const struct tw_serve_options *o;
    struct serve_workers *workers;
    char *url, *link;
    struct serve_end end;
    pthread_t thread;
    bool runs;
    char said[600]; /* behind the lock of the end */
    /* of the thread alone */
    int64_t tell_ns;               /* when to tell next */
    struct serve_incidents *fresh; /* that are not in `found` yet */
    struct serve_incidents found;
    struct told *told; /* beside found */
    /* known to the Alertmanager, while the watcher says them no more: their end is told */
    struct serve_incidents gone;
    size_t left_out;
    unsigned wait_s; /* 0: the last request went well */
};

static void say(struct serve_teller *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(struct serve_teller *t, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    pthread_mutex_lock(&t->end.lock);
    vsnprintf(t->said, sizeof t->said, format, ap);
    pthread_mutex_unlock(&t->end.lock);
    va_end(ap);
}

bool serve_teller_said(struct serve_teller *t, char *out, size_t room)
{
    if (!t)
        return false;
    pthread_mutex_lock(&t->end.lock);
    snprintf(out, room, "%s", t->said);
    t->said[0] = '\0';
    pthread_mutex_unlock(&t->end.lock);
    return *out != '\0';
}

static bool stops(void *user)
{
    struct serve_teller *t = user;
    pthread_mutex_lock(&t->end.lock);
    const bool stop = t->end.stop;
    pthread_mutex_unlock(&t->end.lock);
    return stop;
}

/* ---- what to tell */

static void free_told(struct told *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        tw_free(list[i].key);
    tw_free(list);
}

/* Carries over what the Alertmanager knows of an incident. */
static void remember(struct serve_teller *t, struct told *x)
{
    for (size_t i = 0; i < t->found.count; i++) {
        struct told *before = &t->told[i];
        if (strcmp(before->key, x->key) != 0)
            continue;
        x->is_known = before->is_known;
        if (before->i->end_ns == x->i->end_ns)
            x->end_told_ns = before->end_told_ns;
        before->is_known = false;
        return;
    }
}

/* What it was told and the ledger says no more (a run that is of another project now) ends. Of a
 * flood of those the Alertmanager lets the rest go by itself. */
static void let_go(struct serve_teller *t, int64_t now_ns)
{
    for (size_t i = 0; i < t->found.count; i++) {
        struct serve_incident *old = t->told[i].i;
        if (!t->told[i].is_known || old->end_ns <= now_ns || t->gone.count == SERVE_INCIDENTS)
            continue;
        if (!t->gone.item && !(t->gone.item = tw_calloc(SERVE_INCIDENTS, sizeof *old)))
            return;
        t->gone.item[t->gone.count] = *old;
        t->gone.item[t->gone.count++].end_ns = now_ns;
        *old = (struct serve_incident){.page = false};
    }
}

static void free_fresh(struct serve_teller *t)
{
    if (t->fresh)
        serve_incidents_free(t->fresh);
    tw_free(t->fresh);
    t->fresh = NULL;
}

/* Puts what was found in the place of what was before. */
static int take(struct serve_teller *t, struct serve_incidents *found, int64_t now_ns)
{
    struct told *list = tw_calloc(found->count + 1, sizeof *list);
    int rc = list ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < found->count; i++) {
        list[i] = (struct told){.i = &found->item[i], .key = serve_incident_key(&found->item[i])};
        rc = list[i].key ? 0 : TWIN_ENOMEM;
    }
    if (rc != 0) {
        free_told(list, found->count);
        return rc;
    }
    for (size_t i = 0; i < found->count; i++)
        remember(t, &list[i]);
    let_go(t, now_ns);
    free_told(t->told, t->found.count);
    serve_incidents_free(&t->found);
    t->found = *found;
    t->told = list;
    if (found->left_out > t->left_out)
        say(t,
            "%zu runs that diverged are left out of what Alertmanager is told: there are more "
            "than %d",
            found->left_out, SERVE_INCIDENTS);
    t->left_out = found->left_out;
    return 0;
}

/* Takes what the watcher found since the last time; without memory it is tried again. */
static void look(struct serve_teller *t)
{
    struct serve_incidents *newer = serve_workers_take_incidents(t->workers);
    if (newer) {
        free_fresh(t);
        t->fresh = newer;
    }
    if (!t->fresh || take(t, t->fresh, tw_realtime_ns()) != 0)
        return;
    tw_free(t->fresh); /* what is in it is in `found` */
    t->fresh = NULL;
    if (!t->wait_s)
        t->tell_ns = 0; /* at once; one that does not answer is left its time */
}

/* ---- the request */

/* The Alertmanager as the command line has it. */
static struct serve_told alertmanager(const struct tw_serve_options *o)
{
    return (struct serve_told){.option = "alertmanager",
                               .name = "an Alertmanager",
                               .url = o->alertmanager,
                               .token_file = o->alertmanager_token_file,
                               .ca_file = o->alertmanager_ca};
}

static int post(struct serve_teller *t, const char *body, struct twin_error *err)
{
    const struct serve_told to = alertmanager(t->o);
    struct tw_http_request q = {.url = t->url, .body = body, .stop = stops, .user = t};
    return serve_told_send(&to, &q, "Content-Type: application/json", err);
}

/* Is this one to be told now? Its end is told for a while, and no longer. */
static bool is_due(const struct told *x, int64_t now_ns)
{
    return x->i->end_ns > now_ns || !x->end_told_ns ||
           now_ns - x->end_told_ns < SAID_FOR_S * SECOND_NS;
}

static int post_list(struct serve_teller *t, const struct serve_incident *const *list, size_t count,
                     int64_t now_ns, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i += BATCH) {
        const size_t n = count - i < BATCH ? count - i : BATCH;
        char *body = serve_incidents_body(list + i, n, t->link, now_ns);
        rc = body ? post(t, body, err) : tw_no_memory(err, "for an alert");
        tw_free(body);
    }
    return rc;
}

/* Tells all that there is: what is gone first, since the same run may be an incident again. */
static int tell(struct serve_teller *t, int64_t now_ns, struct twin_error *err)
{
    const struct serve_incident **list = tw_calloc(t->gone.count + t->found.count + 1,
                                                   sizeof(struct serve_incident *));
    size_t n = 0;
    if (!list)
        return tw_no_memory(err, "for alerts");
    for (size_t i = 0; i < t->gone.count; i++)
        list[n++] = &t->gone.item[i];
    for (size_t i = 0; i < t->found.count; i++)
        if (is_due(&t->told[i], now_ns))
            list[n++] = t->told[i].i;
    const int rc = post_list(t, list, n, now_ns, err);
    tw_free(list);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < t->found.count; i++) {
        struct told *x = &t->told[i];
        if (x->i->end_ns > now_ns)
            x->is_known = true;
        else if (!x->end_told_ns)
            x->end_told_ns = now_ns;
    }
    serve_incidents_free(&t->gone);
    return 0;
}

/* ---- the thread */

/* Tells when it is time, and decides when the next time is. */
static void tell_in_time(struct serve_teller *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const int64_t now_ns = (int64_t)tw_monotonic_ns();
    if (now_ns < t->tell_ns)
        return;
    if (tell(t, tw_realtime_ns(), &err) == 0) {
        if (t->wait_s)
            say(t, "Alertmanager is told of incidents again");
        t->wait_s = 0;
        t->tell_ns = now_ns + AGAIN_S * SECOND_NS;
        return;
    }
    if (!t->wait_s && !stops(t))
        say(t, "Alertmanager is not told of incidents, which is tried again: %s", err.message);
    t->wait_s = t->wait_s ? 2 * t->wait_s : 1;
    if (t->wait_s > BACK_OFF_S)
        t->wait_s = BACK_OFF_S;
    t->tell_ns = (int64_t)tw_monotonic_ns() + t->wait_s * SECOND_NS;
}

static void *tell_on(void *user)
{
    struct serve_teller *t = user;
    for (;;) {
        look(t);
        tell_in_time(t);
        if (serve_end_rest(&t->end, LOOK_S * SECOND_NS))
            return NULL;
    }
}

/* ---- start and end */

static int make_url(const struct tw_serve_options *o, char **out, struct twin_error *err)
{
    const struct serve_told to = alertmanager(o);
    const int rc = serve_told_check(&to, err);
    if (rc != 0)
        return rc;
    *out = tw_printf("%s%sapi/v2/alerts", to.url, tw_ends(to.url, "/") ? "" : "/");
    return *out ? 0 : tw_no_memory(err, "for the server");
}

int serve_teller_start(const struct tw_serve_options *o, const char *link, struct serve_workers *w,
                       struct serve_teller **out, struct twin_error *err)
{
    struct serve_teller *t = tw_calloc(1, sizeof *t);
    const struct serve_told to = alertmanager(o);
    char *token = NULL;
    *out = NULL;
    if (!t)
        return tw_no_memory(err, "for the server");
    t->o = o;
    t->workers = w;
    serve_end_init(&t->end);
    int rc = make_url(o, &t->url, err);
    rc = rc ? rc : tw_http_ready("an Alertmanager", err);
    rc = rc ? rc : serve_told_token(&to, &token, err);
    if (rc == 0) {
        t->link = *link && !tw_ends(link, "/") ? tw_printf("%s/", link) : tw_strdup(link);
        rc = t->link ? 0 : tw_no_memory(err, "for the server");
    }
    if (rc == 0 && !(t->runs = serve_thread_start(&t->thread, tell_on, t)))
        rc = twin_error_set(err, TWIN_EIO, "no thread can be started");
    serve_told_token_free(token);
    if (rc != 0)
        serve_teller_stop(t);
    else
        *out = t;
    return rc;
}

void serve_teller_stop(struct serve_teller *t)
{
    if (!t)
        return;
    serve_end_tell(&t->end);
    if (t->runs)
        pthread_join(t->thread, NULL);
    free_told(t->told, t->found.count);
    serve_incidents_free(&t->found);
    serve_incidents_free(&t->gone);
    free_fresh(t);
    serve_end_destroy(&t->end);
    tw_free(t->url);
    tw_free(t->link);
    tw_free(t);
}
