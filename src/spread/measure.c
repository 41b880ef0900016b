/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alpha and beta of this machine, for twinrun simulate when the person gives none: messages there
 * and back over TCP on the loopback, between two threads. Half of the median time of small messages
 * is alpha; what large ones take beyond that, for each byte, is beta.
 */
#include "base.h"

#include "src/spread/spread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Sizes in bytes, and rounds of each: together about a quarter of a second. */
enum { SMALL = 8, LARGE = 1 << 20, SMALL_ROUNDS = 400, LARGE_ROUNDS = 40 };

/* Sends or receives all n bytes. False: the other end is gone, or the time limit of the socket
 * passed. */
static bool move(int fd, char *data, size_t n, bool out)
{
    while (n > 0) {
        ssize_t k = out ? send(fd, data, n, MSG_NOSIGNAL) : recv(fd, data, n, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

/* The other end: sends each message back. `data` is its own room of LARGE bytes. */
struct echo {
    int fd;
    char *data;
};

static void *echo(void *p)
{
    struct echo *e = p;
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < (phase ? LARGE_ROUNDS : SMALL_ROUNDS); i++)
            if (!move(e->fd, e->data, phase ? LARGE : SMALL, false) ||
                !move(e->fd, e->data, phase ? LARGE : SMALL, true))
                return NULL;
    return NULL;
}

/* Two ends of one connection, fd[0] and fd[1] (-1: not there), with a limit of seconds on every
 * call, so that a filter on the loopback cannot stop us for ever. The caller closes both, also
 * after an error. */
static int connect_pair(int fd[2], struct twin_error *err)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof to;
    const struct timeval limit = {.tv_sec = 5};
    const int one = 1;
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[1] = -1;
    /* All steps in order; the first that fails ends it, and errno says why. */
    bool ok = door >= 0 && fd[0] >= 0 && bind(door, (struct sockaddr *)&to, sizeof to) == 0 &&
              listen(door, 1) == 0 && getsockname(door, (struct sockaddr *)&to, &size) == 0 &&
              connect(fd[0], (struct sockaddr *)&to, sizeof to) == 0 &&
              setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
              (fd[1] = accept4(door, NULL, NULL, SOCK_CLOEXEC)) >= 0;
    for (int i = 0; ok && i < 2; i++)
        ok = setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
             setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
             setsockopt(fd[i], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
    int rc = ok ? 0
                : twin_error_system(err, "cannot measure the loopback: give --alpha and --beta");
    if (door >= 0)
        close(door);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of half the time of a round. False: the other end does not answer. */
static bool one_way(int fd, char *data, size_t bytes, int rounds, double *seconds)
{
    double took[SMALL_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        const uint64_t began = tw_monotonic_ns();
        if (!move(fd, data, bytes, true) || !move(fd, data, bytes, false))
            return false;
        took[i] = (double)(tw_monotonic_ns() - began) / 2e9;
    }
    qsort(took, (size_t)rounds, sizeof *took, by_value);
    *seconds = took[rounds / 2];
    return true;
}

/* A large message never takes less than no time: where noise makes it so, beta is 0. */
int twin_network_measure(struct twin_network *net, struct twin_error *err)
{
    int fd[2], rc = connect_pair(fd, err);
    char *data = tw_calloc(2, LARGE);
    struct echo other = {fd[1], data + LARGE};
    pthread_t thread;
    double small = 0, large = 0;
    if (rc == 0 && !data)
        rc = tw_no_memory(err, "measuring the loopback");
    if (rc == 0 && pthread_create(&thread, NULL, echo, &other) != 0)
        rc = twin_error_set(
            err, TWIN_EUNSUPPORTED,
            "cannot measure the loopback: no second thread; give --alpha and --beta");
    if (rc == 0) {
        bool ok = one_way(fd[0], data, SMALL, SMALL_ROUNDS, &small) &&
                  one_way(fd[0], data, LARGE, LARGE_ROUNDS, &large);
        shutdown(fd[0], SHUT_RDWR); /* the other thread ends in any case */
        pthread_join(thread, NULL);
        if (!ok)
            rc = twin_error_set(
                err, TWIN_EIO,
                "cannot measure the loopback: it does not answer; give --alpha and --beta");
    }
    if (rc == 0) {
        net->alpha_s = small;
        net->beta_s = large > small ? (large - small) / (LARGE - SMALL) : 0;
    }
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    tw_free(data);
    return rc;
}
