/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that descriptors get, of files, sockets and events, and one sent to a child. */
#include "../seen.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
static void pass(int by, int fd)
{
    char byte = 'x', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    sendmsg(by, &m, 0);
}
int main(void)
{
    int pair[2], ends[2];
    /* no stream is closed: what is printed goes nowhere else */
    while (open("/dev/null", O_RDWR) < 3)
        ;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(ends))
        return 2;
    int event = eventfd(0, 0), signals = signalfd(-1, &set, 0), poller = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), file = open("passed", O_CREAT | O_RDWR, 0600);
    printf("%d %d %d %d %d %d %d %d %d\n", pair[0], pair[1], ends[0], ends[1], event, signals,
           poller, timer, file);
    fflush(stdout);
    pid_t p = fork();
    if (!p) {
        char byte, room[CMSG_SPACE(sizeof(int))];
        struct iovec part = {&byte, 1};
        struct msghdr m = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        close(file);
        if (recvmsg(pair[1], &m, 0) != 1)
            _exit(2);
        int got;
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
        dprintf(got, "written by the child to %d\n", got);
        seen("child");
        kill(getppid(), SIGUSR1);
        _exit(0);
    }
    pass(pair[0], file);
    waitpid(p, NULL, 0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = signals};
    epoll_ctl(poller, EPOLL_CTL_ADD, signals, &e);
    printf("events %d of %d\n", epoll_wait(poller, &e, 1, 5000), e.data.fd == signals);
    struct signalfd_siginfo info;
    printf("signal %d\n", read(signals, &info, sizeof info) > 0 ? (int)info.ssi_signo : -1);
    seen("end");
    return 0;
}
