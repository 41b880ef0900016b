/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request: may it be answered, what does it ask for, and where does the answer come from: the
 * snapshot, or the asker.
 *
 * libevent takes more than we do: it accepts two lengths, and none of the host; both are what
 * smuggling and rebinding live on, so they are refused here.
 */
#include "http.h"

#include "answer.h"
#include "live.h"

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <string.h>

/* A question that the asker has. conn NULL: its client went away. */
struct pending {
    struct server *server;
    struct evhttp_connection *conn;
    struct evhttp_request *req;
};

/* ---- answers */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } table[] = {{200, "OK"},        {400, "Bad Request"}, {401, "Unauthorized"},
                 {403, "Forbidden"}, {404, "Not Found"},   {405, "Method Not Allowed"},
                 {409, "Conflict"},  {410, "Gone"},        {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].status == status)
            return table[i].reason;
    return "Internal Server Error";
}

static void put_headers(struct evhttp_request *req, const char *type)
{
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    evhttp_add_header(out, "Content-Type", type);
    evhttp_add_header(out, "Cache-Control", "no-store");
    evhttp_add_header(out, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(out, "Referrer-Policy", "no-referrer");
    evhttp_add_header(out, "Cross-Origin-Resource-Policy", "same-origin");
    evhttp_add_header(out, "Content-Security-Policy", "frame-ancestors 'none'");
}

/* Sends the bytes, or to HEAD only their number. b is freed. */
static void reply(struct evhttp_request *req, int status, const char *type, struct tw_buf *b)
{
    char length[24];
    struct evbuffer *body = evbuffer_new();
    const bool head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
    if (b->failed || !body || (!head && evbuffer_add(body, b->data, b->len) != 0))
        status = 500;
    put_headers(req, type);
    if (status != 500) {
        snprintf(length, sizeof length, "%zu", b->len);
        evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Length", length);
    }
    evhttp_send_reply(req, status, reason_of(status), status == 500 ? NULL : body);
    if (body)
        evbuffer_free(body);
    tw_buf_free(b);
}

static void reply_fault(struct evhttp_request *req, int status, const char *why)
{
    struct tw_buf b = {0};
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    /* where the next request begins is not certain after a bad one */
    if (status == 400)
        evhttp_add_header(out, "Connection", "close");
    if (status == 401)
        evhttp_add_header(out, "WWW-Authenticate", "Bearer");
    if (status == 405)
        evhttp_add_header(out, "Allow", "GET, HEAD");
    serve_error(why, &b);
    reply(req, status, "application/json", &b);
}

/* ---- may it be answered */

/* The headers that matter, each of which may come once. */
struct asked {
    const char *host, *origin, *authorization, *length, *encoding, *site, *mode;
};

/* False: one came twice. */
static bool read_headers(struct evhttp_request *req, struct asked *a)
{
    const struct {
        const char *name, **to;
    } wanted[] = {
        {"Host", &a->host},
        {"Origin", &a->origin},
        {"Authorization", &a->authorization},
        {"Content-Length", &a->length},
        {"Transfer-Encoding", &a->encoding},
        {"Sec-Fetch-Site", &a->site},
        {"Sec-Fetch-Mode", &a->mode},
    };
    const struct evkeyval *h;
    *a = (struct asked){.host = NULL};
    for (h = evhttp_request_get_input_headers(req)->tqh_first; h; h = h->next.tqe_next)
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            if (strcasecmp(h->key, wanted[i].name) != 0)
                continue;
            if (*wanted[i].to)
                return false;
            *wanted[i].to = h->value;
        }
    return true;
}

/* A link on another page may lead here; what such a page would read of us may not. */
static const char *site_fault(const struct asked *a)
{
    if (!a->site || strcmp(a->site, "cross-site") != 0)
        return NULL;
    return a->mode && strcmp(a->mode, "navigate") == 0 ? NULL
                                                       : "pages of other sites are not answered";
}

/* True: it was answered, with what is wrong. */
static bool refuse(struct server *s, struct evhttp_request *req)
{
    struct asked a;
    const enum evhttp_cmd_type command = evhttp_request_get_command(req);
    const char *uri = evhttp_request_get_uri(req), *fault = NULL;
    enum serve_fault kind = SERVE_FAULT_BAD;
    int status = 400;
    if (!read_headers(req, &a))
        fault = "expected each of Host, Content-Length, Authorization, Origin once";
    else if (a.encoding || (a.length && strcmp(a.length, "0") != 0))
        fault = "expected a request without a body";
    else if (!uri || *uri != '/')
        fault = "expected a path that begins with /";
    else if ((fault = serve_host_fault(a.host, s->own)))
        kind = SERVE_FAULT_HOST;
    else if ((fault = serve_origin_fault(a.origin, a.host, s->tls)) || (fault = site_fault(&a)))
        status = 403;
    else if (command != EVHTTP_REQ_GET && command != EVHTTP_REQ_HEAD) {
        status = 405;
        fault = "expected GET or HEAD: this server changes nothing";
    } else if (s->has_token && !serve_is_public(uri) && !serve_token_is(s, a.authorization)) {
        status = 401;
        kind = SERVE_FAULT_TOKEN;
        fault = "expected the bearer token of this server";
    }
    if (!fault)
        return false;
    serve_fault(s, kind, "a request was refused with %d: %s", status, fault);
    reply_fault(req, status, fault);
    return true;
}

/* ---- from the snapshot */

double serve_age(const struct server *s)
{
    return s->state ? (double)(tw_realtime_ns() - s->state->made_ns) / 1e9 : 0;
}

