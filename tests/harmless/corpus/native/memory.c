/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: large blocks, a heap trimmed and grown, blocks aligned, a library loaded and unloaded. */
#include "../seen.h"
#include <dlfcn.h>
#include <malloc.h>
int main(void)
{
    unsigned long sum = 0;
    for (int round = 0; round < 50; round++) {
        unsigned char *blocks[100];
        for (int i = 0; i < 100; i++) {
            size_t size = (size_t)(i * i * 7 + 1);
            blocks[i] = calloc(1, size);
            if (!blocks[i])
                return 2;
            blocks[i][size - 1] = (unsigned char)(i + round);
            blocks[i] = realloc(blocks[i], size + 100);
            sum = sum * 31 + blocks[i][size - 1];
        }
        for (int i = 0; i < 100; i++)
            free(blocks[i]);
    }
    malloc_trim(0);
    void *aligned;
    if (posix_memalign(&aligned, 4096, 100000))
        return 3;
    char *large = malloc(64 << 20);
    if (!large)
        return 4;
    memset(large, 7, 8 << 20);
    volatile size_t too_much = (size_t)1 << 62;
    printf("sum %lu aligned %d large %d impossible %d\n", sum, !((long)aligned & 4095), large[5000],
           malloc(too_much) != NULL);
    void *m = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = m ? (double (*)(double))dlsym(m, "cos") : NULL;
    printf("cos %a missing %d\n", cosine ? cosine(1) : 0,
           dlsym(RTLD_DEFAULT, "no_such_symbol") != NULL);
    puts(dlerror() ? "told why" : "not told");
    return 0;
}
