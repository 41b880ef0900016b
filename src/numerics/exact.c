/* SPDX-License-Identifier: Apache-2.0 */
/* Exact sums, products and norms of f64, f32, f16 and bf16 (<twin/exact.h>). The sum does not
 * depend on the order of the numbers, on the instruction set or on how the input is cut: it is the
 * rounded exact value.
 *
 * The input is cut into blocks, and for each the cheapest way is taken that is exact. A window
 * (window.h) takes a block of numbers whose exponents are near each other, as a few sums of
 * integers in floating point; bins (bins.c) take any number, one at a time. Whether a window holds
 * a block is seen after the fact, from the smallest and largest exponent that the kernel met: when
 * it does not, nothing of the block has been added yet, and another window or the bins are tried. A
 * window is kept from block to block. */
#include <stdatomic.h>
#include <string.h>
#include "exact_inside.h"
#include "fpenv.h"

/* A window is chosen with room for the next blocks, which are a little larger or finer than this
 * one. */
#define SPARE_TOP 2
#define SPARE_LOW 4

/* ---- which instruction set */
static const struct tw_window_set *const sets[] = {
#ifdef TW_HAVE_AVX512
    &tw_windows_avx512,
#endif
#ifdef TW_HAVE_AVX2
    &tw_windows_avx2,
#endif
#ifdef TW_HAVE_NEON
    &tw_windows_neon,
#endif
    NULL,
};
static _Atomic(const struct tw_window_set *) forced;
static atomic_bool is_forced;

/* For tests: NULL is plain C. */
void tw_exact_use(const struct tw_window_set *set)
{
    atomic_store(&forced, set);
    atomic_store(&is_forced, true);
}

/* The fingerprint's choice, which knows what the processor can do and what the user asked for; NULL
 * for plain C. Types that are converted take what is best for statistics, which convert, too; a
 * bf16 is only shifted. */
static const struct tw_window_set *window_set(enum tw_kind kind)
{
    if (atomic_load_explicit(&is_forced, memory_order_acquire))
        return atomic_load(&forced);
    const bool converted = kind == TW_F32 || kind == TW_F16;
    const struct tw_kernels *k = converted ? tw_statistics_kernels() : tw_fingerprint_kernels();
    for (size_t i = 0; sets[i]; i++)
        if (!strcmp(k->name, sets[i]->name))
            return sets[i];
    return NULL;
}

/* ---- windows */
/* One call: where the numbers go, how they are combined, and the window that fitted last. */
struct pass {
    struct twin_acc *acc;
    const struct tw_window_set *set;
    enum tw_op op;
    enum tw_kind kind;
    struct tw_window window;
    bool bins_used;
    struct tw_bins bins;
};

/* What the terms of a block need: |t| < 2^top, and all are multiples of 2^low. */
struct need {
    bool special, zero;
    int top, low;
};

/* From the exponent fields that a kernel saw: all zero, special (NaN or infinity), or the range of
 * exponents. */
static struct need need_of(enum tw_kind kind, struct tw_seen s)
{
    static const int fraction[TW_KINDS] = {
        [TW_F16] = 10, [TW_BF16] = 7, [TW_F32] = 23, [TW_F64] = 52};
    static const int bias[TW_KINDS] = {
        [TW_F16] = 15, [TW_BF16] = 127, [TW_F32] = 127, [TW_F64] = 1023};
    if (s.min == UINT32_MAX && s.max == 0)
        return (struct need){.zero = true};
    return (struct need){
        .special = s.max == 2 * (uint32_t)bias[kind] + 1,
        .top = (s.max ? (int)s.max : 1) - bias[kind] + 1,
        .low = (s.min ? (int)s.min : 1) - bias[kind] - fraction[kind],
    };
}

/* Of the terms that are added: products have the sums of the exponents. */
static struct need need_of_terms(const struct pass *p, const struct tw_folded *f)
{
    struct need x = need_of(p->kind, f->x);
    if (p->op != TW_SQUARE && p->op != TW_PRODUCT)
        return x;
    const struct need y = need_of(p->kind, f->y);
    return (struct need){x.special || y.special, x.zero || y.zero, x.top + y.top, x.low + y.low};
}

/* Bits that one fold of a window takes. */
static int fold_bits(struct tw_window w)
{
    return w.narrow ? TW_NARROW_BITS : TW_FOLD_BITS;
}

/* Does the window hold such terms? One bit above them is kept free. */
static bool fits(const struct need *n, struct tw_window w)
{
    return n->zero || (n->top <= w.top - 1 && n->low >= w.top - fold_bits(w) * w.folds);
}

/* A window of floats, for sums of 16-bit types; false when there is none for such terms. Its
 * constants must be normal, and its finest unit a float. */
