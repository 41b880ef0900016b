/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_SEAL_H
#define TW_REGISTRY_SEAL_H
/*
 * Encryption of one file for whoever has one of several keys, by OpenSSL's primitives
 * (seal_openssl.c) or by the program age (seal_age.c). What it is for, and which content of a
 * registry lies under which other digest, is store_sealed.c's.
 *
 * Both ways are authenticated: who reads gets the plaintext or an error. As it is given out piece
 * by piece, an error may come after a part of it: the caller throws that away.
 */
#include "sink.h"

#include "base.h" /* struct tw_strings */

#include <stdint.h>
#include <twin/error.h>

struct json_t;

/* A file on its way: read from `in` at its beginning. `shown` stands in messages. */
struct tw_seal_flow {
    int in;
    int sealed; /* where the ciphertext goes; not looked at when one is opened */
    const char *shown;
    struct tw_sink plain; /* where the plaintext goes, if anywhere; it has been begun */
};

/* One way. recipients: texts as they stand in the log. */
struct tw_seal_way {
    const char *name; /* "openssl" */
    /* A recipient as the command line has it, as a text for the log (malloc'ed). TWIN_EINVAL,
     * TWIN_EFORMAT: it is none. */
    int (*recipient)(const char *given, char **text, struct twin_error *err);
    int (*seal)(const struct json_t *recipients, struct tw_seal_flow *f, struct twin_error *err);
    /* TWIN_EINVAL: none of the identities opens it. TWIN_EFORMAT: it was changed, or cut. */
    int (*open)(const struct tw_strings *identities, struct tw_seal_flow *f,
                struct twin_error *err);
};
extern const struct tw_seal_way tw_seal_openssl, tw_seal_age;

/* A piece of the plaintext passes by. 0, or an error. */
int tw_seal_pass(struct tw_seal_flow *f, const void *data, size_t n, struct twin_error *err);
/*
 * A new file that has no name, for this user alone, closed in programs that are started: in TMPDIR,
 * else in /var/tmp, which is a disk where /tmp may be memory. The caller closes it. -1 with err
 * set (TWIN_EIO), which names the folder.
 */
int tw_nameless_file(struct twin_error *err);
/* The same in memory alone: no disk ever has its bytes, but for swap. name: for lists of open
 * files. */
int tw_memory_file(const char *name, struct twin_error *err);
#endif
