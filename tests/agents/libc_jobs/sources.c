/* SPDX-License-Identifier: Apache-2.0 */
/* Draws from every source of entropy that C programs have, a line each; argument `long`: reads
 * devices past any buffer. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static void show(const char *what, const void *p, size_t n)
{
    printf("%s ", what);
    for (size_t i = 0; i < n; i++)
        printf("%02x", ((const unsigned char *)p)[i]);
    printf("\n");
}

static uint64_t sum(const unsigned char *p, size_t n)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static int long_reads(void)
{
    size_t n = 3000003;
    unsigned char *a = calloc(1, n), *b = calloc(1, n);
    size_t done = 0;
    int fd = open("/dev/urandom", O_RDONLY);
    while (done < n) {
        ssize_t k = read(fd, a + done, n - done);
        if (k <= 0)
            return 1;
        done += (size_t)k;
    }
    FILE *f = fopen("/dev/urandom", "rb");
    if (!f || fread(b, 1, n, f) != n || feof(f) || ferror(f))
        return 2;
    if (memcmp(a + n - 64, b + n - 64, 64) == 0 || memcmp(a, a + n / 2, 64) == 0)
        return 3;
    printf("%016llx %016llx\n", (unsigned long long)sum(a, n), (unsigned long long)sum(b, n));
    return 0;
}

int main(int argc, char **argv)
{
    unsigned char b[16];
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        return long_reads();
    errno = 77;
    if (getrandom(b, sizeof b, 0) == 16)
        show("getrandom", b, sizeof b);
    if (getentropy(b, sizeof b) == 0)
        show("getentropy", b, sizeof b);
    if (syscall(SYS_getrandom, b, sizeof b, 0) == 16)
        show("syscall", b, sizeof b);
#if __GLIBC_PREREQ(2, 36)
    uint32_t w = arc4random();
    show("arc4random", &w, sizeof w);
    arc4random_buf(b, sizeof b);
    show("arc4random_buf", b, sizeof b);
    for (uint32_t bound = 1; bound < 4000000000u; bound = bound * 3 + 1)
        if (arc4random_uniform(bound) >= bound)
            return 9;
    w = arc4random_uniform(1000000000);
    show("arc4random_uniform", &w, sizeof w);
#endif
    const char *const devices[] = {"/dev/urandom", "/dev/random"};
    for (int i = 0; i < 2; i++) {
        int fd = open(devices[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, b, sizeof b) == 16)
            show("open", b, sizeof b);
        close(fd);
        fd = openat(AT_FDCWD, devices[i], O_RDONLY);
        if (fd >= 0 && read(fd, b, sizeof b) == 16)
            show("openat", b, sizeof b);
        close(fd);
        FILE *f = fopen(devices[i], "r");
        if (f && fread(b, 1, sizeof b, f) == sizeof b)
            show("fopen", b, sizeof b);
        fclose(f);
    }
    errno = 77;
    getrandom(b, 1, 0);
    int fd = open("/dev/urandom", O_RDONLY);
    if (errno != 77 || getrandom(b, 1, 0x4000) != -1 || errno != EINVAL ||
        getentropy(b, 257) != -1 || errno != EIO)
        return 8;
    close(fd);
    return 5;
}
