/* SPDX-License-Identifier: Apache-2.0 */
/* How a call is bound to the version of its function that every glibc has: see oldglibc.c. */
#ifndef TW_OLDGLIBC_H
#define TW_OLDGLIBC_H

#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#else
#error "src/base/meson.build wraps nothing on this machine: do not compile this file"
#endif

#define WRAP_OF(version, result, name, parameters, arguments) \
    result first_##name parameters;                           \
    result __wrap_##name parameters;                          \
    __asm__(".symver first_" #name "," #name "@" version);    \
    result __wrap_##name parameters                           \
    {                                                         \
        return first_##name arguments;                        \
    }

#define WRAP(result, name, parameters, arguments) \
    WRAP_OF(FIRST, result, name, parameters, arguments)

#endif
