/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_LOOKUP_H
#define TW_AGENT_LOOKUP_H
/*
 * The function that an interposed one stands in front of. `cache` starts as NULL and keeps what was
 * found. NULL when there is no such function in this process. errno is kept.
 */
#include <stdatomic.h>

/* In the libraries that come after ours in the search order: libc's, or another preload's. */
void *tw_lookup_next(void *_Atomic *cache, const char *symbol);
/* As above, and then in each loaded library: one loaded with RTLD_LOCAL (libtorch, libstdc++ below
 * Python) is found by no search order, though its own calls meet our function first. own: our
 * function, which is not the answer. */
void *tw_lookup_anywhere(void *_Atomic *cache, const char *symbol, void *own);

/* real_NAME(): the function behind our NAME, with its type; NULL when the host has none. */
#define TW_REAL(result, name, parameters)                                     \
    typedef result name##_fn parameters;                                      \
    static void *_Atomic name##_cache;                                        \
    static inline name##_fn *real_##name(void)                                \
    {                                                                         \
        void *p_ = atomic_load_explicit(&name##_cache, memory_order_relaxed); \
        return (name##_fn *)(__builtin_expect(p_ != NULL, 1)                  \
                                 ? p_                                         \
                                 : tw_lookup_next(&name##_cache, #name));     \
    }
#endif
