/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers its own limits and lives with what that means. */
#include "../seen.h"
static volatile sig_atomic_t xfsz;
static void on(int s)
{
    xfsz = s;
}
int main(void)
{
    signal(SIGXFSZ, on);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    int file = open("cut", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char block[3000];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 3; i++) {
        ssize_t n = write(file, block, sizeof block);
        dprintf(2, "wrote %zd errno %d signal %d\n", n, n < 0 ? errno : 0, (int)xfsz);
    }
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){12, 12});
    int opened = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        opened++;
    dprintf(2, "opened %d errno %d\n", opened, errno);
    for (int i = 3; i < 12; i++)
        close(i);
    seen("low");
    pid_t p = fork();
    if (!p) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
        for (int i = 0; i < 3; i++) {
            pid_t q = fork();
            if (!q)
                _exit(i);
            waitpid(q, NULL, 0);
        }
        exit(xfsz == SIGXFSZ ? 5 : 6);
    }
    int status;
    waitpid(p, &status, 0);
    dprintf(2, "child %x\n", status);
    return 0;
}
