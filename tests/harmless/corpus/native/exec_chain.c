/* SPDX-License-Identifier: Apache-2.0 */
/* Becomes itself six times, then a program without any variable. */
#include "../seen.h"
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;
    char name[24], next[24], self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return 8;
    self[length] = 0;
    snprintf(name, sizeof name, "exec%d", n);
    snprintf(next, sizeof next, "%d", n + 1);
    seen(name);
    dprintf(1, "%s is %d\n", n ? argv[0] : "first", n);
    setenv("DEPTH", next, 1);
    if (n < 6)
        execl(self, name, next, (char *)NULL);
    char *nothing[] = {NULL}, *env[] = {"env", NULL};
    execve("/usr/bin/env", env, nothing);
    return 9;
}
