/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose constructor draws and allocates: it may run before any of ours. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

unsigned long early_drawn;
unsigned char early_fresh;

__attribute__((constructor)) static void begin(void)
{
    getrandom(&early_drawn, sizeof early_drawn, 0);
    volatile unsigned char *p = malloc(3000);
    p[10] = 200;
    free((void *)p);
    p = malloc(3000);
    early_fresh = p[10];
    free((void *)p);
}