static void send_metrics(struct server *s, struct evhttp_request *req)
{
    const char *accept = evhttp_find_header(evhttp_request_get_input_headers(req), "Accept");
    const bool openmetrics = serve_wants_openmetrics(accept);
    const struct serve_live live = {s->o->version, s->up, serve_age(s), s->client_count};
    /* HEAD looks, and no project becomes known by it */
    const bool head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
    struct tw_buf b = {0};
    serve_metrics(s->state, &live, openmetrics, head ? NULL : &s->shown, &b);
    reply(req, 200,
          openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                      : "text/plain; version=0.0.4; charset=utf-8",
          &b);
}

static void send_health(struct server *s, struct evhttp_request *req)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "{\"schema\":\"twinrun.health/1\",\"ledger\":\"%s\",\"snapshot_age_s\":",
                  s->up ? "up" : "down");
    if (s->state)
        tw_buf_printf(&b, "%.3f}", serve_age(s));
    else
        tw_buf_puts(&b, "null}");
    reply(req, s->up ? 200 : 503, "application/json", &b);
}

static void send_schema(struct evhttp_request *req, const struct serve_query *q)
{
    struct tw_buf b = {0};
    size_t n = 0;
    const char *text = serve_schema(q->name, &n);
    if (!text) {
        reply_fault(req, 404, "no schema has this name; /api/v1/schemas lists them");
        return;
    }
    tw_buf_append(&b, text, n);
    reply(req, 200, "application/schema+json", &b);
}

static void send_page(struct server *s, struct evhttp_request *req)
{
    struct tw_buf b = {0};
    serve_page(s->state, s->up, serve_age(s), &b);
    reply(req, 200, "text/html; charset=utf-8", &b);
}

static void send_indicators(struct server *s, struct evhttp_request *req,
                            const struct serve_query *q)
{
    struct tw_buf b = {0};
    serve_indicators(s->state, q, &b);
    reply(req, 200, "application/json", &b);
}

static void send_incidents(struct server *s, struct evhttp_request *req)
{
    const struct serve_incident_rules rules = serve_incident_rules_of(s->o);
    struct tw_buf b = {0};
    serve_incidents_answer(&s->state->incidents, &rules, s->state->made_ns, tw_realtime_ns(), &b);
    reply(req, 200, "application/json", &b);
}

/* ---- from the asker */

/* The question is still on its way; whoever asked is gone. */
static void on_close(struct evhttp_connection *conn, void *user)
{
    struct pending *p = user;
    serve_guard_closed(p->server, conn, p->req);
    p->conn = NULL;
    p->req = NULL;
}

static void ask(struct server *s, struct evhttp_request *req, const struct serve_query *q)
{
    struct pending *p = tw_calloc(1, sizeof *p);
    struct serve_job *job = tw_calloc(1, sizeof *job);
    struct evhttp_connection *conn = evhttp_request_get_connection(req);
    if (p && job) {
        *p = (struct pending){s, conn, req};
        *job = (struct serve_job){.query = *q, .who = p};
        if (serve_workers_ask(s->workers, job)) {
            evhttp_connection_set_closecb(conn, on_close, p);
            /* the ledger may take its time: that is not the client's silence */
            bufferevent_set_timeouts(evhttp_connection_get_bufferevent(conn), NULL, NULL);
            return;
        }
    }
    tw_free(p);
    tw_free(job);
    reply_fault(req, 503, "too many questions are waiting");
}

void serve_send_jobs(struct server *s, struct serve_job *jobs)
{
    const struct timeval wait = {SERVE_IDLE_S, 0};
    while (jobs) {
        struct serve_job *next = jobs->next;
        struct pending *p = jobs->who;
        if (jobs->said[0])
            serve_fault(s, SERVE_FAULT_COMPARISON, "%s", jobs->said);
        if (p->conn) {
            evhttp_connection_set_closecb(p->conn, NULL, NULL);
            bufferevent_set_timeouts(evhttp_connection_get_bufferevent(p->conn), &wait, &wait);
            reply(p->req, jobs->status, "application/json", &jobs->body);
        }
        serve_job_free(jobs);
        jobs = next;
    }
}

/* ---- the request */

void serve_request(struct evhttp_request *req, void *server)
{
    struct server *s = server;
    struct serve_query q;
    char why[200];
    serve_guard_answering(s, req, false);
    if (refuse(s, req))
        return;
    const int status = serve_query_parse(evhttp_request_get_uri(req), tw_realtime_ns(), &q, why);
    if (status != 200) {
        reply_fault(req, status, why);
        return;
    }
    const bool held = q.route == SERVE_METRICS || q.route == SERVE_INDICATORS ||
                      q.route == SERVE_INCIDENT_LIST;
    if (!s->state && held) {
        reply_fault(req, 503, "the ledger is still being read");
        return;
    }
    switch (q.route) {
    case SERVE_PAGE:
    case SERVE_ASSET:
        if (!serve_live_send(req, q.name))
            reply_fault(req, 404, "the live page has no file of this name");
        break;
    case SERVE_PLAIN: send_page(s, req); break;
    case SERVE_HEALTH: send_health(s, req); break;
    case SERVE_METRICS: send_metrics(s, req); break;
    case SERVE_INDICATORS: send_indicators(s, req, &q); break;
    case SERVE_INCIDENT_LIST: send_incidents(s, req); break;
    case SERVE_SCHEMA: send_schema(req, &q); break;
    case SERVE_SCHEMAS: {
        struct tw_buf b = {0};
        serve_schema_list(&b);
        reply(req, 200, "application/json", &b);
        break;
    }
    case SERVE_EVENTS:
        if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD)
            reply_fault(req, 405, "expected GET: events have no end");
        else
            serve_clients_add(s, req);
        break;
    default: ask(s, req, &q); break;
    }
}
