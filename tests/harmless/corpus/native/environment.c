/* SPDX-License-Identifier: Apache-2.0 */
/* Changes its environment in every way and looks at it in children. */
#include "../seen.h"
int main(void)
{
    setenv("ADDED", "a value with\nnewline", 1);
    putenv("PUT=here");
    unsetenv("LANG");
    if (system("echo $ADDED $PUT"))
        return 2;
    pid_t p = fork();
    if (!p) {
        clearenv();
        setenv("ONLY", "one", 1);
        seen("cleared");
        execl("/bin/sh", "sh", "-c", "echo only $ONLY, added $ADDED; exit 3", (char *)NULL);
        _exit(4);
    }
    int status;
    waitpid(p, &status, 0);
    printf("status %x added %s\n", status, getenv("ADDED"));
    seen("end");
    environ = NULL;
    return getenv("ADDED") == NULL ? system("exit 6") >> 8 : 1;
}
