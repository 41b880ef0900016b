/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_PACKAGE_H
#define TWIN_PACKAGE_H
/*
 * A run as a folder that a stranger can verify, audit and run again. Format: docs/format/package.md
 * (BagIt 1.0 outside, RO-Crate 1.1 inside). Room: src/package.
 *
 * A package is foreign bytes. Nothing in it is executed here, no link in it is followed, no path
 * that it names leaves its folder, and whatever it holds, reading it gives an answer or an error.
 *
 * Thread safety: an object belongs to one thread at a time. pack and unpack start other programs
 * (git, pip); verify and audit of a package do not.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct json_t; /* jansson's */
struct twin_run;
struct twin_trust;
struct twin_trust_verdict;
struct tw_manifest;

/* The five things that an auditor asks for. */
enum twin_area {
    TWIN_AREA_CODE,
    TWIN_AREA_DATA,
    TWIN_AREA_ENVIRONMENT,
    TWIN_AREA_CONFIGURATION,
    TWIN_AREA_SEEDS,
    TWIN_AREAS
};
const char *twin_area_name(enum twin_area a); /* code|data|environment|configuration|seeds */

/* ---- pack (pack.c) */

enum twin_pack_data {
    TWIN_PACK_DATA_AUTO, /* embedded up to 64 MiB, else omitted */
    TWIN_PACK_DATA_EMBED,
    TWIN_PACK_DATA_FETCH, /* by address: fetch.txt */
    TWIN_PACK_DATA_OMIT,
    TWIN_PACK_DATA_NONE /* whoever packs says that the job reads none */
};

struct twin_pack_options {
    const char *out; /* folder to make; must not be there */
    enum twin_pack_data data;
    const char *url; /* of TWIN_PACK_DATA_FETCH */
    /* files or folders to be packed with the code; NULL-terminated, may be NULL */
    const char *const *code;
    const char *const *keys; /* that sign; NULL-terminated, may be NULL */
    /* options that pip needs to find the packages again; NULL-terminated, may be NULL */
    const char *const *pip;
    /* What a person should know while it goes on: what is being done. May be NULL. */
    void (*progress)(void *user, const char *what);
    void *user;
    /*
     * the container image that the run was made in: "oci:DIR[:TAG]", a reference to a registry, or
     * anything that skopeo reads; NULL: none is named
     */
    const char *image;
    bool image_inside; /* its layout goes into the package */
    bool image_beside; /* ... or lies in OUT.image */
    /* a file of twinrun scale that goes in, too, as data/study/study.json; NULL: none. The caller
     * has read it */
    const char *study;
};

struct twin_packed {
    char *path;            /* absolute; NULL: nothing was written (twin_audit_run) */
    uint64_t files, bytes; /* of the payload */
    char tagmanifest[65];  /* SHA-256: the package's name, and what is signed */
    /* "holds": a sentence, "missing": list of texts, and what docs/format/package.md says */
    struct json_t *area[TWIN_AREAS];
    bool is_signed;
};

/*
 * Writes the package beside its final name and renames it. What could not be packed is in each
 * area's "missing"; only trouble is an error: TWIN_EIO (also: out is there already), TWIN_ENOENT
 * (the run has no provenance), TWIN_ENOMEM, those of keys.
 */
int twin_pack(const struct twin_run *run, const struct twin_pack_options *o,
              struct twin_packed *out, struct twin_error *err);
/* The same questions, and nothing is written: what would be missing? */
int twin_audit_run(const struct twin_run *run, struct twin_packed *out, struct twin_error *err);
void twin_packed_free(struct twin_packed *p);

/* ---- verify (verify.c) */

enum twin_bag_change {
    TWIN_BAG_CHANGED,
    TWIN_BAG_MISSING,
    TWIN_BAG_EXTRA,
    TWIN_BAG_FORBIDDEN,
    TWIN_BAG_MALFORMED
};
/* changed|missing|not listed|not allowed|malformed */
const char *twin_bag_change_name(enum twin_bag_change c);

struct twin_bag_finding {
    enum twin_bag_change change;
    char *path;
    char *why;
};

struct twin_bag_verdict {
    uint64_t files, bytes; /* that were read and are as recorded */
    char tagmanifest[65];  /* SHA-256 of tagmanifest-sha256.txt; "" when there is none */
    struct twin_bag_finding *finding;
    size_t findings;
    /* listed, not here */
    struct twin_bag_fetch {
        char *url, *path;
        uint64_t bytes;
        char sha256[65];
    } *fetch;
    size_t fetches;
    bool is_signed;                   /* there is an envelope */
    struct twin_trust_verdict *trust; /* NULL: nobody was named to be trusted, or no envelope */
    /* what each file was found to be; src/package reads files again only by its digests */
    struct tw_manifest *payload;
};

struct twin_bag_options {
    /* NULL: signatures are not judged, only held against the package */
    const struct twin_trust *trust;
    int64_t at_ns;
    void (*progress)(void *user, uint64_t bytes, uint64_t all); /* may be NULL */
    void *user;
    /*
     * An empty folder that nobody else can write to (twin_replay_place makes one); NULL: none. It
     * gets the very bytes that were verified, each read once, until the first finding. Whoever then
     * uses the package uses this copy: at the package's own place there may lie something else by
     * now.
     */
    const char *copy;
};

