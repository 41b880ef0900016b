/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction set: the best one that the build has and that CPU and system let us use.
 * Decided at the first call; TWINRUN_ISA names another one, which tests use, and an unknown name is
 * ignored. All sets leave the same bits, so the choice is a matter of time only. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef TW_HAVE_AVX2
#include <cpuid.h>
#endif
#include "kernels.h"

#ifdef TW_HAVE_AVX2
/* The vector registers that the system saves for us (XCR0), 0 when it saves none. */
static unsigned saved_registers(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    /* Register 0: which states the system saves when it switches threads. */
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

/* The instructions, and that the system saves the registers of 256 bits (bits 1 and 2 of XCR0). */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    const unsigned need = bit_AVX | bit_FMA | bit_F16C;
    if ((saved_registers() & 0x6) != 0x6 || !__get_cpuid(1, &a, &b, &c, &d) || (c & need) != need)
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

#endif

#ifdef TW_HAVE_AVX512
/* Also the mask registers and those of 512 bits (bits 5 to 7 of XCR0). */
static bool has_avx512(void)
{
    unsigned a, b, c, d;
    const unsigned need = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    return has_avx2() && (saved_registers() & 0xE6) == 0xE6 &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & need) == need;
}
#endif

/* AMD's family 0x19 with AVX-512 (Zen 4) does vectors of 512 bits in halves. That costs nothing
 * where all is multiplied and added, but its widening to f64 and its masks take longer than twice
 * those of 256 bits. */
static bool halves_vectors(void)
{
#ifdef TW_HAVE_AVX2
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || c != signature_AMD_ecx ||
        d != signature_AMD_edx || !__get_cpuid(1, &a, &b, &c, &d))
        return false;
    return (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
#else
    return false;
#endif
}

static bool always(void)
{
    return true;
}

/* Best first. */
static const struct {
    const struct tw_kernels *kernels;
    bool (*usable)(void);
} sets[] = {
#ifdef TW_HAVE_AVX512
    {&tw_kernels_avx512, has_avx512},
#endif
#ifdef TW_HAVE_AVX2
    {&tw_kernels_avx2, has_avx2},
#endif
#ifdef TW_HAVE_NEON
    {&tw_kernels_neon, always},
#endif
    {&tw_kernels_scalar, always},
};

/* NULL until the first call; then that for statistics is set, too. */
static _Atomic(const struct tw_kernels *) chosen;
static _Atomic(const struct tw_kernels *) chosen_for_statistics;

/* The named set, or the best one for NULL; NULL when there is none such. */
static const struct tw_kernels *find_kernels(const char *name)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((!name || !strcmp(name, sets[i].kernels->name)) && sets[i].usable())
            return sets[i].kernels;
    return NULL;
}

static void use(const struct tw_kernels *k, const struct tw_kernels *for_statistics)
{
    atomic_store_explicit(&chosen_for_statistics, for_statistics, memory_order_relaxed);
    atomic_store_explicit(&chosen, k, memory_order_release);
}

const struct tw_kernels *tw_fingerprint_kernels(void)
{
    const struct tw_kernels *k = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!k) { /* threads that race here find the same answer */
        const char *name = getenv("TWINRUN_ISA");
        const struct tw_kernels *wanted = name && *name ? find_kernels(name) : NULL;
        const struct tw_kernels *narrower = halves_vectors() ? find_kernels("avx2") : NULL;
        k = wanted ? wanted : find_kernels(NULL);
        use(k, wanted || !narrower ? k : narrower);
    }
    return k;
}

const struct tw_kernels *tw_statistics_kernels(void)
{
    (void)tw_fingerprint_kernels();
    return atomic_load_explicit(&chosen_for_statistics, memory_order_relaxed);
}

void tw_fingerprint_use(const struct tw_kernels *k)
{
    use(k, k);
}

const char *twin_fingerprint_isa(void)
{
    return tw_fingerprint_kernels()->name;
}

int twin_fingerprint_force(const char *isa, struct twin_error *err)
{
    const struct tw_kernels *k = isa ? find_kernels(isa) : NULL;
    if (!k)
        return twin_error_set(
            err, TWIN_EUNSUPPORTED,
            "instruction set \"%s\" is not in this build or not on this CPU; try \"%s\"",
            isa ? isa : "(null)", find_kernels(NULL)->name);
    tw_fingerprint_use(k);
    return 0;
}