static bool choose_narrow(const struct need *n, struct tw_window *w)
{
    const int finest = -149, top = n->top + 1 + SPARE_TOP;
    struct tw_window narrow = {
        top, (top - (n->low - SPARE_LOW) + TW_NARROW_BITS - 1) / TW_NARROW_BITS, true};
    if (narrow.folds > TW_NARROW_FOLDS) { /* then without room, if only they fit */
        narrow.folds = TW_NARROW_FOLDS;
        if (top > n->low + TW_NARROW_BITS * TW_NARROW_FOLDS)
            narrow.top = n->low + TW_NARROW_BITS * TW_NARROW_FOLDS;
    }
    if (narrow.top < finest + TW_NARROW_BITS * narrow.folds)
        narrow.top = finest + TW_NARROW_BITS * narrow.folds;
    if (narrow.top > 125 || !fits(n, narrow))
        return false;
    *w = narrow;
    return true;
}

/* A window for such terms, with spare room; *w is set. False when no window can hold them. Its
 * constants, 1.5 * 2^(top + 4) the largest, must be finite, and its finest unit an f64. */
static bool choose_window(const struct pass *p, const struct need *n, struct tw_window *w)
{
    const int finest = -1074, highest = 1023 - (52 - TW_FOLD_BITS);
    int top = n->top + 1 + SPARE_TOP;
    if (n->zero)
        return true;
    if (p->op <= TW_ABS && p->kind <= TW_BF16 && choose_narrow(n, w))
        return true;
    if (n->top > highest - 1)
        return false;
    if (top > highest)
        top = highest;
    int folds = (top - (n->low - SPARE_LOW) + TW_FOLD_BITS - 1) / TW_FOLD_BITS;
    if (folds > TW_FOLDS) { /* then without room, if only they fit */
        folds = TW_FOLDS;
        if (top > n->low + TW_FOLD_BITS * folds)
            top = n->low + TW_FOLD_BITS * folds;
    }
    if (top < finest + TW_FOLD_BITS * folds)
        top = finest + TW_FOLD_BITS * folds;
    *w = (struct tw_window){top, folds, false};
    return fits(n, *w);
}

/* Adds n terms to the bins, which are made when they are first needed. */
static void by_bins(struct pass *p, const void *x, const void *y, size_t n)
{
    if (!p->bins_used)
        tw_bins_init(&p->bins);
    p->bins_used = true;
    tw_bins_add(&p->bins, p->op, p->kind, x, y, n);
}

/* Adds what the kernel has folded to the accumulator, and notes whether anything but -0 was there.
 */
static void commit_folded(struct pass *p, const struct tw_folded *f, struct tw_window w,
                          const void *x, const void *y, size_t n)
{
    bool any = false;
    for (int i = 0; i < w.folds; i++)
        if (f->sum[i]) {
            any = true;
            tw_acc_add_integer(p->acc, f->sum[i], w.top - fold_bits(w) * (i + 1));
        }
    if (!(p->acc->flags & TW_ACC_NOT_MINUS_ZERO) &&
        (any || tw_bins_not_minus_zero(p->op, p->kind, x, y, n)))
        p->acc->flags |= TW_ACC_NOT_MINUS_ZERO;
}

/* One block: by the current window, else by the one that the block asks for, else by the bins. n: a
 * multiple of TW_STEP, of which the last ones may be padding; `real` of them count. */
static void add_block(struct pass *p, const void *x, const void *y, size_t n, size_t real)
{
    struct tw_folded f;
    for (int attempt = 0; attempt < 2; attempt++) {
        const struct tw_window used = p->window;
        (used.narrow ? p->set->narrow[p->op][p->kind] : p->set->fold[p->op][p->kind])(x, y, n, used,
                                                                                      &f);
        const struct need need = need_of_terms(p, &f);
        const bool chosen = !need.special && choose_window(p, &need, &p->window);
        if (!need.special && fits(&need, used)) {
            commit_folded(p, &f, used, x, y, real);
            return;
        }
        if (!chosen) {
            p->window = used;
            break;
        }
    }
    by_bins(p, x, y, real);
}

/* All terms. The first few give a first guess of the window; what is less than a step at the end is
 * padded with zeros, which add nothing. */
static void add_all(struct pass *p, const char *x, const char *y, size_t n)
{
    static const size_t sizes[TW_KINDS] = {[TW_F16] = 2, [TW_BF16] = 2, [TW_F32] = 4, [TW_F64] = 8};
    const size_t size = sizes[p->kind], whole = n / TW_STEP * TW_STEP;
    size_t i = 0;
    if (p->set && whole) { /* a first guess, from the first few */
        struct tw_folded f;
        p->set->fold[p->op][p->kind](x, y, TW_STEP, p->window, &f);
        const struct need need = need_of_terms(p, &f);
        if (need.special || !choose_window(p, &need, &p->window))
            p->window = (struct tw_window){0, TW_FOLDS, false};
    }
    for (size_t m; i < (p->set ? whole : n); i += m) {
        const size_t left = (p->set ? whole : n) - i;
        m = left < TW_BLOCK ? left : TW_BLOCK;
        if (p->set)
            add_block(p, x + i * size, y + i * size, m, m);
        else
            by_bins(p, x + i * size, y + i * size, m);
    }
    if (i < n) {
        char tail[2][8 * TW_STEP] = {{0}};
        memcpy(tail[0], x + i * size, (n - i) * size);
        memcpy(tail[1], y + i * size, (n - i) * size);
        add_block(p, tail[0], tail[1], TW_STEP, n - i);
    }
    if (p->bins_used)
        tw_bins_flush(&p->bins, p->acc);
}

