/* SPDX-License-Identifier: Apache-2.0 */
/* A binary tree of 15 processes; each one's exit code is made of its children's. */
#include "../seen.h"
static int node(int depth, int id)
{
    int sum = id;
    char name[16];
    snprintf(name, sizeof name, "node%d", id);
    seen(name);
    for (int side = 0; depth && side < 2; side++) {
        pid_t p = fork();
        if (p == 0)
            _exit(node(depth - 1, 2 * id + side) & 127);
        int status = 0;
        if (p < 0 || waitpid(p, &status, 0) != p)
            return 99;
        sum += WEXITSTATUS(status);
    }
    dprintf(1, "node %d sum %d\n", id, sum);
    return sum;
}
int main(void)
{
    int sum = node(3, 1);
    printf("wait says %d\n", wait(NULL) < 0 ? errno : 0);
    return sum & 127;
}
