/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PACKAGE_PACK_H
#define TW_PACKAGE_PACK_H
/*
 * Inside of the package room: what its files share. Commands use src/package/package.h.
 *
 * pack.c              order of events, ends          bag.c, bag_write.c  BagIt
 * pack_code.c         git bundle, differences        verify.c            is it what it was?
 * pack_files.c        code outside git               audit.c             areas of a package
 * pack_data.c         snapshots                      audit_folder.c      of any folder
 * pack_environment.c  lock lists                     unpack*.c           for replay
 * pack_command.c      configuration and seeds        crate.c             RO-Crate, README, bag-info
 * pack_expected.c     what was observed              git.c               git, but no more than git
 * pack_image.c        the container image            outside.c           what no image fixes
 *
 * Each area is an object with "holds" (a sentence), "missing" (texts) and its own fields; it is
 * written as data/AREA/AREA.json (docs/format/package.md). Auditing a run is packing it with a
 * writer that writes nothing. A JSON value that could not be built for lack of memory sets
 * `failed`, which is looked at once, at the end.
 */
#include "bag.h"

#include "src/image/image.h"
#include "src/launch/run.h"
#include "src/package/package.h"

#include <jansson.h>

/* "schema" of each JSON file of a package; replay refuses others. */
#define TW_PACKAGE_SCHEMA "twinrun.package/1"
/* The layout of the image, below data/. */
#define TW_PACKAGE_IMAGE "environment/image"
/* Data up to this size are embedded when nobody said how; untracked files of code up to that
 * one. */
#define TW_SMALL_DATA ((uint64_t)64 << 20)
#define TW_SMALL_FILE ((uint64_t)16 << 20)

/* One set of data that was verified before the run. */
struct tw_pack_datum {
    /* name: its place below data/data; folder: real path, NULL when it is not there any more.
     * snapshot: what it held, owned. */
    char *name, *folder;
    struct twin_snapshot *snapshot;
};

/* A package that is being made, or a run that is audited. All pointers but run and o are owned;
 * end() in pack.c frees them. */
struct tw_pack {
    const struct twin_run *run;
    /* NULL: the run is only audited, and w.dir is NULL */
    const struct twin_pack_options *o;
    struct tw_bag_writer w;
    /* run.json and provenance.json of the run folder */
    json_t *run_json, *provenance;
    json_t *area[TWIN_AREAS];
    char *from; /* real path of the folder in which the job was started */
    /* real path of the checkout, or of the folder that stands for it */
    char *top;
    char *folder; /* `from` below top; "" for top itself, NULL: not below it */
    struct tw_pack_datum *datum;
    size_t data;
    /* "left_out": files of the run folder that are not packed, and why */
    json_t *expected;
    char *image_beside; /* a layout that waits for its name; NULL: none */
    /* there was no memory for a JSON value */
    bool failed;
};

/* ---- values (values.c). `failed` is set when there was no memory, and never cleared. A function
 * that takes a value frees it in any case. */
void tw_pk_put(bool *failed, json_t *object, const char *key, json_t *value); /* takes value */
void tw_pk_add(bool *failed, json_t *list, json_t *value);
/* what that interpreter says it is; malloc'ed, NULL: it says nothing */
char *tw_pk_python_version(const char *python);
const char *tw_pk_text(const json_t *object, const char *key); /* NULL: none, or no text */
/* the real path of a program or script of provenance.json, which has one only where it differs */
const char *tw_pk_real_path(const json_t *file);
/* goes down through objects by their keys; NULL: one of them is not there. Borrowed */
json_t *tw_pk_at(const json_t *object, const char *const *keys);
/* The same with the keys as arguments: TW_PK_AT(o, "a", "b") is o.a.b. */
#define TW_PK_AT(object, ...) tw_pk_at(object, (const char *const[]){__VA_ARGS__, NULL})
/* a variable in which agents are told what to hold still */
bool tw_pk_is_of_pins(const char *name);
json_t *tw_pk_printable(const char *s);
/* indented, sorted, newline at the end; malloc'ed */
char *tw_pk_dump(const json_t *value, size_t *n);
/* what tw_pk_dump wrote, or a stranger did; TWIN_EFORMAT when it is no JSON object */
int tw_pk_parse(const char *text, size_t n, const char *path, json_t **out, struct twin_error *err);
/* the JSON object in a file of the package */
int tw_pk_load(int root, const char *path, json_t **out, struct twin_error *err);
/* As printf, text arguments made printable: adds a text to "missing" of an area, or sets its
 * "holds". */
