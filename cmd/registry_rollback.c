/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun registry rollback: an older version back into production. Its files are restored and
 * proven before the log says that it is there, so whatever fails before leaves the stage as it was.
 */
#include "registry.h"

#include "replay.h"
#include "runs.h"
#include "say.h"

#include "base.h"
#include "json_load.h"
#include "phrase.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
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

/* How the replay of the version's package ended, where it was not proven. */
struct rerun {
    const struct tw_evidence *package;
    int code;            /* exit code of the replay */
    json_t *missing;     /* as in struct tw_replay_end, or null */
    char why[2048];      /* the last thing that was said */
    json_t *differences; /* of the environment: a list of texts */
};

static struct tw_replay_args replay_args(const struct tw_registry_args *a)
{
    return (struct tw_replay_args){.environment = a->environment ? a->environment : "check",
                                   .python = a->python,
                                   .container = a->container,
                                   .image = a->image,
                                   .gpus = "auto",
                                   .fetch = a->fetch,
                                   .data = a->data,
                                   .pip = a->pip,
                                   .json = a->json,
                                   .quiet = a->quiet};
}

/* In the child: replays, and hands on through the pipe why nothing came of it. Where we print JSON
 * the replay's own words go to stderr. */
static _Noreturn void become_replay(const struct tw_registry_args *a, const char *into,
                                    const char *place, int out)
{
    struct tw_replay_args replay = replay_args(a);
    replay.into = into;
    struct tw_replay_end end;
    if (a->json)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    const int code = tw_replay(&replay, place, &end);
    json_t *o = json_pack("{s:s?, s:o, s:O?}", "missing", end.missing, "why",
                          tw_json_text(end.said), "differences", end.differences);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    fflush(NULL);
    const bool told = text && tw_write_all(out, text, strlen(text)) == 0;
    _exit(told ? code : TW_EXIT_TROUBLE);
}

