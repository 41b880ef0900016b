/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PACKAGE_UNPACK_H
#define TW_PACKAGE_UNPACK_H
/* Inside of replay's half of the package room: what unpack*.c share. The package was verified; what
 * its JSON says is still foreign, since a package that is as it was made can have been made to do
 * harm. */
#include "pack.h"

#define TW_REPLAY_COPY "verified" /* in the folder of a replay: the package, as it was verified */

/* One unpacking. All pointers but verdict, o and out are owned; twin_unpack frees them. */
struct tw_unpack {
    const struct twin_bag_verdict *verdict;
    const struct twin_unpack_options *o;
    struct twin_unpacked *out;
    /* descriptor of the verified copy of the package; dir is its path */
    int root;                /* of the package */
    char *dir, *into, *code; /* absolute; code: INTO/code */
    /* descriptors of the new folder and of its code */
    int into_fd, code_fd;
    char *python; /* interpreter; NULL: none is needed */
    /* the areas' files, and data/package.json */
    json_t *code_json, *data_json, *environment, *configuration, *seeds, *package;
};

/* Each makes one part of the replay's folder, in this order: data may lie inside of the code,
 * packages may be installed from it. 0, or a TWIN_E* as twin_unpack says. */
int tw_unpack_code(struct tw_unpack *u, struct twin_error *err);
int tw_unpack_data(struct tw_unpack *u, struct twin_error *err);
int tw_unpack_environment(struct tw_unpack *u, struct twin_error *err);

/* Copies a file of the package to a path below root; what is there is replaced, links on the way
 * are refused. */
int tw_unpack_file(struct tw_unpack *u, const char *from, int root, const char *to, bool executable,
                   struct twin_error *err);
/* Says what is being done, where somebody listens. */
void tw_unpack_say(const struct tw_unpack *u, const char *what);
int tw_unpack_bad(const char *where, const char *what, struct twin_error *err); /* TWIN_EFORMAT */
#endif