void tw_pk_missing(bool *failed, json_t *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tw_pk_holds(bool *failed, json_t *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* path below base ("" for itself), or NULL. Both real paths. Points into path. */
const char *tw_pk_below(const char *path, const char *base);
char *tw_pk_real(const char *dir, const char *path); /* realpath of dir/path; NULL: not there */

/* ---- images */
/* The digest of the image that a record of a run names. False: it names none. */
bool tw_pack_recorded_image(const json_t *provenance, char out[TW_DIGEST_ROOM]);
/* Opens "oci:DIR[:TAG]", as tw_image_open. */
int tw_image_open_reference(const char *reference, const char *wanted, struct tw_image *image,
                            struct twin_error *err);

/* ---- areas */
/* Each fills its area, and writes its files when there is a writer. What cannot be packed is said
 * in "missing" and is no error: these return 0, or a TWIN_E* for trouble of ours. */
int tw_pack_code(struct tw_pack *p, struct twin_error *err);
/* the files of the code that no repository has: programs, what --code names; outside git all */
int tw_pack_files(struct tw_pack *p, json_t *area, struct twin_error *err);
int tw_pack_data(struct tw_pack *p, struct twin_error *err);
int tw_pack_environment(struct tw_pack *p, struct twin_error *err);
/* into the environment: which image, and where that is to be, its layout */
int tw_pack_image(struct tw_pack *p, json_t *area, struct twin_error *err);
int tw_pack_configuration(struct tw_pack *p, struct twin_error *err);
int tw_pack_seeds(struct tw_pack *p, struct twin_error *err);
int tw_pack_expected(struct tw_pack *p, struct twin_error *err);
/* A file with the code: at data/code/files/PATH. What is wrong with it goes to "missing". */
int tw_pack_file(struct tw_pack *p, json_t *area, const char *path, const char *sha256,
                 const char *role, struct twin_error *err);
/* Does the area's list have a file of this path already? */
bool tw_pack_has_file(const json_t *area, const char *path);
/*
 * Does the commit with its differences hold it, a folder with all that is in it? path: below top.
 */
bool tw_pack_is_tracked(const struct tw_pack *p, const char *path, bool folder);
/* Was the file made by the job? */
bool tw_pack_written(const struct tw_pack *p, const char *real);
/* Was it there before, and the job wrote to it? */
bool tw_pack_overwritten(const struct tw_pack *p, const char *real);
/* A file that the command names, which is there now: was it made by the job? Then it is none that
 * the job was given. */
bool tw_pack_is_result(const struct tw_pack *p, const char *path);
/* The set of data that a file or folder (real path) belongs to; NULL: none. */
const struct tw_pack_datum *tw_pack_datum_of(const struct tw_pack *p, const char *real);
/* Does this file seem to hold a secret? By its name, or by what is in it. */
bool tw_pack_is_secret(const char *path);
/* A word of the command as the package writes it: a text, or a list of parts. */
json_t *tw_pack_word(struct tw_pack *p, const char *word);

/* ---- crate.c */
/* ro-crate-metadata.json, README.md and bag-info.txt as texts, from what the writer has by then.
 * malloc'ed; NULL: no memory. */
char *tw_crate_metadata(const struct tw_pack *p);
char *tw_crate_readme(const struct tw_pack *p, const char *name);
char *tw_crate_info(const struct tw_pack *p);

/* ---- git.c: no hooks, no filters, no configuration but what stands here, no network */
struct tw_ask;
/* Runs git with these words in dir, as tw_ask: true when it ended with 0. a->out is the caller's to
 * free, also on failure. */
bool tw_git(struct tw_ask *a, const char *dir, double limit_s, const char *const *words);
/* The same with the words as arguments. */
#define TW_GIT(a, dir, limit, ...) tw_git(a, dir, limit, (const char *const[]){__VA_ARGS__, NULL})
#endif
