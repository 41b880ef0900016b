/* SPDX-License-Identifier: Apache-2.0 */
/* What fresh memory holds that was dirtied and freed before: first byte and whether all bytes are
 * that byte, by way of allocation. Fails when what realloc keeps is not kept. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(const char *what, const void *block, size_t from, size_t n)
{
    const unsigned char *p = block;
    uint64_t h = 1469598103934665603u;
    size_t same = 0;
    for (size_t i = from; i < n; i++) {
        same += p[i] == p[from];
        h = (h ^ p[i]) * 1099511628211u;
    }
    printf("%s %u %s %016llx\n", what, p[from], same == n - from ? "uniform" : "mixed",
           (unsigned long long)h);
}

static void dirty(size_t n)
{
    void *p[8];
    for (int i = 0; i < 8; i++)
        if ((p[i] = malloc(n)))
            for (size_t k = 0; k < n; k++)
                ((volatile unsigned char *)p[i])[k] = (unsigned char)(k * 31 + 170);
    for (int i = 0; i < 8; i++)
        free(p[i]);
}

int main(void)
{
    static const size_t sizes[] = {24, 1000, 100000, 6000000};
    /* large blocks come from the heap too, where they were used before */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (int i = 0; i < 4; i++) {
        size_t n = sizes[i];
        void *p;
        errno = 77;
        dirty(n);
        show("malloc", p = malloc(n), 0, n), free(p);
        dirty(n);
        if (posix_memalign(&p, 64, n) == 0)
            show("posix_memalign", p, 0, n), free(p);
        dirty(n);
        show("aligned_alloc", p = aligned_alloc(64, n & ~(size_t)63 ? n & ~(size_t)63 : 64), 0,
             n & ~(size_t)63 ? n & ~(size_t)63 : 64),
            free(p);
        dirty(n);
        show("memalign", p = memalign(64, n), 0, n), free(p);
        dirty(4 * n);
        p = malloc(n);
        size_t had = malloc_usable_size(p);
        memset(p, 99, n);
        p = realloc(p, 4 * n);
        for (size_t k = 0; k < n; k++)
            if (((unsigned char *)p)[k] != 99)
                return 3;
        show("realloc", p, had, 4 * n);
        free(p);
        p = calloc(1, n);
        show("calloc", p, 0, n);
        free(p);
        if (errno != 77)
            return 4;
    }
    return 0;
}
