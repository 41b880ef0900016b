/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PHRASE_H
#define TW_PHRASE_H
/* Small words that sentences need again and again: the plural's s, and a text or what stands for
 * it. */
#include <stdint.h>

/* What follows a noun that n counts: "" for one, "s" for none and for many. */
static inline const char *tw_plural_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* The text, or what stands for it where there is none. */
static inline const char *tw_text_or(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}
#endif
