/* SPDX-License-Identifier: Apache-2.0 */
/* Puts files of its own on every number that a watcher could be using, and closes all others. */
#include "../seen.h"
int main(void)
{
    static const int numbers[] = {3, 9, 10, 63, 100, 199, 200, 201, 202, 210, 220, 254, 255, 256};
    int file = open("mine", O_RDWR | O_CREAT | O_TRUNC, 0640);
    int last = dup(1);
    printf("file %d last %d\n", file, last);
    fflush(stdout);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int n = dup2(file, numbers[i]);
        if (n >= 0)
            dprintf(n, "written to %d\n", n);
        else
            dprintf(file, "%d cannot be: %d\n", numbers[i], errno);
    }
    for (int i = 0; i < 20; i++) {
        pid_t p = fork();
        if (!p) {
            dup2(file, 200 + i);
            void *m = malloc(100000);
            free(m);
            exit(0);
        }
        waitpid(p, NULL, 0);
    }
    seen("full");
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    seen("closed");
    if (system("echo child; exit 4") != 4 << 8)
        return 1;
    printf("next %d\n", open("/dev/null", O_RDONLY));
    return 0;
}
