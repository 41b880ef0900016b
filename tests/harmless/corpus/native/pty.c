/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal of its own for a child; what the child prints comes back through it. */
#include "../seen.h"
#include <pty.h>
#include <utmp.h>
int main(void)
{
    int ours;
    struct winsize size = {33, 99, 0, 0};
    pid_t p = forkpty(&ours, NULL, NULL, &size);
    if (p < 0)
        return 3;
    if (!p) {
        seen("child");
        execlp("sh", "sh", "-c", "stty size; echo err >&2; read x; echo got $x; exit 7",
               (char *)NULL);
        _exit(127);
    }
    char c;
    int lines = 0;
    while (read(ours, &c, 1) == 1) {
        putchar(c == '\r' ? '~' : c);
        lines += c == '\n';
        /* Only when the child has said its two lines, so that the echo has one place. */
        if (c == '\n' && lines == 2 && write(ours, "line\n", 5) != 5)
            return 4;
    }
    int status;
    waitpid(p, &status, 0);
    printf("lines %d status %x ours %d\n", lines, status, ours);
    seen("end");
    return 0;
}
