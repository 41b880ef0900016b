/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_BASE_FRONT_H
#define TW_BASE_FRONT_H
/*
 * What a room knows of the person in front: it may say something, leave a line of a table (how a
 * run ended), show how far it is, and ask whether to go on. The command decides what becomes of it
 * (cmd/say.c: the terminal; a test: a buffer). A room prints nothing itself.
 *
 * All functions take NULL for a front that hears nothing and never stops. They are called by one
 * thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/* The functions of one front, with the `user` that each gets. */
struct tw_front {
    void *user;
    /* one whole message, printable; NULL: not heard */
    void (*say)(void *user, const char *message);
    /* stays, and stands by itself; printable; NULL: not heard */
    void (*line)(void *user, const char *line);
    /* replaces the line before; NULL for line: nothing goes on now */
    void (*progress)(void *user, const char *line);
    /* true from the moment on at which the person wants an end */
    bool (*stop)(void *user);
};

/* As printf: what the text arguments hold is made printable first (tw_buf_vprint_safe). */
void tw_front_say(const struct tw_front *front, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * The same with ": " and the message of err behind it. Returns the code of err, never 0:
 * TWIN_EINVAL where there is none.
 */
int tw_front_trouble(const struct tw_front *front, const struct twin_error *err, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));
/* A line that stays, formatted as by tw_front_say, without a line break. */
void tw_front_line(const struct tw_front *front, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tw_front_progress(const struct tw_front *front, const char *line);
bool tw_front_stops(const struct tw_front *front);

#endif
