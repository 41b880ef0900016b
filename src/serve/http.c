/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: where it listens, what it demands of who connects, and its loop. All clients are
 * served by this one thread.
 */
#include "http.h"

#include "front.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- addresses */

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
    struct sockaddr_storage room;
};

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

static int read_address(const char *text, union address *a, socklen_t *n, struct twin_error *err)
{
    char host[64] = "";
    uint64_t port = 0;
    const char *colon = strrchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : sizeof host;
    const bool bracket = *text == '[' && length > 2 && colon[-1] == ']';
    const bool read = length < sizeof host && tw_parse_u64(colon + 1, 65535, &port) == 0;
    memset(a, 0, sizeof *a);
    if (read)
        memcpy(host, text + bracket, length - (size_t)2 * bracket);
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    if (read && bracket && inet_pton(AF_INET6, host, &a->in6.sin6_addr) == 1) {
        a->any.sa_family = AF_INET6;
        a->in6.sin6_port = htons((uint16_t)port);
        *n = sizeof a->in6;
        return 0;
    }
    if (read && !bracket && inet_pton(AF_INET, host, &a->in.sin_addr) == 1) {
        a->any.sa_family = AF_INET;
        a->in.sin_port = htons((uint16_t)port);
        *n = sizeof a->in;
        return 0;
    }
    return twin_error_set(err, TWIN_EINVAL,
                          "--listen: expected an address and a port (127.0.0.1:8471, [::1]:8471, "
                          "0.0.0.0:8471), found \"%s\"",
                          text);
}

/* A socket that nobody listens on any more is in the way and no more than that; anything else that
 * has this name is not ours to remove. */
