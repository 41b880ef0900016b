/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LAUNCH_CAPTURE_H
#define TW_LAUNCH_CAPTURE_H
/* Small programs that help us: started, listened to, ended. None of them is a job. */
#include "front.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/*
 * Runs a small helper program with /dev/null as input and keeps what it prints to stdout (at most 1
 * MiB) in *out (malloc'ed, NUL-terminated). Its stderr goes to /dev/null. *status is from waitpid.
 * TWIN_ENOENT: not found; TWIN_ELIMIT: still running after timeout_s (killed) or printed too much;
 * TWIN_EIO; TWIN_ENOMEM.
 */
int tw_capture(char *const *argv, double timeout_s, char **out, int *status,
               struct twin_error *err);

/*
 * The same for a longer program that prints line by line: each line (at most 1 MiB, its end taken
 * off) goes to on_line as soon as it is there; non-zero from it ends the program, and is the
 * result. TWIN_ELIMIT also when no line came for silence_s. When the person in front wants an end,
 * the program is ended, and this gives 0 with *interrupted set.
 */
int tw_capture_lines(char *const *argv, double silence_s, const struct tw_front *front,
                     int (*on_line)(void *user, char *line, struct twin_error *err), void *user,
                     bool *interrupted, int *status, struct twin_error *err);

/* Is there such a program in PATH? */
bool tw_in_path(const char *program);
/* The interpreter that --python named, or else python3 or python of PATH. malloc'ed; NULL when out
 * of memory. */
char *tw_find_python(const char *given);
/* Which packages a Python can import, found without importing them. All false where it cannot be
 * started. */
struct tw_python_packages {
    bool numpy, torch, jax, tensorflow;
};
struct tw_python_packages tw_python_packages(const char *python);

#endif
