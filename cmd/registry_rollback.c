/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun registry rollback: an older version back into production. Its files are restored and
 * proven before the log says that it is there, so whatever fails before leaves the stage as it was.
 */
#include "registry.h"

#include "runs.h"
#include "say.h"

#include "base.h"

#include <errno.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The version to go back to: of several that were in production, the one that left it last. */
static const struct tw_version *last_production(const struct tw_model *m)
{
    const struct tw_version *found = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const struct tw_version *v = &m->version[i];
        if (v->was_production && v->number != m->production && !v->collected &&
            (!found || v->moved_by > found->moved_by))
            found = v;
    }
    return found;
}

/* ---- --rerun */

/* Appends an option and its value; nothing where there is none. The list has room for it. */
static size_t argue(const char **argv, size_t n, const char *option, const char *value)
{
    if (!value)
        return n;
    argv[n++] = option;
    argv[n++] = value;
    return n;
}

/* Starts this program with the arguments and waits: its exit code. In a process of its own, since a
 * replay changes the working folder and the environment. Where we print JSON it prints to stderr.
 */
static int run_ourselves(char *const *argv, bool json, struct twin_error *err)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status = 0;
    if (posix_spawn_file_actions_init(&files) != 0)
        return tw_no_memory(err, "for a replay");
    if (json)
        posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    errno = posix_spawn(&pid, "/proc/self/exe", &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (errno != 0)
        return twin_error_system(err, "cannot start a replay");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return twin_error_system(err, "cannot wait for a replay");
    return WIFEXITED(status) ? WEXITSTATUS(status) : TW_EXIT_INTERRUPTED;
}

/* twinrun replay of the package in `place`, with what was given for it. Its exit code. */
static int replay_in(const struct tw_registry_args *a, const char *place, struct twin_error *err)
{
    enum { OWN = 10 }; /* besides the two lists */
    const char **argv = tw_calloc(OWN + 2 * (a->data.count + a->pip.count), sizeof *argv);
    if (!argv)
        return tw_no_memory(err, "for a replay");
    size_t n = 0;
    argv[n++] = "twinrun";
    argv[n++] = "replay";
    for (size_t i = 0; i < a->data.count; i++)
        n = argue(argv, n, "--data", a->data.items[i]);
    for (size_t i = 0; i < a->pip.count; i++)
        n = argue(argv, n, "--pip-option", a->pip.items[i]);
    n = argue(argv, n, "--environment", a->environment);
    n = argue(argv, n, "--python", a->python);
    n = argue(argv, n, "--", place);
    int rc = run_ourselves((char *const *)(uintptr_t)argv, a->json, err);
    tw_free(argv);
    return rc;
}

/* The newest package whose run made the artifact, with its files. TWIN_ENOENT: there is none. */
static int find_package(struct tw_registry_use *u, const struct tw_version *v,
                        const struct tw_artifact *a, const struct tw_evidence **package,
                        struct tw_artifact *files, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    for (size_t i = v->evidence_count; i-- > 0;) {
        const struct tw_evidence *e = &v->evidence[i];
        if (strcmp(e->kind, "package") != 0 ||
            tw_artifact_read(u->r.store, e->sha256, files, &why) != 0)
            continue;
        if (tw_package_check(u->r.store, NULL, files, "the newest package", a, &why) == 0) {
            *package = e;
            return 0;
        }
        tw_artifact_free(files);
    }
    return twin_error_set(err, TWIN_ENOENT,
                          "--rerun: expected a package of the run that made it among its evidence "
                          "(twinrun pack, registry attach)%s%s",
                          *why.message ? "; " : "", why.message);
}

/* Replays the version's package, in a folder beside where the artifact goes; proof says so. 0, or
 * the exit code. */
static int replay_package(struct tw_registry_use *u, const struct tw_version *v,
                          const struct tw_artifact *a, char *proof, size_t room)
{
    const struct tw_evidence *package = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_artifact files = {0};
    char *place = tw_printf("%s.package", u->a->into);
    int rc = place ? 0 : tw_no_memory(&err, "for a package");
    rc = rc ? rc : find_package(u, v, a, &package, &files, &err);
    rc = rc ? rc : tw_artifact_restore(&files, u->r.store, place, &err);
    if (rc == 0) {
        rc = replay_in(u->a, place, &err);
        snprintf(proof, room, "package %.12s was replayed, and the same came out", package->sha256);
        tw_remove_tree(place, NULL, NULL); /* the store has it */
    }
    tw_artifact_free(&files);
    tw_free(place);
    if (rc < 0)
        return tw_trouble(&err, "registry rollback: nothing was rolled back");
    if (rc == TW_EXIT_DIFFER)
        tw_say("nothing was rolled back: something else came out of the replay");
    else if (rc != 0)
        tw_say("nothing was rolled back: it cannot be told whether the same comes out");
    return rc;
}