/* All of it, as an object; NULL: the child ended before it could say anything. */
static json_t *read_told(int in)
{
    enum { MOST = 16 << 20 };
    struct tw_buf text = {0};
    char chunk[4096];
    ssize_t n;
    while ((n = read(in, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && text.len < MOST)
            tw_buf_append(&text, chunk, (size_t)n);
    json_t *o = text.len ? tw_json_load(text.data, text.len, 0, NULL) : NULL;
    tw_buf_free(&text);
    return o;
}

/* twinrun replay of the package in `place`, in a process of its own, since a replay changes the
 * working folder and the environment. Its exit code is r->code. */
static int replay_in(const struct tw_registry_args *a, const char *into, const char *place,
                     struct rerun *r, struct twin_error *err)
{
    int told[2], status = 0;
    if (pipe2(told, O_CLOEXEC) != 0)
        return twin_error_system(err, "cannot start a replay");
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        become_replay(a, into, place, told[1]);
    close(told[1]);
    json_t *o = pid > 0 ? read_told(told[0]) : NULL;
    close(told[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return twin_error_system(err, "cannot wait for a replay");
    if (pid < 0)
        return twin_error_system(err, "cannot start a replay");
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : TW_EXIT_INTERRUPTED;
    r->missing = json_incref(json_object_get(o, "missing"));
    r->differences = json_incref(json_object_get(o, "differences"));
    snprintf(r->why, sizeof r->why, "%s",
             tw_text_or(json_string_value(json_object_get(o, "why")), "it said nothing"));
    json_decref(o);
    return 0;
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

/* Replays the version's package, in a folder beside where the artifact goes. What cannot be had of
 * it is no error: *r says so. */
static int replay_package(struct tw_registry_use *u, const struct tw_version *v,
                          const struct tw_artifact *a, struct rerun *r, struct twin_error *err)
{
    struct twin_error lost = TWIN_ERROR_INIT;
    struct tw_artifact files = {0};
    struct tw_beside beside = {.root = -1};
    char *name = tw_printf("%s.package", u->a->into), *place = NULL;
    char *into = name ? twin_replay_beside(name, err) : NULL;
    int rc = into ? find_package(u, v, a, &r->package, &files, &lost) : TWIN_ENOMEM;
    rc = rc ? rc : tw_beside_open(&beside, name, &lost);
    if (rc == 0 && !(place = tw_path_join(beside.temp, "package")))
        rc = tw_no_memory(&lost, "for a package");
    rc = rc ? rc : tw_artifact_restore(&files, u->r.store, place, &lost);
    if (!into) {
        rc = name ? err->code : tw_no_memory(err, "for a package");
    } else if (rc == 0) {
        rc = replay_in(u->a, into, place, r, err);
    } else {
        r->code = TW_EXIT_TROUBLE;
        r->missing = json_string("package");
        snprintf(r->why, sizeof r->why, "%s", lost.message);
        rc = 0;
    }
    tw_beside_close(&beside, name, false, rc, NULL); /* the store has it */
    tw_artifact_free(&files);
    tw_free(place);
    tw_free(into);
    tw_free(name);
    return rc;
}

/* ---- what is left to be said without it */

/* How many files of the artifact the store has with their digests; *err: what is wrong with the
 * first that is not so. */
static size_t proven_files(struct tw_registry_use *u, const struct tw_artifact *a,
                           struct twin_error *err)
{
    size_t right = 0;
    for (size_t i = 0; i < a->count; i++)
        right += tw_store_get_content(u->r.store, a->file[i].sha256, -1, err) == 0;
    return right;
}

/* What can be missing, and what helps. */
static const struct lack {
    const char *missing, *sentence, *help;
} lacks[] = {
    {"package", "cannot be run again: no whole package of the run that made it is here",
     "twinrun registry attach with a copy of the package"},
    {"code", "cannot be run again: its code cannot be laid out here",
     "with git, or a copy of the package that has the code"},
    {"data", "cannot be run again: its data are not here", "--data DIR, or --fetch"},
    {"environment", "cannot be run again: its environment is not here, and was not made",
     "--environment build with --python and --pip-option, or --environment here"},
    {"engine", "cannot be run again: no container can be started for it here",
     "another --container"},
    {"image", "cannot be run again: its container image is not here",
     "--image oci:DIR, or --fetch"},
    {"program", "cannot be run again: its program cannot be started here",
     "on a machine that has the program"},
};

/* The word of JSON, and the sentence. *help: NULL where nothing is missing. */
static const char *came_to(const struct rerun *r, const char **sentence, const char **help)
{
    const char *missing = json_string_value(r->missing);
    *help = NULL;
    *sentence = "was run again, and it cannot be told whether the same comes out";
    if (r->code == TW_EXIT_INCONCLUSIVE)
        return "not known";
    *sentence = "was run again, and something else came out of the replay";
    if (r->code == TW_EXIT_DIFFER)
        return "differs";
    *sentence = "could not be run again to its end";
    for (size_t i = 0; missing && i < sizeof lacks / sizeof *lacks; i++)
        if (strcmp(missing, lacks[i].missing) == 0) {
            *sentence = lacks[i].sentence;
            *help = lacks[i].help;
        }
    return *help ? "not possible" : "failed";
}

/* Without what "replay" says of itself. */
static const char *plain_why(const struct rerun *r)
{
    static const char *const heads[] = {"replay: ", "nothing was run: "};
    const char *why = r->why;
    for (size_t i = 0; i < 2; i++)
        if (tw_starts(why, heads[i]))
            why += strlen(heads[i]);
    return why;
}

/* Nothing was rolled back: what is missing, and what can be proven all the same. The exit code. */
static int tell_rerun(struct tw_registry_use *u, const struct tw_model *m,
                      const struct tw_version *v, const struct tw_artifact *a,
                      const struct rerun *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const char *sentence, *help, *word = came_to(r, &sentence, &help);
    const size_t proven = proven_files(u, a, &err);
    const char *alone = proven == a->count ? "; without --rerun it comes back by its digest alone"
                                           : "";
    const unsigned long long number = v->number, production = m->production;
    tw_say("registry rollback: nothing was rolled back: %s@%llu %s", m->name, number, sentence);
    if (help == lacks[0].help) /* what else is missing the replay has said */
        tw_put_to(stderr, "  why     %s\n", plain_why(r));
    if (proven == a->count)
        tw_put_to(stderr,
                  "  proven  its files are in the registry, each with the digest of entry %llu "
                  "(artifact %.12s)\n",
                  (unsigned long long)v->added_by, v->artifact);
    else
        tw_put_to(stderr, "  proven  %zu of its %zu file%s; %s\n", proven, a->count,
                  tw_plural_s(a->count), err.message);
    if (production)
        tw_put_to(stderr, "  stage   %s@%llu stays in production\n", m->name, production);
    else
        tw_put_to(stderr, "  stage   nothing of %s is in production, as before\n", m->name);
    if (help)
        tw_put_to(stderr, "  try     %s%s\n", help, alone);
    if (!u->a->json)
        return r->code;
    char *all = help ? tw_printf("%s%s", help, alone) : NULL;
    int rc = tw_registry_put_json(
        u, json_pack(
               "{s:s, s:s, s:s, s:I, s:s, s:b, s:s, s:s, s:O?, s:o, s:o, s:s?, s:I, s:I, s:o}",
               "schema", "twinrun.registry/1", "verb", u->verb, "model", m->name, "version",
               (json_int_t)number, "artifact", v->artifact, "rolled_back", false, "rerun", word,
               "said", sentence, "missing", r->missing, "why",
               r->code == TW_EXIT_TROUBLE ? tw_json_text(plain_why(r)) : json_null(), "differences",
               json_is_array(r->differences) ? json_incref(r->differences) : json_array(), "try",
               all, "files", (json_int_t)a->count, "proven", (json_int_t)proven, "production",
               production ? json_integer((json_int_t)production) : json_null()));
    tw_free(all);
    return rc ? rc : r->code;
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
    struct rerun r = {.code = 0};
    int rc = u->a->rerun ? replay_package(u, v, &a, &r, &err) : 0;
    if (rc != 0)
        rc = tw_trouble(&err, "registry rollback: nothing was rolled back");
    else if (r.code == TW_EXIT_INTERRUPTED)
        rc = r.code;
    else if (r.code != 0)
        rc = tell_rerun(u, m, v, &a, &r);
    else if (tw_artifact_restore(&a, u->r.store, u->a->into, &err) != 0)
        rc = tw_trouble(&err, "registry rollback: nothing was rolled back");
    if (rc == 0 && u->a->rerun)
        snprintf(rerun, sizeof rerun, "package %.12s was replayed, and the same came out",
                 r.package->sha256);
    json_decref(r.missing);
    json_decref(r.differences);
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
    if (!a->rerun && (a->container || a->image || a->fetch))
        return tw_bad_use("registry",
                          "rollback: --container, --image, --fetch: expected --rerun with them");
    const struct tw_replay_args replay = replay_args(a);
    int rc = tw_replay_check(&replay);
    if (rc >= 0)
        return rc;
    rc = tw_registry_begin_writing("rollback", a, &u);
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
