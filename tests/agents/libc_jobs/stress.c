/* SPDX-License-Identifier: Apache-2.0 */
/* Four threads use every armed function without pause while the main thread forks children that do
 * the same, and a signal handler draws as well. Ends with 0; a lock left taken over a fork would
 * make it hang. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static int use_all(void)
{
    unsigned char b[64];
    struct timeval t;
    void *p = malloc(5000);
    p = realloc(p, 20000);
    DIR *d = opendir("/dev");
    int n = 0, fd = open("/dev/urandom", O_RDONLY);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    n += getrandom(b, sizeof b, 0) == sizeof b && read(fd, b, sizeof b) == sizeof b;
    close(fd);
    gettimeofday(&t, NULL);
    free(p);
    return n > 1;
}

static void *work(void *unused)
{
    while (!stop) {
        use_all();
        pthread_mutex_lock(&m);
        pthread_mutex_unlock(&m);
    }
    return unused;
}

static void on_signal(int signal)
{
    unsigned char b[8];
    struct timespec t;
    (void)signal;
    getrandom(b, sizeof b, 0);
    clock_gettime(CLOCK_REALTIME, &t);
    close(open("/dev/null", O_RDONLY));
}

int main(void)
{
    pthread_t t[4];
    struct itimerval every = {{0, 2000}, {0, 2000}};
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, NULL);
    int bad = 0;
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(use_all() ? 0 : 1);
        int status = -1;
        while (waitpid(child, &status, 0) < 0)
            ;
        bad |= status;
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    return bad != 0;
}
