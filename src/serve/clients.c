/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events: each client gets what is new from now on, or from the event on that it names
 * by Last-Event-ID while that is among the last ones. An id is EPOCH-NUMBER: one of another process
 * means nothing here, and the client is told to read the lists again (event `reset`).
 */
#include "http.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct serve_client {
    struct server *server;
    struct evhttp_connection *conn;
    struct evhttp_request *req;
    struct serve_client *next;
};

static void on_close(struct evhttp_connection *conn, void *user)
{
    struct serve_client *c = user;
    struct server *s = c->server;
    serve_guard_closed(s, conn, c->req);
    for (struct serve_client **p = &s->clients; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    s->client_count--;
    tw_free(c);
}

/* A client that does not read is let go; its end is seen like any other. */
static void send_text(struct serve_client *c, const char *text, size_t n)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(c->conn);
    if (evbuffer_get_length(bufferevent_get_output(bev)) > SERVE_UNREAD_BYTES) {
        shutdown(bufferevent_getfd(bev), SHUT_RDWR);
        return;
    }
    struct evbuffer *b = evbuffer_new();
    if (b && evbuffer_add(b, text, n) == 0)
        evhttp_send_reply_chunk(c->req, b);
    if (b)
        evbuffer_free(b);
}

static void send_event(struct serve_client *c, const struct serve_event *e)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "id: %" PRIx64 "-%" PRIu64 "\n%s\n", c->server->epoch, e->number, e->text);
    if (!b.failed)
        send_text(c, b.data, b.len);
    tw_buf_free(&b);
}

static void send_reset(struct serve_client *c)
{
    static const char text[] = "event: reset\ndata: {}\n\n";
    send_text(c, text, sizeof text - 1);
}

/* What came since the event that the client names. */
static void catch_up(struct serve_client *c, const char *last)
{
    struct server *s = c->server;
    uint64_t epoch = 0, number = 0;
    if (sscanf(last, "%16" SCNx64 "-%19" SCNu64, &epoch, &number) != 2 || epoch != s->epoch ||
        number >= s->next_event || number + SERVE_EVENTS_KEPT < s->next_event) {
        send_reset(c);
        return;
    }
    for (uint64_t n = number + 1; n < s->next_event; n++) {
        const struct serve_event *e = &s->event[n % SERVE_EVENTS_KEPT];
        if (e->number == n && e->text)
            send_event(c, e);
    }
}

void serve_clients_add(struct server *s, struct evhttp_request *req)
{
    struct evhttp_connection *conn = evhttp_request_get_connection(req);
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    const char *last = evhttp_find_header(evhttp_request_get_input_headers(req), "Last-Event-ID");
    struct serve_client *c = s->client_count < SERVE_EVENT_CLIENTS ? tw_calloc(1, sizeof *c) : NULL;
    if (!c) {
        evhttp_add_header(out, "Retry-After", "30");
        evhttp_send_reply(req, 503, "Too many clients", NULL);
        return;
    }
    *c = (struct serve_client){s, conn, req, s->clients};
    s->clients = c;
    s->client_count++;
    evhttp_add_header(out, "Content-Type", "text/event-stream; charset=utf-8");
    serve_guard_answering(s, req, true);
    evhttp_connection_set_closecb(conn, on_close, c);
    evhttp_send_reply_start(req, 200, "OK");
    /* nothing comes from the client any more, which is no reason to end */
    const struct timeval write_wait = {SERVE_IDLE_S, 0};
    bufferevent_set_timeouts(evhttp_connection_get_bufferevent(conn), NULL, &write_wait);
    send_text(c, ": twinrun\nretry: 5000\n\n", strlen(": twinrun\nretry: 5000\n\n"));
    if (last)
        catch_up(c, last);
}

void serve_clients_send(struct server *s, struct serve_news *news)
{
    while (news) {
        struct serve_news *next = news->next;
        struct serve_event *e = &s->event[s->next_event % SERVE_EVENTS_KEPT];
        struct serve_client *following;
        if (news->text) {
            tw_free(e->text);
            *e = (struct serve_event){s->next_event++, news->text};
        } else {
            s->next_event += SERVE_EVENTS_KEPT; /* nobody can catch up over this */
        }
        for (struct serve_client *c = s->clients; c; c = following) {
            following = c->next;
            if (news->text)
                send_event(c, e);
            else
                send_reset(c);
        }
        tw_free(news);
        news = next;
    }
}

void serve_clients_heartbeat(struct server *s)
{
    struct serve_client *following;
    for (struct serve_client *c = s->clients; c; c = following) {
        following = c->next;
        send_text(c, ":\n\n", 3);
    }
}

void serve_clients_free(struct server *s)
{
    while (s->clients) {
        struct serve_client *c = s->clients;
        evhttp_connection_set_closecb(c->conn, NULL, NULL);
        s->clients = c->next;
        tw_free(c);
    }
    for (size_t i = 0; i < SERVE_EVENTS_KEPT; i++)
        tw_free(s->event[i].text);
}
