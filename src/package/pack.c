/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a run folder to a package (twinrun pack); or, with a writer that writes nothing, to the list
 * of what such a package would lack (twinrun audit of a run).
 *
 * The order: what is known of the run is loaded, each area collects its part (pack_*.c), then come
 * what was observed, the areas' JSON files, the lists of files and the signature. The package is
 * written to a folder beside its final name and renamed in the end, so a folder with that name is
 * always whole.
 */
#include "pack.h"

#include "base.h"
#include "json_load.h"

#include "src/provenance/provenance.h"
#include "src/sign/sign.h"
#include "src/sign/signing.h"
#include "src/snapshot/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most bytes of a scaling study. */
#define STUDY_MAX ((size_t)256 << 20)

const char *twin_area_name(enum twin_area a)
{
    static const char *const names[] = {"code", "data", "environment", "configuration", "seeds"};
    _Static_assert(sizeof names / sizeof *names == TWIN_AREAS, "a name for each area");
    assert((unsigned)a < TWIN_AREAS);
    return names[a];
}

/* ---- what is known of the run */

/* Reads run.json and provenance.json. TWIN_ENOENT: the run has no provenance. */
static int load_run(struct tw_pack *p, struct twin_error *err)
{
    json_error_t where;
    char *text = NULL, *path = tw_path_join(p->run->dir, "run.json");
    size_t n;
    int rc = path ? tw_read_file(path, TW_BAG_JSON_MAX, &text, &n, err)
                  : tw_no_memory(err, "for a package");
    tw_free(path);
    if (rc)
        return rc;
    /* a key twice would mean one thing to us and another to somebody else's reader */
    p->run_json = tw_json_load(text, n, JSON_REJECT_DUPLICATES, &where);
    tw_free(text);
    if (!json_is_object(p->run_json))
        return twin_error_set(err, TWIN_EFORMAT, "%s/run.json: %s", p->run->dir, where.text);
    return twin_provenance_load(p->run->dir, &p->provenance, err);
}

/* The program of a command that begins with no script, when it is neither the system's (that is of
 * the environment) nor one that only starts others. It stands for the code where there is no git. A
 * path that provenance owns; NULL: there is no such program. */
static const char *own_program(const json_t *provenance)
{
    static const char *const systems[] = {"/usr/bin/", "/usr/sbin/", "/usr/lib", "/bin/",
                                          "/sbin/",    "/lib",       NULL};
    static const char *const starters[] = {"python",    "pypy",   "torchrun", "accelerate",
                                           "deepspeed", "mpirun", "mpiexec",  "orterun",
                                           "prterun",   "srun",   NULL};
    const json_t *files = TW_PK_AT(provenance, "programs", "files");
    const char *path = tw_pk_real_path(json_array_get(files, 0));
    const char *name = path ? strrchr(path, '/') : NULL;
    if (!name || json_array_size(files) != 1 || path[0] != '/')
        return NULL;
    for (const char *const *s = systems; *s; s++)
        if (tw_starts(path, *s))
            return NULL;
    for (const char *const *s = starters; *s; s++)
        if (tw_starts(name + 1, *s))
            return NULL;
    return path;
}

/* Sets from, top and folder. top stands for the code: the checkout; outside git the job's folder,
 * or that of the script or program when it lies elsewhere. What cannot be found stays NULL, and the
 * areas say so. */
static void find_places(struct tw_pack *p)
{
    const char *from = tw_pk_text(p->run_json, "launched_from");
    const char *top = tw_pk_text(json_object_get(p->provenance, "code"), "top");
    const char *script = tw_pk_real_path(TW_PK_AT(p->provenance, "programs", "entry"));
    script = script ? script : own_program(p->provenance);
    p->from = tw_pk_real("/", from ? from : p->run->cwd);
    /* in git the code is the checkout, whatever the job ran */
    if (top)
        p->top = tw_pk_real("/", top);
    else
        p->top = p->from ? tw_strdup(p->from) : NULL;
    /* outside git: a script elsewhere brings its own folder */
    if (!top && p->top && script && script[0] == '/' && !tw_pk_below(script, p->top)) {
        char *dir = tw_strndup(script, (size_t)(strrchr(script, '/') - script));
        tw_free(p->top);
        p->top = dir;
    }
    /* in a checkout the job may have been started elsewhere: folder stays NULL then */
    const char *below = p->from && p->top ? tw_pk_below(p->from, p->top) : NULL;
    if (below)
        p->folder = tw_strdup(below);
    else
        p->folder = top ? NULL : tw_strdup("");
}

