/* SPDX-License-Identifier: Apache-2.0 */
/* A byte buffer that grows: append and print as often as needed, look once at the end. After the
 * first failure it stays failed, every further call returns the same code and tw_buf_steal() gives
 * NULL, so callers need no check between their calls. What was appended before a failure is still
 * there. */
#include "base.h"

#include <stdio.h>
#include <string.h>

/* Bytes, where the owner sets no cap: no text of ours is that long. */
#define DEFAULT_CAP ((size_t)1 << 30)

/* Makes room for `extra` bytes and the NUL behind them. Room doubles, so appending costs constant
 * time on average. cap bounds the length with its NUL. */
static int reserve(struct tw_buf *b, size_t extra)
{
    size_t cap = b->cap ? b->cap : DEFAULT_CAP;
    if (b->failed)
        return b->failed;
    if (extra >= cap || b->len > cap - extra - 1)
        return b->failed = TWIN_ELIMIT;
    size_t need = b->len + extra + 1;
    if (need <= b->room)
        return 0;
    size_t room = b->room ? b->room : 64;
    while (room < need)
        room *= 2;
    char *grown = tw_realloc(b->data, room);
    if (!grown)
        return b->failed = TWIN_ENOMEM;
    b->data = grown;
    b->room = room;
    return 0;
}

int tw_buf_append(struct tw_buf *b, const void *p, size_t n)
{
    int rc = reserve(b, n);
    if (rc)
        return rc;
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int tw_buf_puts(struct tw_buf *b, const char *s)
{
    return tw_buf_append(b, s, strlen(s));
}

/* Measured first, then written: nothing is ever cut. */
int tw_buf_vprintf(struct tw_buf *b, const char *format, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        return b->failed = TWIN_EINVAL;
    int rc = reserve(b, (size_t)n);
    if (rc)
        return rc;
    vsnprintf(b->data + b->len, (size_t)n + 1, format, ap);
    b->len += (size_t)n;
    return 0;
}

int tw_buf_printf(struct tw_buf *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int rc = tw_buf_vprintf(b, format, ap);
    va_end(ap);
    return rc;
}

/* An empty buffer gives "", not NULL. */
char *tw_buf_steal(struct tw_buf *b)
{
    char *data = NULL;
    if (reserve(b, 0) == 0) {
        b->data[b->len] = '\0';
        data = b->data;
        b->data = NULL;
    }
    tw_buf_free(b);
    return data;
}

void tw_buf_free(struct tw_buf *b)
{
    tw_free(b->data);
    *b = (struct tw_buf){.cap = b->cap};
}
