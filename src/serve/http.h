/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_HTTP_H
#define TW_SERVE_HTTP_H
/* What the files of the thread of the clients share. */
#include "incidents.h"
#include "metrics.h"
#include "workers.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <openssl/ssl.h>

/*
 * Limits. A request must be there whole within REQUEST_S of its first byte, and its answer be taken
 * within ANSWER_S; IDLE_S is how long nothing may move. FIRST_S: what the start waits for a
 * snapshot.
 */
enum {
    SERVE_CONNECTIONS = 600,
    SERVE_EVENT_CLIENTS = 400,
    SERVE_HEADER_BYTES = 16384,
    SERVE_BODY_BYTES = 1024,
    SERVE_FIRST_S = 5,
    SERVE_REQUEST_S = 10,
    SERVE_IDLE_S = 10,
    SERVE_ANSWER_S = 60,
    SERVE_HEARTBEAT_S = 15,
    SERVE_EVENTS_KEPT = 256,
    SERVE_UNREAD_BYTES = 262144, /* of an events client that does not read */
    SERVE_DESCRIPTORS = 4096
};

/* A connection, found by its descriptor. */
struct serve_connection {
    const struct bufferevent *bev; /* NULL: none is known here */
    uint64_t since_ns; /* of the first byte of a request, or of the start of its answer */
    bool answering, events;
};

struct serve_client; /* of /api/v1/events */

struct serve_event {
    uint64_t number;
    char *text;
};

/* Messages of one kind are held back for a while, and counted. */
struct serve_quiet {
    uint64_t until_ns;
    unsigned held;
};
enum serve_fault {
    SERVE_FAULT_TOKEN,
    SERVE_FAULT_HOST,
    SERVE_FAULT_BAD,
    SERVE_FAULT_FULL,
    SERVE_FAULT_SLOW,
    SERVE_FAULT_COMPARISON,
    SERVE_FAULTS
};

struct server {
    const struct tw_serve_options *o;
    const struct tw_front *front;
    struct event_base *base;
    struct evhttp *http;
    struct evconnlistener *listener;
    struct event *wake, *tick, *signals[2];
    SSL_CTX *tls;
    struct serve_workers *workers;
    struct serve_teller *teller; /* NULL: nobody is told of incidents */
    struct serve_state *state;
    struct serve_shown shown;
    bool up;
    bool own; /* reached by this machine alone, without a token: the host must be its own name */
    bool full;
    unsigned char token[32]; /* SHA-256 */
    bool has_token;
    struct serve_connection connection[SERVE_DESCRIPTORS];
    struct serve_client *clients;
    unsigned client_count, ticks;
    struct serve_event event[SERVE_EVENTS_KEPT]; /* a ring: number % SERVE_EVENTS_KEPT */
    uint64_t next_event;                         /* the number of the next one; the first is 1 */
    uint64_t epoch; /* of this process: numbers of another one mean nothing */
    struct serve_quiet quiet[SERVE_FAULTS];
};

/* guard.c: connections */
struct bufferevent *serve_guard_new(struct event_base *base, void *server);
struct serve_connection *serve_guard_of(struct server *s, struct evhttp_request *req);
/* An answer begins; the guard learns by itself when it has ended. */
void serve_guard_answering(struct server *s, struct evhttp_request *req, bool events);
/* A connection ends while a request of it has no answer, or half of one: for its closecb. */
void serve_guard_closed(struct server *s, struct evhttp_connection *conn,
                        struct evhttp_request *req);
void serve_guard_tick(struct server *s);
void serve_fault(struct server *s, enum serve_fault f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* request.c */
void serve_request(struct evhttp_request *req, void *server);
/* Answers that the asker made. */
void serve_send_jobs(struct server *s, struct serve_job *jobs);
double serve_age(const struct server *s);

/* clients.c: server-sent events */
void serve_clients_add(struct server *s, struct evhttp_request *req);
void serve_clients_send(struct server *s, struct serve_news *news);
void serve_clients_heartbeat(struct server *s);
void serve_clients_free(struct server *s);

/* token.c */
int serve_token_read(const char *path, unsigned char digest[32], struct twin_error *err);
bool serve_token_is(const struct server *s, const char *authorization);

#endif
