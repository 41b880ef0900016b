/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_IMAGE_H
#define TW_IMAGE_H
/*
 * Container images: a folder in the form of an OCI image layout, read and verified; its layers as a
 * root that a program can be started in; the command lines of container engines.
 *
 *     layout.c   index, manifest, configuration; each blob by its digest; copies of a layout
 *     archive.c  libarchive, loaded when it is needed: the entries of one layer
 *     root.c     one layer after the other becomes a folder; nothing of it leads out of that folder
 *     engine.c   what is typed for docker, podman, apptainer, bubblewrap and chroot
 *     contain.c  starts such a command, and leaves nothing of it running
 *     bits.c     what the job left behind, without bits for setuid
 *     reach.c    what the job in a container can read, where root starts it
 *     carry.c    twinrun's own program, libraries and agents, as a folder for another root
 *     skopeo.c   images that lie elsewhere: a registry, an archive of docker
 *
 * An image is foreign bytes. It is known by its digests alone: a tag is a name that somebody may
 * move. Thread safety: an object belongs to one thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <twin/error.h>

#include <jansson.h>

/* "sha256:" and 64 digits, with the NUL. */
enum { TW_DIGEST_ROOM = 72 };
/* Is it one? NULL is none. */
bool tw_image_is_digest(const char *text);

/* ---- layout.c */

/* A file of the image, as the manifest (or the index) names it. */
struct tw_blob {
    char digest[TW_DIGEST_ROOM];
    uint64_t bytes;
};

/* One image of a layout, for this machine's kind of processor. Zeroed before, tw_image_close in any
 * case. All pointers are owned. */
struct tw_image {
    int root;     /* the layout's folder, open */
    char *folder; /* its path, for messages and for engines */
    char *tag;    /* by which it was found; NULL: none */
    /* what the layout's index.json names: an image index for several platforms, or the manifest */
    char named[TW_DIGEST_ROOM];
    char manifest[TW_DIGEST_ROOM];
    /* of the configuration, which names each layer's contents: the image's id, the same however its
     * layers were compressed and its manifest written */
    char config[TW_DIGEST_ROOM];
    char platform[64]; /* "linux/amd64" */
    bool docker_form;  /* its manifest is of docker's types (schema 2), as registries have it */
    /* all that the image consists of: manifests, configuration, then the layers from the lowest */
    struct tw_blob *blob;
    size_t blobs, first_layer;
    uint64_t bytes;  /* of all blobs */
    json_t *diff_id; /* digests of the layers' contents: texts, as many as there are layers */
    json_t *env;     /* "NAME=value": texts */
};

/*
 * Opens the layout and reads what names the layers; the digest of each JSON file is held against
 * the one that names it. tag: of index.json; NULL: the only one. wanted: a digest that the image
 * must have, in any of its three forms; NULL: any.
 * TWIN_ENOENT: no layout, no such tag or digest, a blob that is missing; TWIN_EFORMAT: a blob that
 * is not what it is named, a manifest that cannot be; TWIN_EUNSUPPORTED: an image for another
 * processor or with other digests than SHA-256; TWIN_EIO; TWIN_ENOMEM.
 */
int tw_image_open(const char *folder, const char *tag, const char *wanted, struct tw_image *out,
                  struct twin_error *err);
void tw_image_close(struct tw_image *image);
/* Has the image this digest, as id, manifest or index? */
bool tw_image_has_digest(const struct tw_image *image, const char *digest);
/* Reads each blob: is it as long as it should be, and its digest right? Errors as above. */
int tw_image_verify(const struct tw_image *image, struct twin_error *err);
/*
 * Copies the image into an empty folder as a layout of its own, each blob verified while it is
 * copied, and none of them changed: an image of docker's types keeps its digests, and index.json
 * says of which type its manifest is. What was written before an error stays.
 */
int tw_image_copy(const struct tw_image *image, const char *to, struct twin_error *err);
/* A blob, open at its beginning; *fd is the caller's, -1 on an error. */
int tw_image_blob(const struct tw_image *image, const struct tw_blob *blob, int *fd,
                  struct twin_error *err);