static int clear_path(const char *path, const union address *a, socklen_t n, struct twin_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return twin_error_set(err, TWIN_EINVAL,
                              "--unix: expected a name that is free, or a socket, found a file: %s",
                              path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool heard = fd >= 0 && connect(fd, &a->any, n) == 0;
    if (fd >= 0)
        close(fd);
    if (heard)
        return twin_error_set(err, TWIN_EBUSY, "--unix: another server listens on %s", path);
    return unlink(path) == 0 ? 0 : twin_error_system(err, "cannot remove the old socket %s", path);
}

static int unix_address(const char *path, union address *a, socklen_t *n, struct twin_error *err)
{
    memset(a, 0, sizeof *a);
    if (!*path || strlen(path) >= sizeof a->un.sun_path)
        return twin_error_set(err, TWIN_EINVAL,
                              "--unix: expected a path of 1 to %zu bytes, found %zu",
                              sizeof a->un.sun_path - 1, strlen(path));
    a->un.sun_family = AF_UNIX;
    memcpy(a->un.sun_path, path, strlen(path) + 1);
    *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
    return clear_path(path, a, *n, err);
}

/* ---- TLS */

static int start_tls(struct server *s, struct twin_error *err)
{
    const struct tw_serve_options *o = s->o;
    if (!o->cert)
        return 0;
    ERR_clear_error();
    s->tls = SSL_CTX_new(TLS_server_method());
    if (!s->tls || SSL_CTX_set_min_proto_version(s->tls, TLS1_2_VERSION) != 1)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "libssl cannot serve TLS 1.2");
    if (SSL_CTX_use_certificate_chain_file(s->tls, o->cert) != 1)
        return twin_error_set(err, TWIN_EINVAL, "--cert: expected certificates in PEM, in %s: %s",
                              o->cert, ERR_reason_error_string(ERR_peek_last_error()));
    if (SSL_CTX_use_PrivateKey_file(s->tls, o->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(s->tls) != 1)
        return twin_error_set(err, TWIN_EINVAL,
                              "--key: expected the certificate's private key in PEM, in %s: %s",
                              o->key, ERR_reason_error_string(ERR_peek_last_error()));
    return 0;
}

/* ---- what is demanded */

/* Beyond this machine whoever connects has to know the token, and nobody between may read it. */
static int check_options(const struct server *s, const union address *a, struct twin_error *err)
{
    const struct tw_serve_options *o = s->o;
    if (!o->cert != !o->key)
        return twin_error_set(err, TWIN_EINVAL, "--cert and --key: expected both, or none");
    if (o->unix_path || is_loopback(a))
        return 0;
    if (!o->token_file || !o->cert)
        return twin_error_set(err, TWIN_EINVAL,
                              "--listen %s: other machines reach this address, so --token-file, "
                              "--cert and --key are needed; 127.0.0.1:PORT and --unix PATH need "
                              "none of them",
                              o->listen);
    return 0;
}

/* ---- the loop */

static void on_wake(evutil_socket_t fd, short what, void *server)
{
    struct server *s = server;
    struct serve_taken t;
    (void)fd;
    (void)what;
    serve_workers_take(s->workers, &t);
    s->up = t.up;
    if (t.said[0])
        tw_front_say(s->front, "serve: %s", t.said);
    if (t.state) {
        serve_workers_drop(s->workers, s->state);
        s->state = t.state;
    }
    serve_send_jobs(s, t.done);
    serve_clients_send(s, t.news);
}

static void on_tick(evutil_socket_t fd, short what, void *server)
{
    struct server *s = server;
    char said[600];
    (void)fd;
    (void)what;
    if (serve_teller_said(s->teller, said, sizeof said))
        tw_front_say(s->front, "serve: %s", said);
    serve_guard_tick(s);
    if (++s->ticks % SERVE_HEARTBEAT_S == 0)
        serve_clients_heartbeat(s);
}

static void on_signal(evutil_socket_t number, short what, void *server)
{
    struct server *s = server;
    (void)number;
    (void)what;
    event_base_loopbreak(s->base);
}

static int start_events(struct server *s, int wake, struct twin_error *err)
{
    static const int stops[] = {SIGINT, SIGTERM};
    const struct timeval second = {1, 0};
    bool ok = true;
    s->wake = event_new(s->base, wake, EV_READ | EV_PERSIST, on_wake, s);
    s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    ok = s->wake && s->tick && event_add(s->wake, NULL) == 0 && event_add(s->tick, &second) == 0;
    for (size_t i = 0; ok && i < 2; i++) {
        s->signals[i] = evsignal_new(s->base, stops[i], on_signal, s);
        ok = s->signals[i] && event_add(s->signals[i], NULL) == 0;
    }
    return ok ? 0 : tw_no_memory(err, "for the server");
}

static int start_http(struct server *s, struct twin_error *err)
{
    s->base = event_base_new();
    s->http = s->base ? evhttp_new(s->base) : NULL;
    if (!s->http)
        return tw_no_memory(err, "for the server");
    evhttp_set_max_headers_size(s->http, SERVE_HEADER_BYTES);
    evhttp_set_max_body_size(s->http, SERVE_BODY_BYTES);
    evhttp_set_timeout(s->http, SERVE_IDLE_S);
    evhttp_set_default_content_type(s->http, NULL);
    /* all that evhttp knows: what is not GET or HEAD gets an answer of ours */
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
                                            EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                            EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
                                            EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
    evhttp_set_bevcb(s->http, serve_guard_new, s);
    evhttp_set_gencb(s->http, serve_request, s);
    return 0;
}

static int start_listening(struct server *s, const union address *a, socklen_t n,
                           struct twin_error *err)
{
    const mode_t before = umask(s->o->unix_path ? 0177 : 0022);
    s->listener = evconnlistener_new_bind(
        s->base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 128,
        &a->any, (int)n);
    const int failed = errno;
    umask(before);
    errno = failed;
    if (!s->listener)
        return twin_error_system(err, "cannot listen on %s",
                                 s->o->unix_path ? s->o->unix_path : s->o->listen);
    if (!evhttp_bind_listener(s->http, s->listener))
        return tw_no_memory(err, "for the server");
    return 0;
}

/* Where it is: with port 0 only the system knows. A URL that ends in '/', or the socket. */
static void find_where(const struct server *s, char *out, size_t room)
{
    union address a;
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    if (s->o->unix_path) {
        snprintf(out, room, "%s", s->o->unix_path);
        return;
    }
    if (getsockname(evconnlistener_get_fd(s->listener), &a.any, &n) == 0) {
        const bool six = a.any.sa_family == AF_INET6;
        const void *number = six ? (const void *)&a.in6.sin6_addr : (const void *)&a.in.sin_addr;
        inet_ntop(a.any.sa_family, number, host, sizeof host);
        port = ntohs(six ? a.in6.sin6_port : a.in.sin_port);
    }
    const bool bracket = strchr(host, ':') != NULL;
    snprintf(out, room, "%s://%s%s%s:%u/", s->tls ? "https" : "http", bracket ? "[" : "", host,
             bracket ? "]" : "", port);
}

/* Starts to tell of incidents, if somebody is to be told, and says where the server is. */
static int start_telling(struct server *s, struct twin_error *err)
{
    char where[256];
    int rc = 0;
    find_where(s, where, sizeof where);
    if (s->o->alertmanager) {
        const char *reached = s->o->unix_path ? "" : where;
        rc = serve_teller_start(s->o, s->o->external_url ? s->o->external_url : reached, s->workers,
                                &s->teller, err);
    }
    if (rc == 0)
        tw_front_say(s->front, "serve: listening on %s", where);
    return rc;
}

static void stop(struct server *s)
{
    serve_teller_stop(s->teller);
    serve_clients_free(s);
    if (s->http) /* with its listener, once that is bound */
        evhttp_free(s->http);
    struct event *events[] = {s->wake, s->tick, s->signals[0], s->signals[1]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            event_free(events[i]);
    if (s->base)
        event_base_free(s->base);
    serve_workers_stop(s->workers); /* with questions that connections held until now */
    SSL_CTX_free(s->tls);
    serve_state_free(s->state);
    serve_shown_free(&s->shown);
    if (s->o->unix_path && s->listener)
        unlink(s->o->unix_path);
    tw_free(s);
}

static int start(struct server *s, struct twin_error *err)
{
    union address a;
    socklen_t n = 0;
    int wake = -1;
    int rc = s->o->unix_path ? unix_address(s->o->unix_path, &a, &n, err)
                             : read_address(s->o->listen, &a, &n, err);
    rc = rc ? rc : check_options(s, &a, err);
    if (rc == 0 && s->o->token_file)
        rc = serve_token_read(s->o->token_file, s->token, err);
    s->has_token = s->o->token_file != NULL;
    s->own = !s->o->unix_path && !s->has_token;
    rc = rc ? rc : start_tls(s, err);
    rc = rc ? rc : start_http(s, err);
    rc = rc ? rc : start_listening(s, &a, n, err);
    rc = rc ? rc : serve_workers_start(s->o, &s->workers, &wake, err);
    return rc ? rc : start_events(s, wake, err);
}

/* Of most ledgers it is there within a moment; of a huge one it comes later. */
static void wait_for_snapshot(struct server *s)
{
    struct pollfd p = {.fd = event_get_fd(s->wake), .events = POLLIN};
    const uint64_t end_ns = tw_monotonic_ns() + (uint64_t)SERVE_FIRST_S * 1000000000;
    while (!s->state && s->up && tw_monotonic_ns() < end_ns)
        if (poll(&p, 1, 100) > 0)
            on_wake(-1, 0, s);
    if (!s->state)
        tw_front_say(s->front, "serve: the ledger is still being read: metrics come later");
}

int tw_serve(const struct tw_serve_options *o, const struct tw_front *front, struct twin_error *err)
{
    struct server *s = tw_calloc(1, sizeof *s);
    if (!s)
        return tw_no_memory(err, "for the server");
    s->o = o;
    s->front = front;
    s->up = true;
    s->next_event = 1;
    s->epoch = (uint64_t)tw_realtime_ns() >> 10;
    signal(SIGPIPE, SIG_IGN);
    int rc = start(s, err);
    if (rc == 0) {
        wait_for_snapshot(s);
        rc = start_telling(s, err);
        if (rc == 0 && event_base_dispatch(s->base) < 0)
            rc = twin_error_set(err, TWIN_EIO, "the loop of events failed");
    }
    stop(s);
    return rc;
}
