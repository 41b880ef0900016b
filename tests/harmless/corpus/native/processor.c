/* SPDX-License-Identifier: Apache-2.0 */
/* Uses the processor until its limit ends it, or for a tenth of a second. */
#include "../seen.h"
int main(void)
{
    struct rlimit l;
    getrlimit(RLIMIT_CPU, &l);
    printf("works\n");
    fflush(stdout);
    clock_t until = CLOCKS_PER_SEC / 10;
    if (l.rlim_cur == 1)
        until = 5 * CLOCKS_PER_SEC;
    volatile unsigned long n = 0;
    while (clock() < until)
        n++;
    printf("done\n");
    return 0;
}
