/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes. usage: seccomp strict|filter|trap: what is left are write and the end. */
#include "../seen.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static volatile sig_atomic_t trapped;
static void on(int s)
{
    trapped += s;
}
int main(int argc, char **argv)
{
    char *kept = malloc(1000), *mode = argc > 1 ? argv[1] : "strict";
    signal(SIGSYS, on);
    unsigned other = mode[0] == 't' ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS;
    struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
                              BPF_STMT(BPF_RET | BPF_K, other),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {6, f};
    seen("before");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return 9;
    if (prctl(PR_SET_SECCOMP, mode[0] == 's' ? SECCOMP_MODE_STRICT : SECCOMP_MODE_FILTER, &p))
        return 10;
    memset(kept, argc, 1000);
    if (write(1, "confined\n", 9) == 9 && mode[0] == 't') {
        syscall(SYS_getppid);
        char digit = (char)('0' + trapped % 10);
        if (write(2, &digit, 1) != 1)
            _exit(11);
    }
    if (mode[0] == 's')
        syscall(SYS_exit, 12);
    _exit(13);
}