/*
 * What a manifest or an index names for this machine's processor. text: as a registry gave it.
 * config stays "" where text is an index: its manifests say what they are made of.
 */
int tw_image_manifest_of(const char *text, size_t n, char manifest[TW_DIGEST_ROOM],
                         char config[TW_DIGEST_ROOM], struct twin_error *err);
/* Is this manifest in docker's own form (schema 2)? Written anew in OCI's form, as skopeo does for
 * a layout, it has another digest, and so has its configuration. */
bool tw_image_is_docker_form(const char *text, size_t n);

/* ---- root.c */

/* What was left out of a root, and why that is right: no root here has these. */
struct tw_root_counts {
    uint64_t entries, bytes;
    uint64_t setuid;  /* bits for other rights than the caller's, dropped */
    uint64_t devices; /* nodes below dev/, which engines make themselves */
    uint64_t pipes;   /* named pipes and sockets */
};
/* Most bytes of a root: more is refused before anything is written. */
#define TW_ROOT_BYTES_MAX ((uint64_t)256 << 30)
/*
 * Makes the image's root in an empty folder of the caller's, in which everything then belongs to
 * this user. Each layer's contents are held against the digest in the configuration before anything
 * of it is written. TWIN_EFORMAT: a layer that is not what it is named, or with an entry that no
 * layer should have (a path that leads out, a device, a hard link to nowhere); TWIN_ELIMIT: a layer
 * that becomes far larger than it is, or a root too large; TWIN_EIO: also no room for it, which is
 * found before; TWIN_EUNSUPPORTED: no libarchive.so.13 here, or a kernel without openat2 (before
 * 5.6).
 */
int tw_image_root(const struct tw_image *image, const char *to, struct tw_root_counts *counts,
                  struct twin_error *err);
/* Makes the folder `path`, absolute, below a root, for something to be mounted there. TWIN_EFORMAT:
 * a part of it is a link in the image, or a file. */
int tw_root_mount_point(const char *root, const char *path, struct twin_error *err);

/* ---- skopeo.c */

/* Does the reference lead to a layout or archive here, not to a registry? */
bool tw_image_is_local(const char *reference);
/*
 * What a reference to a registry (with or without docker://) names now. *text (tw_free): its
 * manifest or index; digest: of these bytes. TWIN_EUNSUPPORTED: no skopeo; TWIN_EIO: it could not.
 */
int tw_image_ask(const char *reference, char **text, size_t *n, char digest[TW_DIGEST_ROOM],
                 struct twin_error *err);
/* Copies what a reference names into a new layout. Errors as above. */
int tw_image_fetch(const char *reference, const char *layout, struct twin_error *err);

/* ---- engine.c */

enum tw_container {
    TW_CONTAINER_DOCKER,
    TW_CONTAINER_PODMAN,
    TW_CONTAINER_APPTAINER,
    TW_CONTAINER_BWRAP,
    TW_CONTAINER_CHROOT,
    TW_CONTAINERS
};
const char *tw_container_word(enum tw_container e); /* docker|podman|apptainer|bwrap|chroot */
bool tw_container_of_word(const char *word, enum tw_container *out);
/* Does it start from a root that is laid out (else it takes a layout, or an image that it has)? */
bool tw_container_wants_root(enum tw_container e);
/* Can a container be started with it here? It is asked: its program, and for docker its daemon. On
 * false *why (tw_free) is a sentence. */
bool tw_container_answers(enum tw_container e, char **why);
/* The first that answers, in the order above; TWIN_EUNSUPPORTED names what each lacks. */
int tw_container_find(enum tw_container *out, struct twin_error *err);

