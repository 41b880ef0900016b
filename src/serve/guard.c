/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that hold what others need: evhttp ends a connection on which nothing moves, but not one
 * that sends a byte every few seconds, and it counts none. So each byte that comes is seen here,
 * with when its request began; and while too many descriptors are open no more are accepted (the
 * kernel keeps callers waiting, and idle connections end within seconds).
 *
 * A connection is ended by shutting its socket down: evhttp learns of it as of any end, and frees
 * what is its own.
 */
#include "http.h"

#include "front.h"

#include <event2/bufferevent_ssl.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const uint64_t SECOND_NS = 1000000000, QUIET_NS = (uint64_t)10 * 1000000000;

void serve_fault(struct server *s, enum serve_fault f, const char *format, ...)
{
    struct serve_quiet *q = &s->quiet[f];
    const uint64_t now_ns = tw_monotonic_ns();
    struct tw_buf b = {0};
    va_list ap;
    if (now_ns < q->until_ns) {
        q->held++;
        return;
    }
    va_start(ap, format);
    tw_buf_vprint_safe(&b, format, ap);
    va_end(ap);
    if (q->held)
        tw_buf_printf(&b, " (and %u more since the last such line)", q->held);
    if (!b.failed)
        tw_front_say(s->front, "serve: %s", b.data);
    tw_buf_free(&b);
    *q = (struct serve_quiet){now_ns + QUIET_NS, 0};
}

/* ---- a connection */

static struct serve_connection *at(struct server *s, int fd)
{
    return fd >= 0 && fd < SERVE_DESCRIPTORS ? &s->connection[fd] : NULL;
}

/* One server in a process: a callback of a buffer has one argument, which is its connection. */
static struct server *guarded;

static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *user)
{
    struct bufferevent *bev = user;
    const int fd = bufferevent_getfd(bev);
    struct serve_connection *c = at(guarded, fd);
    if (!info->n_added || !c)
        return;
    if (c->bev != bev)
        *c = (struct serve_connection){.bev = bev};
    if (!c->since_ns)
        c->since_ns = tw_monotonic_ns();
    const bool floods = c->answering && evbuffer_get_length(input) > SERVE_HEADER_BYTES;
    const bool late = !c->answering &&
                      tw_monotonic_ns() - c->since_ns > SERVE_REQUEST_S * SECOND_NS;
    if (!floods && !late)
        return;
    serve_fault(guarded, SERVE_FAULT_SLOW, "a client was cut off: %s",
                late ? "its request took too long" : "it sends more than it asks");
    shutdown(fd, SHUT_RDWR);
}

/* Descriptors below our limit that are open: new ones always get the lowest number. */
static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < SERVE_CONNECTIONS + 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

struct bufferevent *serve_guard_new(struct event_base *base, void *server)
{
    struct server *s = guarded = server;
    SSL *ssl = s->tls ? SSL_new(s->tls) : NULL;
    struct bufferevent *bev;
    if (s->tls)
        bev = ssl ? bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                                   BEV_OPT_CLOSE_ON_FREE)
                  : NULL;
    else
        bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    /* What evhttp would make instead is no TLS, so this must not fail quietly. */
    if (!bev && s->tls)
        event_base_loopbreak(base);
    if (!bev)
        return NULL;
    if (s->tls)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    for (int fd = 0; fd < SERVE_DESCRIPTORS; fd++) /* memory that is used again is no old friend */
        if (s->connection[fd].bev == bev)
            s->connection[fd] = (struct serve_connection){.bev = NULL};
    evbuffer_add_cb(bufferevent_get_input(bev), on_input, bev);
    if (!s->full && open_descriptors() > SERVE_CONNECTIONS) {
        s->full = true;
        evconnlistener_disable(s->listener);
        serve_fault(s, SERVE_FAULT_FULL, "%d connections are open: others have to wait",
                    SERVE_CONNECTIONS);
    }
    return bev;
}

/* ---- answers */

struct serve_connection *serve_guard_of(struct server *s, struct evhttp_request *req)
{
    struct evhttp_connection *conn = evhttp_request_get_connection(req);
    struct bufferevent *bev = conn ? evhttp_connection_get_bufferevent(conn) : NULL;
    return bev ? at(s, bufferevent_getfd(bev)) : NULL;
}

/* The next byte begins another request. */
static void on_complete(struct evhttp_request *req, void *server)
{
    struct serve_connection *c = serve_guard_of(server, req);
    if (c)
        *c = (struct serve_connection){.bev = c->bev};
}

void serve_guard_answering(struct server *s, struct evhttp_request *req, bool events)
{
    struct serve_connection *c = serve_guard_of(s, req);
    if (!c)
        return;
    /* Head and body are written one after the other: without this the body waits for the client's
     * delayed word that it has the head, 40 ms. A unix socket knows nothing of it. */
    setsockopt((int)(c - s->connection), IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->answering = true;
    c->events = events;
    c->since_ns = tw_monotonic_ns();
    evhttp_request_set_on_complete_cb(req, on_complete, s);
}

void serve_guard_closed(struct server *s, struct evhttp_connection *conn,
                        struct evhttp_request *req)
{
    struct serve_connection *c = at(s, bufferevent_getfd(evhttp_connection_get_bufferevent(conn)));
    if (c)
        *c = (struct serve_connection){.bev = NULL};
    /* libevent has let go of it where the client ended, and frees it by itself where we do */
    if (!evhttp_request_get_connection(req))
        evhttp_request_free(req);
}

void serve_guard_tick(struct server *s)
{
    const uint64_t now_ns = tw_monotonic_ns();
    for (int fd = 0; fd < SERVE_DESCRIPTORS; fd++) {
        const struct serve_connection *c = &s->connection[fd];
        if (!c->bev || !c->answering || c->events ||
            now_ns - c->since_ns < SERVE_ANSWER_S * SECOND_NS)
            continue;
        serve_fault(s, SERVE_FAULT_SLOW, "a client was cut off: it did not take its answer");
        shutdown(fd, SHUT_RDWR);
    }
    if (s->full && open_descriptors() < SERVE_CONNECTIONS) {
        s->full = false;
        evconnlistener_enable(s->listener);
    }
}
