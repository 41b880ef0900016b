/* SPDX-License-Identifier: Apache-2.0 */
/* Files of many kinds and modes: links, holes, locks, appended, renamed, removed while open. */
#include "../seen.h"
#include <sys/file.h>
#include <sys/sendfile.h>
int main(void)
{
    umask(027);
    int a = open("plain", O_RDWR | O_CREAT, 0666), b = open("exec", O_WRONLY | O_CREAT, 0777);
    dprintf(a, "some text for the file\n");
    off_t at = 0;
    printf("sent %zd\n", sendfile(b, a, &at, 100));
    mkdir("folder", 0770);
    if (link("plain", "folder/hard") || symlink("../plain", "folder/soft") || mkfifo("fifo", 0600))
        return 2;
    int hole = open("hole", O_WRONLY | O_CREAT, 0600);
    printf("hole %zd\n", pwrite(hole, "end", 3, 20000));
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0640);
    for (int i = 0; i < 5; i++) {
        pid_t p = fork();
        if (!p) {
            dprintf(log, "child %d\n", i);
            _exit(0);
        }
        waitpid(p, NULL, 0);
    }
    printf("locks %d %d\n", flock(a, LOCK_EX | LOCK_NB), lockf(b, F_TLOCK, 0));
    rename("log", "log.1");
    int gone = open("gone", O_RDWR | O_CREAT, 0600);
    unlink("gone");
    dprintf(gone, "nobody reads this\n");
    seen("end");
    return chmod("exec", 04755) ? 3 : 0;
}