/* The file that the job made or changed, by its real path; NULL: the job did neither. */
static const struct twin_run_file *changed_file(const struct tw_pack *p, const char *real)
{
    const char *below = p->from ? tw_pk_below(real, p->from) : NULL;
    for (size_t i = 0; below && i < p->run->file_count; i++)
        if (strcmp(p->run->files[i].path, below) == 0)
            return &p->run->files[i];
    return NULL;
}

bool tw_pack_written(const struct tw_pack *p, const char *real)
{
    const struct twin_run_file *f = changed_file(p, real);
    return f && !f->existed_before;
}

bool tw_pack_overwritten(const struct tw_pack *p, const char *real)
{
    const struct twin_run_file *f = changed_file(p, real);
    return f && f->existed_before;
}

/* ---- order of events */

/* Tells whoever waits what is being done. */
static void say_step(const struct tw_pack *p, const char *what)
{
    if (p->o && p->o->progress)
        p->o->progress(p->o->user, what);
}

/* All areas, in an order in which the later ones can ask the earlier ones. 0, or trouble of ours;
 * what an area lacks is in its "missing". */
static int collect_areas(struct tw_pack *p, struct twin_error *err)
{
    static const struct {
        enum twin_area area;
        int (*pack)(struct tw_pack *p, struct twin_error *err);
    } order[] = {
        {TWIN_AREA_DATA, tw_pack_data}, /* first: the others ask what is data */
        {TWIN_AREA_CODE, tw_pack_code},
        {TWIN_AREA_ENVIRONMENT, tw_pack_environment},
        {TWIN_AREA_CONFIGURATION, tw_pack_configuration},
        {TWIN_AREA_SEEDS, tw_pack_seeds},
    };
    int rc = load_run(p, err);
    if (rc)
        return rc;
    find_places(p);
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        p->area[i] = json_pack("{s:s, s:[]}", "schema", TW_PACKAGE_SCHEMA, "missing");
        if (!p->area[i])
            return tw_no_memory(err, "for a package");
    }
    for (size_t i = 0; i < TWIN_AREAS && rc == 0; i++) {
        say_step(p, twin_area_name(order[i].area));
        rc = order[i].pack(p, err);
    }
    if (rc == 0 && p->failed)
        rc = tw_no_memory(err, "for a package");
    return rc;
}

/* Puts a JSON value as a file of the payload. */
static int put_json(struct tw_pack *p, const char *path, const json_t *value,
                    struct twin_error *err)
{
    size_t n;
    char *text = tw_pk_dump(value, &n);
    int rc = text ? tw_bag_put(&p->w, path, text, n, err) : tw_no_memory(err, "for a package");
    tw_free(text);
    return rc;
}

/* Writes data/AREA/AREA.json of each area. */
static int put_areas(struct tw_pack *p, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < TWIN_AREAS && rc == 0; i++) {
        const char *name = twin_area_name((enum twin_area)i);
        char *path = tw_printf("data/%s/%s.json", name, name);
        rc = path ? put_json(p, path, p->area[i], err) : tw_no_memory(err, "for a package");
        tw_free(path);
    }
    return rc;
}

/* How the run was recorded: a replay records the same, or there is nothing to compare. */
static json_t *recording_json(const struct tw_pack *p)
{
    static const char *const keys[] = {"level",    "window",  "max_steps", "sketch_every",
                                       "lossless", "factors", "outcome",   "exit_code"};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *v = json_object_get(p->run_json, keys[i]);
        if (v)
            json_object_set(o, keys[i], v);
    }
    return o;
}