/* ---- the artifact, and the entry */

/* The artifact is in place and proven; the entry says so. */
static int write_rollback(struct tw_registry_use *u, const struct tw_model *m,
                          const struct tw_version *v, const char *rerun)
{
    struct tw_entry e = tw_registry_entry_of(TW_ENTRY_MOVE, u->a, m, v);
    char said[512], displaced[48] = "";
    const uint64_t added_by = v->added_by;
    e.from = v->stage;
    e.to = TW_STAGE_PRODUCTION;
    e.displaced = m->production;
    e.details = json_pack("{s:{s:s, s:s}}", "rollback", "digest", v->artifact, "rerun", rerun);
    if (m->production)
        snprintf(displaced, sizeof displaced, ", in place of @%llu",
                 (unsigned long long)m->production);
    const bool in_one = u->a->json && *rerun; /* else it has a line of its own */
    snprintf(said, sizeof said, "%s@%llu is in production again%s%s%s", m->name,
             (unsigned long long)v->number, displaced, in_one ? "; " : "", in_one ? rerun : "");
    int rc = tw_registry_add_entry(u, &e);
    json_decref(e.details);
    if (rc >= 0) {
        tw_say("%s holds %s@%llu, whose stage is as it was", u->a->into, m->name,
               (unsigned long long)v->number);
        return rc;
    }
    rc = tw_registry_written(u, said);
    if (rc == 0 && !u->a->json)
        tw_put("  proof   every file has the digest of entry %llu (artifact %.12s)\n"
               "  rerun   %s\n",
               (unsigned long long)added_by, e.artifact,
               *rerun ? rerun : "not asked for (--rerun)");
    return rc;
}

/* Restore, prove, and only then the entry: whatever fails before leaves the stage as it was. */
static int roll_back(struct tw_registry_use *u, const struct tw_model *m,
                     const struct tw_version *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_artifact a;
    char rerun[128] = "";
    if (v->number == m->production)
        return tw_trouble(NULL, "registry rollback: %s@%llu is in production now", m->name,
                          (unsigned long long)v->number);
    if (tw_artifact_read(u->r.store, v->artifact, &a, &err) != 0)
        return tw_trouble(&err, "registry rollback: nothing was rolled back");
    int rc = u->a->rerun ? replay_package(u, v, &a, rerun, sizeof rerun) : 0;
    if (rc == 0 && tw_artifact_restore(&a, u->r.store, u->a->into, &err) != 0)
        rc = tw_trouble(&err, "registry rollback: nothing was rolled back");
    tw_artifact_free(&a);
    return rc ? rc : write_rollback(u, m, v, rerun);
}

int tw_registry_rollback(const struct tw_registry_args *a, char *const *operands, size_t count)
{
    const struct tw_model *m = NULL;
    const struct tw_version *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry_use u;
    (void)count;
    if (!a->into)
        return tw_bad_use("registry", "rollback: expected --into PATH, where the artifact goes");
    int rc = tw_registry_begin_writing("rollback", a, &u);
    if (rc >= 0)
        return rc;
    if (tw_registry_find(&u.r, operands[0], &m, &v, &err) != 0)
        rc = tw_trouble(&err, "registry rollback");
    else if (!v && !(v = last_production(m)))
        rc = tw_trouble(NULL,
                        "registry rollback: no other version of %s was ever in production, or its "
                        "contents were removed; name one: %s@N",
                        m->name, m->name);
    if (rc < 0) {
        char *subject = tw_printf("%s@%llu", m->name, (unsigned long long)v->number);
        rc = roll_back(&u, m, v);
        if (subject)
            tw_ledger_note_event(a->home, "rollback", rc == 0 ? "restored" : "failed", subject);
        tw_free(subject);
    }
    tw_registry_end(&u);
    return rc;
}
