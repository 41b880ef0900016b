/* SPDX-License-Identifier: Apache-2.0 */
/* vfork with exec and with _exit, posix_spawn with file actions and attributes. */
#include "../seen.h"
#include <spawn.h>
int main(void)
{
    int status;
    pid_t p = vfork();
    if (!p) {
        execl("/bin/sh", "sh", "-c", "echo from vfork; exit 5", (char *)NULL);
        _exit(127);
    }
    waitpid(p, &status, 0);
    dprintf(1, "exec %x\n", status);
    p = vfork();
    if (!p)
        _exit(9);
    waitpid(p, &status, 0);
    dprintf(1, "exit %x\n", status);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t set;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 7, "spawned", O_WRONLY | O_CREAT | O_TRUNC, 0604);
    posix_spawnattr_init(&how);
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    posix_spawnattr_setsigmask(&how, &set);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    char *argv[] = {"sh", "-c",
                    "grep SigBlk /proc/self/status >&7; ls /proc/self/fd | wc -l; exit 6", NULL};
    if (posix_spawn(&p, "/bin/sh", &files, &how, argv, environ))
        return 3;
    waitpid(p, &status, 0);
    dprintf(1, "spawn %x missing %d\n", status,
            posix_spawnp(&p, "no-such-program", NULL, NULL, argv, environ));
    seen("end");
    return 0;
}