/* Is this folder a package? By its bagit.txt and data/package.json; says nothing about what they
 * hold. */
bool twin_package_is(const char *dir);
/* Reads every file. Findings are in *out, whatever the folder holds; errors are TWIN_ENOENT,
 * TWIN_EIO, TWIN_ENOMEM. */
int twin_package_verify(const char *dir, const struct twin_bag_options *o,
                        struct twin_bag_verdict *out, struct twin_error *err);
void twin_bag_verdict_free(struct twin_bag_verdict *v);

/* ---- audit (audit.c, audit_folder.c) */

/* Of a package: areas as in struct twin_packed, "missing" also of what was taken away since.
 * verdict: of the same folder. */
int twin_audit_package(const char *dir, const struct twin_bag_verdict *verdict,
                       struct twin_packed *out, struct twin_error *err);
/* Of any folder: what is there that would let somebody repeat what it holds. */
int twin_audit_folder(const char *dir, struct twin_packed *out, struct twin_error *err);

/* ---- unpack (unpack.c): for replay, of a package that was verified */

/* Which part of the work: a replay in a container lays out the files outside, where git is, and
 * finds command and packages inside. */
enum twin_unpack_part {
    TWIN_UNPACK_ALL,
    TWIN_UNPACK_FILES, /* code and data; argv, env and cwd stay NULL */
    TWIN_UNPACK_REST   /* into: as UNPACK_FILES left it; data: "NAME=DIR" of every set */
};

struct twin_unpack_options {
    enum twin_unpack_part part;
    const char *into; /* folder, made when missing, must be empty */
    /* folders that hold the data, "NAME=DIR" or, when the package has one, "DIR"; NULL-terminated,
     * may be NULL */
    const char *const *data;
    bool fetch; /* data that fetch.txt names may be downloaded */
    /* interpreter to use or to make the environment with; NULL: as recorded, found in PATH */
    const char *python;
    bool build;             /* make a fresh virtual environment from the lock list */
    const char *const *pip; /* options for pip; NULL-terminated, may be NULL */
    void (*progress)(void *user, const char *what);
    void *user;
};

struct twin_unpacked {
    char **argv; /* the command, NULL-terminated */
    char **env;  /* "NAME=value", NULL-terminated */
    /* variables of this shell that the recorded run did not have and that decide about numbers */
    char **unset;
    char *cwd;
    char *expected; /* the run folder in the package */
    char *python;   /* the interpreter that was looked at, or made; NULL: the job has none */
    struct twin_run_data *data;
    size_t data_count;     /* verified */
    char **data_given;     /* "NAME=DIR" of each set, as TWIN_UNPACK_REST takes them */
    struct json_t *record; /* how it was recorded: "level", "max_steps", ... */
    /* of the environment: list of texts; empty: as in the lock list */
    struct json_t *differences;
    /* after an error: what could not be had, "package", "code", "data" or "environment" */
    const char *missing;
};

/*
 * The folder that a replay of this package runs in (tw_free), as an absolute path whose links and
 * dots above the last part are resolved: `into`, or where that is NULL PACKAGE-replay beside the
 * package, with the first free number when that is there already. Never in the package, which would
 * not verify any more. NULL: no memory, TWIN_EIO when 999 replays lie there, TWIN_ENOENT for ".."
 * of what is not there.
 */
char *twin_replay_folder(const char *into, const char *package, struct twin_error *err);
/* The first of PACKAGE-replay, PACKAGE-replay-2, ... that is not there (tw_free); the package need
 * not be. NULL: as above. */
char *twin_replay_beside(const char *package, struct twin_error *err);
/* Would twin_replay_place make this folder? */
bool twin_replay_is_new(const char *folder);
/* Of a replay that did not start: takes away what was put into its folder, and the folder itself if
 * it was new. copy: of twin_replay_place. */
void twin_replay_clear(const char *folder, const char *copy, bool was_new);
/*
 * Makes the folder of a replay (mode 0700, new or empty) and in it one for the verified copy of the
 * package: *copy (tw_free). strict, for a package that must be signed: TWIN_EIO also when others
 * could put something else in its place (a folder above it that somebody else may write to and that
 * is not sticky).
 */
int twin_replay_place(const char *into, bool strict, char **copy, struct twin_error *err);
/*
 * Of the verified copy in twin_replay_place's folder. Code (cloned from the bundle, differences
 * applied, digests checked), data (verified), environment. TWIN_EFORMAT: the package says something
 * that cannot be; TWIN_EIO, TWIN_ENOENT (data that are not there, no such Python),
 * TWIN_EUNSUPPORTED (a program that is needed is missing), TWIN_ENOMEM.
 */
int twin_unpack(const char *dir, const struct twin_bag_verdict *verdict,
                const struct twin_unpack_options *o, struct twin_unpacked *out,
                struct twin_error *err); /* after an error *out holds `missing` alone */
void twin_unpacked_free(struct twin_unpacked *u);
#endif
