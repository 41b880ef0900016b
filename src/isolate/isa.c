/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The factor `isa`: which instruction set the libraries choose. Wider registers sum in another
 * order, so results differ in their last bits between processors. Each library has a variable of
 * its own and its own words for the same three sets; this file knows them, for the row in
 * factor_rows.c.
 */
#include "internal.h"

#include <string.h>

/* PyTorch's own words, which are also those that a person types. */
static const char *const words[] = {
    [TW_ISA_DEFAULT] = "default",
    [TW_ISA_AVX2] = "avx2",
    [TW_ISA_AVX512] = "avx512",
};
enum { WORDS = sizeof words / sizeof words[0] };

/* The widest set that this processor has. AVX-512 counts only with the four parts that libraries
 * ask for together. */
enum tw_isa tw_isa_widest(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return TW_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return TW_ISA_AVX2;
#endif
    return TW_ISA_DEFAULT;
}

/* A set that the processor has not is refused: a library could not use it. */
bool tw_isa_value(const char *text, uint64_t *value)
{
    for (uint64_t i = 0; i < WORDS; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i + 1; /* 0 stands for the pin's own choice */
            return i <= (uint64_t)tw_isa_widest();
        }
    }
    return false;
}

/* The set that a setting means. A pin takes AVX2 where there is one, which most machines share, or
 * what was asked for. A variation takes the others that this processor has, in turn by the seed, so
 * it never gives what the pin gives. */
static enum tw_isa isa_of(const struct twin_setting *s)
{
    enum tw_isa widest = tw_isa_widest(), pinned = widest > TW_ISA_AVX2 ? TW_ISA_AVX2 : widest;
    if (s->mode == TWIN_PIN)
        return s->seed && s->seed - 1 <= (uint64_t)widest ? (enum tw_isa)(s->seed - 1) : pinned;
    unsigned others = (unsigned)widest;
    if (!others)
        return pinned;
    unsigned pick = (unsigned)(s->seed % others);
    return (enum tw_isa)(pick >= (unsigned)pinned ? pick + 1 : pick);
}

#if defined(__x86_64__)
/* On processors of other makers MKL ignores every branch but AUTO and COMPATIBLE (its developer
 * guide); AUTO is held still, too. */
static const char *mkl_word(enum tw_isa isa)
{
    static const char *const on_intel[] = {"SSE4_2", "AVX2", "AVX512"};
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel"))
        return on_intel[isa];
    return isa == TW_ISA_DEFAULT ? "COMPATIBLE" : "AUTO";
}
#endif

/* Adds the variables of all libraries that the setting means. */
int tw_isa_variables(const struct twin_setting *s, char ***list, size_t *count,
                     struct twin_error *err)
{
    enum tw_isa isa = isa_of(s);
    int rc = tw_list_add(list, count, tw_printf("ATEN_CPU_CAPABILITY=%s", words[isa]), err);
#if defined(__x86_64__)
    static const char *const onednn[] = {"SSE41", "AVX2", "AVX512_CORE"};
    static const char *const openblas[] = {"Nehalem", "Haswell", "SkylakeX"};
    const struct {
        const char *name, *word;
    } others[] = {
        {"ONEDNN_MAX_CPU_ISA", onednn[isa]},
        {"DNNL_MAX_CPU_ISA", onednn[isa]},
        {"MKL_CBWR", mkl_word(isa)},
        {"OPENBLAS_CORETYPE", openblas[isa]},
    };
    for (size_t i = 0; rc == 0 && i < sizeof others / sizeof others[0]; i++)
        rc = tw_list_add(list, count, tw_printf("%s=%s", others[i].name, others[i].word), err);
#elif defined(__aarch64__)
    if (rc == 0)
        rc = tw_list_add(list, count, tw_strdup("OPENBLAS_CORETYPE=ARMV8"), err);
#endif
    return rc;
}

/* A processor with one set only has nothing to vary. */
void tw_isa_adapt(struct twin_factor *f)
{
    if (tw_isa_widest() > TW_ISA_DEFAULT)
        return;
    f->vary = NULL; /* there is nothing to choose from */
    f->pin = "ATEN_CPU_CAPABILITY=default and those of oneDNN, MKL, OpenBLAS";
}