/* What is to be started. Paths are absolute, and mean the same inside. Nothing is owned. */
struct tw_contained {
    enum tw_container engine;
    const char *name;   /* of the container, which nothing else has: it is removed by its name */
    const char *layout; /* NULL: the engine has the image, or is to fetch it */
    const char *root;   /* for those that want one */
    /* REPOSITORY@sha256:..., where there is no layout */
    const char *reference;
    const char *config;           /* the image's id, where there is a layout */
    const char *folder;           /* mounted with the right to write; the working folder, too */
    const char *const *read_only; /* mounted without; some lie in `folder`. NULL-terminated */
    bool network, gpus, pull;
    uid_t uid;
    gid_t gid;
    const char *const *argv; /* NULL-terminated */
};

/* Variables that name proxies, NULL-terminated: docker is told empty ones, since it would hand on
 * those of its own configuration. */
extern const char *const tw_proxy_variables[];

/* Command lines, each NULL-terminated. before: NULL where nothing is to be done; end: what takes
 * the container away, whether it goes on or not; NULL: it ends with its command. */
struct tw_command_lines {
    char **before, **run, **end;
    /* names of the variables that `run` gets, NULL-terminated, TW_CONTAINER_KEEPS at most; NULL:
     * all, which nothing inside can read. Not owned. */
    const char *const *keep;
    unsigned end_s; /* seconds that `end` may take */
    /* `run` gets the end of a pipe as TW_CONTAINER_TIE, which hangs up when this process ends */
    bool tied;
    bool deaf; /* `run` does nothing at SIGTERM: it is killed, and the container with it */
};
enum { TW_CONTAINER_KEEPS = 8, TW_CONTAINER_TIE = 3 };
/* TWIN_EUNSUPPORTED: what this engine cannot do (hand on GPUs, a path with a comma); TWIN_ENOMEM */
int tw_container_lines(const struct tw_contained *c, struct tw_command_lines *out,
                       struct twin_error *err);
void tw_command_lines_free(struct tw_command_lines *l);

/* ---- contain.c */
struct tw_contained_end {
    int status;       /* exit code of `run`, 128 + signal */
    bool interrupted; /* by a signal that asks this process to end (INT, TERM, HUP) */
    bool stays;       /* `end` took too long and was ended: the container may still be there */
};
/*
 * Runs the lines. What `before` prints goes to stderr; `run` has this process's input and outputs,
 * or with quiet_output stderr for both. A signal that asks this process to end is handed on, and
 * leaves `end` 10 s more; however this process ends, nothing goes on that `end` can take away.
 * TWIN_ENOENT: no such program; TWIN_EIO: `before` failed.
 */
int tw_contain(const struct tw_command_lines *l, bool quiet_output, struct tw_contained_end *out,
               struct twin_error *err);

/* ---- bits.c */
/* Takes the bits for setuid and setgid from all regular files below the folder, when nothing of the
 * container goes on any more. *count: files that had one. TWIN_EIO and others: one could not be
 * looked at, the first of them; all others were. */
int tw_container_take_bits(const char *folder, uint64_t *count, struct twin_error *err);

/* ---- reach.c */
/*
 * Can the job read all of this folder of the caller's, which is mounted for it? Asked for root
 * alone: there the job has none of root's rights, the caller has. This thread lays its rights down
 * meanwhile. TWIN_EUNSUPPORTED names what is closed to it; TWIN_EIO.
 */
int tw_container_reads(const char *folder, struct twin_error *err);

/* ---- carry.c */
/* The folder below `to` that is TWINRUN_LIBDIR there. */
#define TW_CARRIED_PARTS "parts"
/*
 * Copies what twinrun runs with into the new folder `to`. argv gets the words that start it from
 * there in any root of this kind of processor, 6 at most, then NULL; the texts are the caller's.
 */
enum { TW_CARRIED_WORDS = 6 };
int tw_carry(const char *to, char *argv[TW_CARRIED_WORDS + 1], struct twin_error *err);
void tw_carried_free(char *argv[TW_CARRIED_WORDS + 1]);
/* These words alone; nothing is copied. */
int tw_carry_words(const char *to, char *argv[TW_CARRIED_WORDS + 1], struct twin_error *err);
#endif
