/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PACKAGE_UNPACK_H
#define TW_PACKAGE_UNPACK_H
/* Inside of replay's half of the package room: what unpack*.c share. The package was verified; what
 * its JSON says is still foreign. */
#include "pack.h"

#define TW_REPLAY_COPY "verified" /* in the folder of a replay: the package, as it was verified */

struct tw_unpack {
    const struct twin_bag_verdict *verdict;
    const struct twin_unpack_options *o;
    struct twin_unpacked *out;
    int root;                /* of the package */
    char *dir, *into, *code; /* absolute; code: INTO/code */
    int into_fd, code_fd;
    char *python; /* interpreter; NULL: none is needed */
    json_t *code_json, *data_json, *environment, *configuration, *seeds, *package;
};

int tw_unpack_code(struct tw_unpack *u, struct twin_error *err);
int tw_unpack_data(struct tw_unpack *u, struct twin_error *err);
int tw_unpack_environment(struct tw_unpack *u, struct twin_error *err);

/* Copies a file of the package to a path below root; what is there is replaced, links on the way
 * are refused. */
int tw_unpack_file(struct tw_unpack *u, const char *from, int root, const char *to, bool executable,
                   struct twin_error *err);
void tw_unpack_say(const struct tw_unpack *u, const char *what);
int tw_unpack_bad(const char *where, const char *what, struct twin_error *err); /* TWIN_EFORMAT */
#endif
