/* SPDX-License-Identifier: Apache-2.0 */
/* Entropy by function call: getrandom, getentropy, arc4random*, std::random_device, and syscall()
 * by number. When the factor `entropy` is pinned or shaken, these give bytes of the calling
 * thread's stream (agents/common): the same in every run, however threads interleave. Else each
 * hands the call on to the original. Devices are in devices.c.
 *
 * Arguments that the kernel would refuse are given to the kernel, so the program sees the error
 * that it would see without us. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#include "hooks.h"

/* Flags that Linux 6 knows: with others the kernel decides what is wrong. */
#define GETRANDOM_FLAGS 7u
#define GETRANDOM_MAX 33554431u /* as the kernel's */

EXPORT ssize_t getrandom(void *buffer, size_t n, unsigned flags);
EXPORT int getentropy(void *buffer, size_t n);
EXPORT uint32_t arc4random(void);
EXPORT uint32_t arc4random_uniform(uint32_t bound);
EXPORT void arc4random_buf(void *buffer, size_t n);
EXPORT long syscall(long number, ...);

TW_REAL(ssize_t, getrandom, (void *, size_t, unsigned))
TW_REAL(int, getentropy, (void *, size_t))
TW_REAL(uint32_t, arc4random, (void))
TW_REAL(uint32_t, arc4random_uniform, (uint32_t))
TW_REAL(void, arc4random_buf, (void *, size_t))
TW_REAL(long, syscall, (long, long, long, long, long, long, long))

/* Fills the buffer when the factor is in force; false: the original is to do it. `what` names the
 * function in the record of who asked. */
static bool is_answered(const char *what, void *buffer, size_t n)
{
    if (!tw_factor_armed(TW_ENTROPY) || !tw_factor_take(TW_ENTROPY, what))
        return false;
    tw_stream_bytes(TW_ENTROPY, buffer, n);
    return true;
}

ssize_t getrandom(void *buffer, size_t n, unsigned flags)
{
    /* The kernel gives no more at once either. */
    size_t some = n < GETRANDOM_MAX ? n : GETRANDOM_MAX;
    if (!(flags & ~GETRANDOM_FLAGS) && is_answered("getrandom", buffer, some))
        return (ssize_t)some;
    getrandom_fn *real = real_getrandom();
    return real ? real(buffer, n, flags) : (ssize_t)syscall(SYS_getrandom, buffer, n, flags);
}

int getentropy(void *buffer, size_t n)
{
    if (n <= 256 && is_answered("getentropy", buffer, n))
        return 0;
    getentropy_fn *real = real_getentropy();
    if (real)
        return real(buffer, n);
    errno = n <= 256 ? ENOSYS : EIO;
    return n <= 256 && syscall(SYS_getrandom, buffer, n, 0) == (long)n ? 0 : -1;
}

/* Real random bytes where libc has no such function. Where libc has no arc4random (before 2.36)
 * only a program that tests for the symbol can get here. By system calls, because the functions are
 * our own hooks; by the device where the kernel has no getrandom. */
static void natural(void *buffer, size_t n)
{
    int fd = -1;
    while (n > 0) {
        long k = fd >= 0 ? syscall(SYS_read, fd, buffer, n) : syscall(SYS_getrandom, buffer, n, 0);
        if (k > 0) {
            buffer = (char *)buffer + k;
            n -= (size_t)k;
        } else if (fd < 0 && errno != EINTR &&
                   (fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/urandom", O_RDONLY | O_CLOEXEC)) <
                       0) {
            return;
        }
    }
    if (fd >= 0)
        syscall(SYS_close, fd);
}

uint32_t arc4random(void)
{
    uint32_t v = 0;
    if (is_answered("arc4random", &v, sizeof v))
        return v;
    arc4random_fn *real = real_arc4random();
    if (real)
        return real();
    natural(&v, sizeof v);
    return v;
}

void arc4random_buf(void *buffer, size_t n)
{
    if (is_answered("arc4random_buf", buffer, n))
        return;
    arc4random_buf_fn *real = real_arc4random_buf();
    if (real)
        real(buffer, n);
    else
        natural(buffer, n);
}

/* Ours draws until a value is not biased, as libc's does. */
uint32_t arc4random_uniform(uint32_t bound)
{
    arc4random_uniform_fn *real = real_arc4random_uniform();
    bool ours = tw_factor_armed(TW_ENTROPY) && tw_factor_take(TW_ENTROPY, "arc4random_uniform");
    if (!ours && real)
        return real(bound);
    if (bound < 2)
        return 0;
    /* the values below 2^32 mod bound would favour the small results */
    for (uint32_t low = (0u - bound) % bound;;) {
        uint32_t v = low;
        if (ours)
            tw_stream_bytes(TW_ENTROPY, &v, sizeof v);
        else
            natural(&v, sizeof v);
        if (v >= low)
            return v % bound;
    }
}

/* std::random_device::_M_getval(): libstdc++ reads the CPU's generator, getentropy or a device,
 * depending on its version and on the token; all of it ends here. Programs call it through their
 * PLT (it is not inline). */
#define GETVAL _ZNSt13random_device9_M_getvalEv
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
EXPORT unsigned GETVAL(void *device);

unsigned GETVAL(void *device)
{
    static void *_Atomic cache;
    unsigned v = 0;
    if (is_answered("std::random_device", &v, sizeof v))
        return v;
    unsigned (*real)(void *) = (unsigned (*)(void *))tw_lookup_anywhere(&cache, TEXT(GETVAL),
                                                                        (void *)GETVAL);
    if (real)
        return real(device);
    natural(&v, sizeof v); /* a libstdc++ that nobody loaded cannot have called us */
    return v;
}

/* As libc's: up to six arguments, of which those that were not given are read and not used.
 * Programs and old libraries ask for entropy, time and futexes by number, and set up sandboxes:
 * those are looked at, all others pass. */
long syscall(long number, ...)
{
    struct timespec until;
    long a[6], result;
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_getrandom) {
        size_t n = (size_t)a[1] < GETRANDOM_MAX ? (size_t)a[1] : GETRANDOM_MAX;
        if (!((unsigned)a[2] & ~GETRANDOM_FLAGS) &&
            is_answered("syscall(getrandom)", (void *)a[0], n))
            return (long)n;
    } else if (number == SYS_futex && tw_clock_futex(a, &until)) {
        a[3] = (long)&until;
    } else if (tw_clock_by_number(number, a, &result)) {
        return result;
    }
    syscall_fn *real = real_syscall();
    bool confined = tw_sandbox_begins(number, a);
    result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (confined && result != 0)
        tw_sandbox_failed();
    return result;
}

void tw_entropy_resolve(void)
{
    real_getrandom();
    real_getentropy();
    real_arc4random();
    real_arc4random_uniform();
    real_arc4random_buf();
    real_syscall();
}
