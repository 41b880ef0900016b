/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_REGISTRY_H
#define TW_CMD_REGISTRY_H
/* twinrun registry: what its verbs share. registry.c has the table of options and the dispatch,
 * registry_act.c the verbs that write, but for registry_rollback.c, registry_view.c those that
 * show. */
#include "options.h"

#include "src/registry/registry.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct tw_registry_args {
    const char *registry, *trust, *to, *policy, *into, *why, *home, *python, *environment, *mlflow,
        *container, *image;
    struct tw_strings keys, trusted, evidence, data, pip, encrypt, identities;
    double older, strays;
    uint64_t keep;
    bool contents, dry_run, rerun, fetch, oci, push, pull, json, quiet;
};

/* An open registry with whom its verb trusts. */
struct tw_registry_use {
    const struct tw_registry_args *a;
    struct tw_registry r;
    struct twin_trust *trust;
    const char *verb;
    json_t *told; /* an array that gets, in place of stdout, what is said as JSON; NULL: stdout */
};

/* Opens it, and holds it against what this home has seen of it. -1, or the exit code. */
int tw_registry_begin(const char *verb, const struct tw_registry_args *a,
                      struct tw_registry_use *u);
void tw_registry_end(struct tw_registry_use *u);
/* Prints it, or keeps it in u->told; takes the reference. The exit code. */
int tw_registry_put_json(const struct tw_registry_use *u, json_t *o);
/* Says that an entry was written, remembers the new head, and notes it in the ledger. The exit
 * code. */
int tw_registry_written(struct tw_registry_use *u, const char *said);

/* ---- of the verbs that write */

/* Opens the registry for one of them: refused before anything is done. -1, or the exit code. */
int tw_registry_begin_writing(const char *verb, const struct tw_registry_args *a,
                              struct tw_registry_use *u);
/* The entry of this kind about a version. Texts are borrowed. */
struct tw_entry tw_registry_entry_of(enum tw_entry_kind kind, const struct tw_registry_args *a,
                                     const struct tw_model *m, const struct tw_version *v);
/* Appends it. -1, or the exit code: what went wrong was said. */
int tw_registry_add_entry(struct tw_registry_use *u, struct tw_entry *e);
/* Promotes it to the stage of --to, if the policy is met. The exit code. */
int tw_registry_judge_and_promote(struct tw_registry_use *u, const struct tw_model *m,
                                  const struct tw_version *v);
int tw_registry_mirror(const struct tw_registry_args *a, char *const *operands, size_t count);
int tw_registry_rollback(const struct tw_registry_args *a, char *const *operands, size_t count);

/* One verb. operands: those behind its name; the exit code. */
struct tw_registry_verb {
    const char *name;
    size_t least, most; /* operands */
    bool writes;
    int (*run)(const struct tw_registry_args *a, char *const *operands, size_t count);
};
extern const struct tw_registry_verb tw_registry_acts[], tw_registry_views[];
#endif
