/* SPDX-License-Identifier: Apache-2.0 */
/* What rooms say, on its way to whoever listens (front.h). Values in a message are made printable
 * here, so that no command has to think of it. A message for which there is no memory becomes "out
 * of memory". */
#include "front.h"

#include "base.h"

#include <string.h>

static void say_line(const struct tw_front *front, const char *format, va_list ap, const char *tail)
{
    struct tw_buf message = {0};
    if (!front || !front->say)
        return;
    tw_buf_puts(&message, "");
    tw_buf_vprint_safe(&message, format, ap);
    tw_buf_puts(&message, tail);
    front->say(front->user, message.failed ? "out of memory" : message.data);
    tw_buf_free(&message);
}

void tw_front_say(const struct tw_front *front, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_line(front, format, ap, "");
    va_end(ap);
}

int tw_front_trouble(const struct tw_front *front, const struct twin_error *err, const char *format,
                     ...)
{
    char *tail = tw_error_tail(err);
    va_list ap;
    va_start(ap, format);
    say_line(front, format, ap, tail ? tail : "");
    va_end(ap);
    tw_free(tail);
    return err && err->code != 0 ? err->code : TWIN_EINVAL;
}

void tw_front_line(const struct tw_front *front, const char *format, ...)
{
    struct tw_buf line = {0};
    va_list ap;
    if (!front || !front->line)
        return;
    tw_buf_puts(&line, "");
    va_start(ap, format);
    tw_buf_vprint_safe(&line, format, ap);
    va_end(ap);
    front->line(front->user, line.failed ? "out of memory" : line.data);
    tw_buf_free(&line);
}

void tw_front_progress(const struct tw_front *front, const char *line)
{
    if (front && front->progress)
        front->progress(front->user, line);
}

bool tw_front_stops(const struct tw_front *front)
{
    return front && front->stop && front->stop(front->user);
}