/* package.json, then the RO-Crate metadata, which describe all files before them. */
static int put_whole(struct tw_pack *p, struct twin_error *err)
{
    json_t *package = json_pack("{s:s, s:s, s:I, s:o, s:O}", "schema", TW_PACKAGE_SCHEMA, "run",
                                p->run->id, "start_realtime_ns",
                                (json_int_t)p->run->start_realtime_ns, "record", recording_json(p),
                                "expected", p->expected);
    int rc = package ? put_json(p, "data/package.json", package, err)
                     : tw_no_memory(err, "for a package");
    json_decref(package);
    char *crate = rc ? NULL : tw_crate_metadata(p);
    if (rc == 0)
        rc = crate ? tw_bag_put(&p->w, "data/ro-crate-metadata.json", crate, strlen(crate), err)
                   : tw_no_memory(err, "for a package");
    tw_free(crate);
    return rc;
}

/* Signs the tag manifest with each key and writes the envelope. tag: its SHA-256. */
static int sign(struct tw_pack *p, const char *tag, struct twin_error *err)
{
    struct twin_subjects subjects = {0};
    struct twin_envelope e = {0};
    char *text = NULL, *path = tw_path_join(p->w.dir, TW_BAG_SIGNATURE);
    size_t n = 0;
    json_t *predicate = json_pack("{s:s}", "kind", "file");
    /* the statement that is signed: one subject, the tag manifest with its digest */
    int rc = predicate && path
                 ? twin_subjects_add(&subjects, TW_BAG_TAGMANIFEST, "sha256", tag, err)
                 : tw_no_memory(err, "for a package");
    rc = rc ? rc : twin_statement_envelope(&subjects, TWIN_PREDICATE_SIGNED, predicate, &e, err);
    size_t count = 0;
    while (p->o->keys[count])
        count++;
    rc = rc ? rc : tw_envelope_sign_all(&e, p->o->keys, count, false, err);
    rc = rc ? rc : twin_envelope_text(&e, &text, &n, err);
    rc = rc ? rc : tw_write_file_atomic(path, text, n, err);
    json_decref(predicate);
    twin_subjects_free(&subjects);
    twin_envelope_free(&e);
    tw_free(text);
    tw_free(path);
    return rc;
}

/* Writes the lists of the bag; nothing may be put behind that but the signature. */
static int finish_bag(struct tw_pack *p, const char *name, char tag[65], struct twin_error *err)
{
    char *info = tw_crate_info(p), *readme = tw_crate_readme(p, name);
    int rc = info && readme ? tw_bag_close(&p->w, info, readme, tag, err)
                            : tw_no_memory(err, "for a package");
    tw_free(info);
    tw_free(readme);
    if (rc == 0 && p->o->keys && *p->o->keys)
        rc = sign(p, tag, err);
    return rc;
}

/* Frees everything that is still p's, after success as after failure. */
static void end_pack(struct tw_pack *p)
{
    tw_bag_free(&p->w);
    for (size_t i = 0; i < p->data; i++) {
        if (p->datum[i].snapshot)
            twin_snapshot_free(p->datum[i].snapshot);
        tw_free(p->datum[i].snapshot);
        tw_free(p->datum[i].name);
        tw_free(p->datum[i].folder);
    }
    tw_free(p->datum);
    tw_free(p->image_beside);
    tw_free(p->from);
    tw_free(p->top);
    tw_free(p->folder);
    for (size_t i = 0; i < TWIN_AREAS; i++)
        json_decref(p->area[i]);
    json_decref(p->expected);
    json_decref(p->run_json);
    json_decref(p->provenance);
}

/* Hands the areas over to the caller. */
static void give_areas(struct tw_pack *p, struct twin_packed *out)
{
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        out->area[i] = p->area[i];
        p->area[i] = NULL;
    }
}

/* Makes OUT.part-PID beside OUT, which becomes OUT when all is in it. *final: the absolute path of
 * OUT, the caller's. TWIN_EIO: OUT is there already. */
static int begin_pack(struct tw_pack *p, const char *out, char **final, struct twin_error *err)
{
    struct stat st;
    *final = tw_path_absolute(out, err);
    /* "out/" and "out" are one folder */
    size_t n = *final ? strlen(*final) : 0;
    while (n > 1 && (*final)[n - 1] == '/')
        (*final)[--n] = '\0';
    if (!*final)
        return TWIN_ENOMEM;
    if (lstat(*final, &st) == 0)
        return twin_error_set(err, TWIN_EIO, "%s is there already: name another folder with -o",
                              *final);
    p->w.dir = tw_printf("%s.part-%d", *final, (int)getpid());
    if (!p->w.dir)
        return tw_no_memory(err, "for a package");
    return tw_mkdirs(p->w.dir, err);
}

