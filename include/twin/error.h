/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ERROR_H
#define TWIN_ERROR_H
/*
 * Errors. A fallible function returns 0 or a negative TWIN_E* code; the details go into a
 * caller-owned struct twin_error (last parameter, may be NULL). The first failure wins: setting
 * an error that is already set keeps the first message. Findings (equal, differs) are never errors.
 *
 * Thread safety: a struct twin_error belongs to one thread at a time. Nothing here allocates, and
 * all is safe after fork. Setting an error formats text by vsnprintf, so it is not for signal
 * handlers; nor is, for that reason, any function that has an err. Since 0.1.
 */
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a fallible function returns. The numbers stay as they are; later ones may be added. */
enum twin_error_code {
    TWIN_OK = 0,
    TWIN_EINVAL = -1, /* the caller broke a documented rule (bad argument, bad option) */
    TWIN_ENOMEM = -2, /* an allocation failed */
    /* the system refused a read, write, open, ... ; message has errno's text */
    TWIN_EIO = -3,
    TWIN_ENOENT = -4, /* the named thing does not exist */
    /* bytes that do not obey their format; message has offset, expected, found */
    TWIN_EFORMAT = -5,
    TWIN_EVERSION = -6,     /* a format version this program does not read */
    TWIN_ELIMIT = -7,       /* a documented cap was reached */
    TWIN_EUNSUPPORTED = -8, /* cannot be done on this machine or build */
    TWIN_EBUSY = -9,        /* somebody else holds it; trying again may help */
    TWIN_EINTR = -10,       /* the user asked to stop (Ctrl-C) */
};

#define TWIN_ERROR_MESSAGE_BYTES 1024 /* its NUL included */

/* The details of a failure: a whole sentence for people. It owns nothing and needs no freeing. Set
 * it to TWIN_ERROR_INIT before the first call, and again before a later failure should count. */
struct twin_error {
    int code;                               /* 0 or a twin_error_code */
    char message[TWIN_ERROR_MESSAGE_BYTES]; /* always NUL-terminated, cut if longer */
};

#define TWIN_ERROR_INIT \
    {                   \
        0,              \
        {               \
            0           \
        }               \
    }

/* Sets err (if not NULL and not yet set) to a code other than 0 and a message as by printf, and
 * returns that code, so that `return twin_error_set(...)` reads well. */
int twin_error_set(struct twin_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a list of arguments, which is used up. */
int twin_error_vset(struct twin_error *err, int code, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));
/* As twin_error_set with TWIN_EIO (or TWIN_ENOENT for ENOENT, TWIN_ENOMEM for ENOMEM); appends a
 * colon and strerror(errno). Keeps errno. Returns the code. */
int twin_error_system(struct twin_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Short name of a code, e.g. "format error"; also of a number that is none. Never NULL, static. */
const char *twin_error_name(int code);

#ifdef __cplusplus
}
#endif
#endif