/* ---- the interface */
/* The public adding functions. The thread's floating-point mode must be the default one, which the
 * kernels rely on; else this is an error. */
static int add_numbers(struct twin_acc *acc, enum tw_op op, enum twin_dtype dtype, const void *x,
                       const void *y, int64_t n, struct twin_error *err)
{
    const int kind = tw_kind_of(dtype);
    if (kind < 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "exact sum: elements of type %s (%d); expected f64, f32, f16 or bf16",
                              twin_dtype_name(dtype), (int)dtype);
    if (n < 0 || (n > 0 && (!x || !y)))
        return twin_error_set(err, TWIN_EINVAL,
                              "exact sum: %lld elements at %s; expected 0 or more at an address",
                              (long long)n, x && y ? "an address" : "NULL");
    if (acc->count > UINT64_MAX - (uint64_t)n)
        return twin_error_set(err, TWIN_ELIMIT,
                              "exact sum: cannot add %lld to %llu numbers: at most 2^64 - 1 in all",
                              (long long)n, (unsigned long long)acc->count);
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    if (standard && n > 0) {
        struct pass p;
        p.acc = acc;
        p.set = window_set((enum tw_kind)kind);
        p.op = op;
        p.kind = (enum tw_kind)kind;
        p.window = (struct tw_window){0, TW_FOLDS, false};
        p.bins_used = false;
        add_all(&p, x, y, (size_t)n);
        acc->count += (uint64_t)n;
    }
    tw_fpenv_leave(env);
    if (!standard)
        return twin_error_set(
            err, TWIN_EINVAL,
            "exact sum: this thread rounds other than to nearest, or takes subnormals for zero; "
            "restore the default floating-point mode (fesetenv(FE_DFL_ENV)) around the call");
    return 0;
}

int twin_acc_add(struct twin_acc *acc, enum twin_dtype dtype, const void *x, int64_t n,
                 struct twin_error *err)
{
    return add_numbers(acc, TW_SUM, dtype, x, x, n, err);
}

int twin_acc_add_abs(struct twin_acc *acc, enum twin_dtype dtype, const void *x, int64_t n,
                     struct twin_error *err)
{
    return add_numbers(acc, TW_ABS, dtype, x, x, n, err);
}

int twin_acc_add_squares(struct twin_acc *acc, enum twin_dtype dtype, const void *x, int64_t n,
                         struct twin_error *err)
{
    return add_numbers(acc, TW_SQUARE, dtype, x, x, n, err);
}

int twin_acc_add_products(struct twin_acc *acc, enum twin_dtype dtype, const void *x, const void *y,
                          int64_t n, struct twin_error *err)
{
    return add_numbers(acc, TW_PRODUCT, dtype, x, y, n, err);
}

/* A sum in one call. */
static int at_once(enum tw_op op, enum twin_dtype dtype, const void *x, const void *y, int64_t n,
                   void *out, struct twin_error *err)
{
    struct twin_acc acc;
    twin_acc_init(&acc);
    const int rc = add_numbers(&acc, op, dtype, x, y, n, err);
    return rc ? rc : twin_acc_round(&acc, dtype, out, err);
}

#define AT_ONCE(name, type, dtype)                                                       \
    int twin_sum_##name(const type *x, int64_t n, type *out, struct twin_error *err)     \
    {                                                                                    \
        return at_once(TW_SUM, dtype, x, x, n, out, err);                                \
    }                                                                                    \
    int twin_abs_sum_##name(const type *x, int64_t n, type *out, struct twin_error *err) \
    {                                                                                    \
        return at_once(TW_ABS, dtype, x, x, n, out, err);                                \
    }                                                                                    \
    int twin_norm2_##name(const type *x, int64_t n, type *out, struct twin_error *err)   \
    {                                                                                    \
        return at_once(TW_SQUARE, dtype, x, x, n, out, err);                             \
    }                                                                                    \
    int twin_dot_##name(const type *x, const type *y, int64_t n, type *out,              \
                        struct twin_error *err)                                          \
    {                                                                                    \
        return at_once(TW_PRODUCT, dtype, x, y, n, out, err);                            \
    }
AT_ONCE(f64, double, TWIN_F64)
AT_ONCE(f32, float, TWIN_F32)
AT_ONCE(f16, uint16_t, TWIN_F16)
AT_ONCE(bf16, uint16_t, TWIN_BF16)
