/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SANITIZED_H
#define TW_SANITIZED_H
/* Is the address sanitizer in this build? The same tests run without it as well, whole: where all
 * is slower, and memory alone is in question, a test that repeats itself may do so less often. gcc
 * says it by a macro, clang as a feature. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#undef SANITIZED
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
