/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_FPENV_H
#define TW_FINGERPRINT_FPENV_H
/*
 * The job may have set flush-to-zero, another rounding mode or trapping exceptions. Statistics must
 * not depend on that, nor change it: the default mode is set for the time of a pass, then
 * everything, flags included, is put back. The arithmetic in between must sit in functions of its
 * own, so that the compiler cannot move it across.
 */
#include <stdint.h>

#if defined(__x86_64__)
/* What is put back: rounding, flushing, masks and flags are all in one register. */
struct tw_fpenv {
    uint32_t mxcsr;
};
static inline struct tw_fpenv tw_fpenv_enter(void)
{
    struct tw_fpenv e;
    const uint32_t standard = 0x1F80;
    __asm__ volatile("stmxcsr %0" : "=m"(e.mxcsr) : : "memory");
    __asm__ volatile("ldmxcsr %0" : : "m"(standard) : "memory");
    return e;
}
static inline void tw_fpenv_leave(struct tw_fpenv e)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(e.mxcsr) : "memory");
}
/* Whether the caller rounds to nearest and neither flushes subnormals nor takes them for zero. */
static inline int tw_fpenv_is_standard(struct tw_fpenv e)
{
    return (e.mxcsr & 0xE040) == 0;
}
#elif defined(__aarch64__)
/* What is put back: control and status. */
struct tw_fpenv {
    uint64_t fpcr, fpsr;
};
static inline struct tw_fpenv tw_fpenv_enter(void)
{
    struct tw_fpenv e;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr\n\tmsr fpcr, xzr"
                     : "=&r"(e.fpcr), "=&r"(e.fpsr)
                     :
                     : "memory");
    return e;
}
static inline void tw_fpenv_leave(struct tw_fpenv e)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(e.fpcr), "r"(e.fpsr) : "memory");
}
static inline int tw_fpenv_is_standard(struct tw_fpenv e)
{
    return (e.fpcr & 0x1C00000) == 0;
}
#else
#include <fenv.h>
/* Machines without a way of their own: the C library's. */
struct tw_fpenv {
    fenv_t env;
    int rounding;
};
static inline struct tw_fpenv tw_fpenv_enter(void)
{
    struct tw_fpenv e;
    fegetenv(&e.env);
    e.rounding = fegetround();
    fesetenv(FE_DFL_ENV);
    return e;
}
static inline void tw_fpenv_leave(struct tw_fpenv e)
{
    fesetenv(&e.env);
}
static inline int tw_fpenv_is_standard(struct tw_fpenv e)
{
    return e.rounding == FE_TONEAREST;
}
#endif
#endif
