/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that tells an Alertmanager. It has a connection to the ledger of its own and keeps
 * nobody waiting. An Alertmanager forgets what it is not told again, and may be started anew, so
 * all incidents are told every half minute; one that does not answer is asked less and less often.
 */
#include "incidents.h"

#include "serve.h"

#include "base.h"

#include "src/net/http.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* LOOK_S: the ledger is asked for its mark; OLD_S: looked at anew in any case. SAID_FOR_S: that an
 * end is told again, for an Alertmanager that loses what it was told. */
enum {
    LOOK_S = 1,
    OLD_S = 60,
    REST = 4,
    AGAIN_S = 30,
    BACK_OFF_S = 60,
    SAID_FOR_S = 900,
    TIMEOUT_S = 10,
    BATCH = 64,
    TOKEN_MOST = 4096,
    WHY_BYTES = 200
};
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
    struct serve_incident_rules rules;
    char *url, *link;
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    pthread_t thread;
    bool runs;
    /* behind the lock */
    bool stop;
    char said[600];
    /* of the thread alone */
    struct twin_ledger *ledger;
    char mark[TWIN_LEDGER_MARK_BYTES];
    int64_t looked_ns, tell_ns; /* when it was looked; when to tell next */
    double took_s;
    struct serve_incidents found;
    struct told *told; /* beside found */
    /* known to the Alertmanager, while the ledger says them no more: their end is told */
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
    pthread_mutex_lock(&t->lock);
    vsnprintf(t->said, sizeof t->said, format, ap);
    pthread_mutex_unlock(&t->lock);
    va_end(ap);
}

bool serve_teller_said(struct serve_teller *t, char *out, size_t room)
{
    if (!t)
        return false;
    pthread_mutex_lock(&t->lock);
    snprintf(out, room, "%s", t->said);
    t->said[0] = '\0';
    pthread_mutex_unlock(&t->lock);
    return *out != '\0';
}

