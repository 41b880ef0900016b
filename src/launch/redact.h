/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_REDACT_H
#define TWIN_REDACT_H
/*
 * Keeps secrets out of what is written down. What looks like one is replaced by `[redacted:` + 16
 * hex digits of its HMAC-SHA256 + `]`. The key is 32 random bytes in the user's state folder
 * ($XDG_STATE_HOME/twinrun/redaction.key, else below ~/.local/state; mode 0600) and never in a
 * home: equal secrets of one user show as equal, a changed one as changed, and who has the home or
 * a run folder cannot try guesses. What counts as a secret: docs/provenance.md. Room: src/launch.
 */
#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

struct twin_redactor;

/*
 * Reads the key, or makes it; one that an older version left in the home is moved to the state
 * folder and goes on being used for that home. Where there is no key to be had (no home folder that
 * can be written) the redactor works without:
 * `[redacted]`, the same for all. Only TWIN_ENOMEM is an error.
 */
int twin_redactor_open(const char *home, struct twin_redactor **out, struct twin_error *err);
/* One that works without a key and looks for none. NULL: no memory. */
struct twin_redactor *twin_redactor_without_key(void);
void twin_redactor_close(struct twin_redactor *r); /* NULL: nothing */
/* 16 hex digits that tell keys apart and say nothing about them; "" without a key. Values redacted
 * under different keys cannot be compared. */
const char *twin_redactor_key_id(const struct twin_redactor *r);

/* s with its secrets replaced; *pending as in tw_secret_next, NULL for a text that stands alone.
 * malloc'ed (tw_free); NULL: no memory. */
char *twin_redact(const struct twin_redactor *r, const char *s, int *pending);
/* All of s replaced. */
char *twin_redact_whole(const struct twin_redactor *r, const char *s, size_t n);
/* The value of a variable as it may be kept: itself, with its secrets replaced, or replaced as a
 * whole. */
char *twin_redact_variable(const struct twin_redactor *r, const char *name, const char *value);
/* A copy of a command; NULL-terminated, each and the array tw_free'd (twin_redact_free). NULL: no
 * memory. */
char **twin_redact_argv(const struct twin_redactor *r, char *const *argv, size_t argc);
void twin_redact_free(char **argv);
/* Does a recorded text have something in it that was replaced? It cannot be used again as it is. */
bool twin_redacted(const char *s);
#endif