/* Packs the times of all runs of a scaling study that this run is one of, when one was named. */
static int put_study(struct tw_pack *p, struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    int rc = p->o->study ? tw_read_file(p->o->study, STUDY_MAX, &text, &n, err) : 0;
    if (text && rc == 0)
        rc = tw_bag_put(&p->w, "data/study/study.json", text, n, err);
    tw_free(text);
    return rc;
}

/* Gives the package its name, and before it what lies beside it: a package that is there has all
 * that it speaks of. */
static int name_package(struct tw_pack *p, const char *final, struct twin_error *err)
{
    char *image = p->image_beside ? tw_printf("%s.image", final) : NULL;
    int rc = p->image_beside && !image ? tw_no_memory(err, "for a package") : 0;
    if (image && renameat2(AT_FDCWD, p->image_beside, AT_FDCWD, image, RENAME_NOREPLACE) != 0)
        rc = twin_error_system(err, "cannot rename %s to %s", p->image_beside, image);
    if (rc == 0 && rename(p->w.dir, final) != 0) {
        rc = twin_error_system(err, "cannot rename %s to %s", p->w.dir, final);
        if (image)
            rename(image, p->image_beside);
    }
    tw_free(image);
    return rc;
}

/* A package that failed half-way is removed. */
int twin_pack(const struct twin_run *run, const struct twin_pack_options *o,
              struct twin_packed *out, struct twin_error *err)
{
    struct tw_pack p = {.run = run, .o = o, .expected = json_object()};
    char *final = NULL;
    *out = (struct twin_packed){0};
    /* first the keys: one that does not open is better known before an hour of copying */
    for (const char *const *k = o->keys; k && *k; k++) {
        struct twin_key *key = NULL;
        int bad = twin_key_open(*k, &key, err);
        twin_key_close(key);
        if (bad) {
            json_decref(p.expected);
            return bad;
        }
    }
    int rc = p.expected ? begin_pack(&p, o->out, &final, err) : tw_no_memory(err, "for a package");
    /* only a folder that was made here is removed on failure */
    const bool made = rc == 0;
    rc = rc ? rc : collect_areas(&p, err);
    if (rc == 0)
        say_step(&p, "what was observed");
    rc = rc ? rc : tw_pack_expected(&p, err);
    rc = rc ? rc : put_areas(&p, err);
    rc = rc ? rc : put_study(&p, err);
    if (rc == 0)
        rc = p.failed ? tw_no_memory(err, "for a package") : put_whole(&p, err);
    rc = rc ? rc : finish_bag(&p, strrchr(final, '/') + 1, out->tagmanifest, err);
    /* from here on the package is there under its name */
    rc = rc ? rc : name_package(&p, final, err);
    if (rc && made)
        tw_remove_tree(p.w.dir, NULL, NULL);
    if (rc && p.image_beside)
        tw_remove_tree(p.image_beside, NULL, NULL);
    if (rc == 0) {
        out->path = tw_pk_real("/", final);
        rc = out->path ? 0 : tw_no_memory(err, "for a package");
        out->files = p.w.files;
        out->bytes = p.w.bytes;
        out->is_signed = o->keys && *o->keys;
        give_areas(&p, out);
    }
    tw_free(final);
    end_pack(&p);
    return rc;
}

/* No options and no folder for the writer: nothing is written. */
int twin_audit_run(const struct twin_run *run, struct twin_packed *out, struct twin_error *err)
{
    struct tw_pack p = {.run = run, .expected = json_object()};
    *out = (struct twin_packed){0};
    int rc = collect_areas(&p, err);
    if (rc == 0)
        give_areas(&p, out);
    end_pack(&p);
    return rc;
}

void twin_packed_free(struct twin_packed *p)
{
    tw_free(p->path);
    for (size_t i = 0; i < TWIN_AREAS; i++)
        json_decref(p->area[i]);
    *p = (struct twin_packed){0};
}