static bool stops(void *user)
{
    struct serve_teller *t = user;
    pthread_mutex_lock(&t->lock);
    const bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
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

/* ---- the ledger */

/* Looks where the ledger changed, or time went on. A ledger that cannot be read is what the watcher
 * says; what was known is told on. */
static int look(struct serve_teller *t, struct twin_error *err)
{
    char mark[TWIN_LEDGER_MARK_BYTES] = "";
    const int64_t now_ns = tw_realtime_ns();
    const uint64_t from = tw_monotonic_ns();
    struct serve_incidents found;
    int rc = t->ledger ? 0 : twin_ledger_open_to_read(t->o->home, t->o->ledger, &t->ledger, err);
    rc = rc ? rc : twin_ledger_change(t->ledger, mark, err);
    if (rc == 0 && strcmp(mark, t->mark) == 0 && now_ns - t->looked_ns < OLD_S * SECOND_NS)
        return 0;
    const bool changed = strcmp(mark, t->mark) != 0;
    rc = rc ? rc : serve_incidents_find(t->ledger, &t->rules, now_ns, &found, err);
    if (rc == 0 && (rc = take(t, &found, now_ns)) != 0)
        serve_incidents_free(&found);
    t->took_s = (double)(tw_monotonic_ns() - from) / 1e9;
    if (rc != 0) {
        twin_ledger_close(t->ledger);
        t->ledger = NULL;
        t->mark[0] = '\0';
        return rc;
    }
    memcpy(t->mark, mark, sizeof mark);
    t->looked_ns = now_ns;
    if (changed && !t->wait_s)
        t->tell_ns = 0; /* at once; one that does not answer is left its time */
    return 0;
}

/* ---- the request */

/* The token's header, read anew each time, since tokens are replaced while servers run. "" in *out
 * where there is no token. */
static int read_token(const char *path, char **out, struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    int rc = path ? tw_read_file(path, TOKEN_MOST, &text, &n, err) : 0;
    while (rc == 0 && n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            rc = twin_error_set(err, TWIN_EINVAL,
                                "%s: expected one line of ASCII without blanks as the token of the "
                                "Alertmanager",
                                path);
    if (rc == 0 && path && !n)
        rc = twin_error_set(err, TWIN_EINVAL, "%s: expected a token, found an empty file", path);
    if (rc == 0)
        *out = path ? tw_printf("Authorization: Bearer %.*s", (int)n, text) : tw_strdup("");
    if (text) {
        explicit_bzero(text, n);
        tw_free(text);
    }
    if (rc == 0 && !*out)
        rc = tw_no_memory(err, "for the token");
    return rc;
}

static int post(struct serve_teller *t, const char *body, struct twin_error *err)
{
    char *token = NULL, *answer = NULL;
    size_t bytes = 0;
    long status = 0;
    int rc = read_token(t->o->alertmanager_token_file, &token, err);
    const char *const headers[] = {"Content-Type: application/json",
                                   "Expect:", rc == 0 && *token ? token : NULL, NULL};
    const struct tw_http_request q = {.url = t->url,
                                      .body = body,
                                      .headers = headers,
                                      .ca_file = t->o->alertmanager_ca,
                                      .timeout_s = TIMEOUT_S,
                                      .server = "an Alertmanager",
                                      .stop = stops,
                                      .user = t};
    rc = rc ? rc : tw_http(&q, &status, &answer, &bytes, err);
    if (rc == 0 && (status < 200 || status > 299)) {
        char *why = tw_printable(answer, bytes < WHY_BYTES ? bytes : WHY_BYTES);
        rc = twin_error_set(err, TWIN_EIO, "%s: expected status 200, found %ld%s%s", t->url, status,
                            why && *why ? ": " : "", why ? why : "");
        tw_free(why);
    }
    if (token) {
        explicit_bzero(token, strlen(token));
        tw_free(token);
    }
    tw_free(answer);
    return rc;
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

/* Waits for so long, or until the end: true. */
static bool rest(struct serve_teller *t, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t all = until.tv_nsec + ns % SECOND_NS;
    until.tv_sec += ns / SECOND_NS + all / SECOND_NS;
    until.tv_nsec = all % SECOND_NS;
    pthread_mutex_lock(&t->lock);
    int rc = 0;
    while (!t->stop && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&t->stopping, &t->lock, &until);
    const bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return stop;
}

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
        struct twin_error err = TWIN_ERROR_INIT;
        look(t, &err);
        tell_in_time(t);
        const int64_t pause = (int64_t)(REST * t->took_s * 1e9);
        t->took_s = 0;
        if (rest(t, pause > LOOK_S * SECOND_NS ? pause : LOOK_S * SECOND_NS))
            return NULL;
    }
}

/* ---- start and end */

/* Does the URL lead to this machine? Then nobody between reads a token. */
static bool is_near(const char *host)
{
    static const char *const near[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        const size_t n = strlen(near[i]);
        if (strncmp(host, near[i], n) == 0 && strchr(":/", host[n]))
            return true;
    }
    return false;
}

static int make_url(const struct tw_serve_options *o, char **out, struct twin_error *err)
{
    const char *url = o->alertmanager;
    const char *host = strstr(url, "://");
    const bool is_tls = tw_starts(url, "https://");
    host = host ? host + 3 : "";
    bool ok = (is_tls || tw_starts(url, "http://")) && *host && *host != '/';
    for (const char *c = url; ok && *c; c++)
        ok = *c > ' ' && *c <= '~' && !strchr("?#@", *c);
    if (!ok)
        return twin_error_set(err, TWIN_EINVAL,
                              "--alertmanager: expected http://HOST:PORT or https://HOST:PORT, "
                              "without a password (that is what --alertmanager-token-file is for), "
                              "found \"%s\"",
                              url);
    if (o->alertmanager_token_file && !is_tls && !is_near(host))
        return twin_error_set(err, TWIN_EINVAL,
                              "--alertmanager %s: expected https:// where a token is sent to "
                              "another machine",
                              url);
    *out = tw_printf("%s%sapi/v2/alerts", url, tw_ends(url, "/") ? "" : "/");
    return *out ? 0 : tw_no_memory(err, "for the server");
}

static int start_thread(struct serve_teller *t, struct twin_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->runs = pthread_create(&t->thread, NULL, tell_on, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->runs ? 0 : twin_error_set(err, TWIN_EIO, "no thread can be started");
}

int serve_teller_start(const struct tw_serve_options *o, const char *link,
                       struct serve_teller **out, struct twin_error *err)
{
    struct serve_teller *t = tw_calloc(1, sizeof *t);
    pthread_condattr_t clock;
    char *token = NULL;
    *out = NULL;
    if (!t)
        return tw_no_memory(err, "for the server");
    t->o = o;
    t->rules = serve_incident_rules_of(o);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->stopping, &clock);
    pthread_condattr_destroy(&clock);
    int rc = make_url(o, &t->url, err);
    rc = rc ? rc : tw_http_ready("an Alertmanager", err);
    rc = rc ? rc : read_token(o->alertmanager_token_file, &token, err);
    if (rc == 0) {
        t->link = *link && !tw_ends(link, "/") ? tw_printf("%s/", link) : tw_strdup(link);
        rc = t->link ? 0 : tw_no_memory(err, "for the server");
    }
    rc = rc ? rc : start_thread(t, err);
    if (token) {
        explicit_bzero(token, strlen(token));
        tw_free(token);
    }
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
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->stopping);
    pthread_mutex_unlock(&t->lock);
    if (t->runs)
        pthread_join(t->thread, NULL);
    free_told(t->told, t->found.count);
    serve_incidents_free(&t->found);
    serve_incidents_free(&t->gone);
    twin_ledger_close(t->ledger);
    pthread_cond_destroy(&t->stopping);
    pthread_mutex_destroy(&t->lock);
    tw_free(t->url);
    tw_free(t->link);
    tw_free(t);
}
