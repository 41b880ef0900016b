/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a code and one complete message. The first one wins. */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int twin_error_vset(struct twin_error *err, int code, const char *format, va_list ap)
{
    if (err && err->code == 0) {
        err->code = code;
        vsnprintf(err->message, sizeof err->message, format, ap);
    }
    return code;
}

int twin_error_set(struct twin_error *err, int code, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    twin_error_vset(err, code, format, ap);
    va_end(ap);
    return code;
}

int tw_no_memory(struct twin_error *err, const char *doing, ...)
{
    static const char start[] = "out of memory ";
    const size_t n = sizeof start - 1;
    if (err && err->code == 0) {
        va_list ap;
        va_start(ap, doing);
        err->code = TWIN_ENOMEM;
        memcpy(err->message, start, n);
        vsnprintf(err->message + n, sizeof err->message - n, doing, ap);
        va_end(ap);
    }
    return TWIN_ENOMEM;
}

static int code_of_errno(int number)
{
    switch (number) {
    case ENOENT: return TWIN_ENOENT;
    case ENOMEM: return TWIN_ENOMEM;
    default: return TWIN_EIO;
    }
}

int twin_error_system(struct twin_error *err, const char *format, ...)
{
    int saved = errno;
    int code = code_of_errno(saved);
    if (err && err->code == 0) {
        va_list ap;
        va_start(ap, format);
        twin_error_vset(err, code, format, ap);
        va_end(ap);
        size_t n = strlen(err->message);
        snprintf(err->message + n, sizeof err->message - n, ": %s", strerror(saved));
    }
    errno = saved;
    return code;
}

const char *twin_error_name(int code)
{
    switch (code) {
    case TWIN_OK: return "ok";
    case TWIN_EINVAL: return "wrong use";
    case TWIN_ENOMEM: return "out of memory";
    case TWIN_EIO: return "input/output error";
    case TWIN_ENOENT: return "not found";
    case TWIN_EFORMAT: return "format error";
    case TWIN_EVERSION: return "unknown version";
    case TWIN_ELIMIT: return "limit reached";
    case TWIN_EUNSUPPORTED: return "not supported here";
    case TWIN_EBUSY: return "busy";
    case TWIN_EINTR: return "interrupted";
    default: return "unknown error";
    }
}
