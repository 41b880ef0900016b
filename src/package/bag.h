/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PACKAGE_BAG_H
#define TW_PACKAGE_BAG_H
/*
 * BagIt 1.0 (RFC 8493) in one strict form: SHA-256 only, manifests sorted by path, one space form,
 * lower-case hex, no percent signs. Each byte of a manifest then has one meaning, and none can be
 * changed unseen.
 *
 * bag.c reads, bag_write.c writes. Both know files and lists only; what the files mean is for the
 * rest of the room. Functions that return int give 0 or a TWIN_E*.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <twin/error.h>

/* The whole text of bagit.txt, and the names of the two files that no manifest lists. */
#define TW_BAGIT_TXT "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
#define TW_BAG_TAGMANIFEST "tagmanifest-sha256.txt"
#define TW_BAG_SIGNATURE "signature.dsse.json"
/* Most lines of a manifest, and folders inside of each other: more is refused, so that no package
 * can use up memory or the stack. Below: most bytes of a manifest and of a JSON file. */
enum { TW_BAG_ENTRIES = 1 << 20, TW_BAG_DEPTH = 64 };
#define TW_BAG_MANIFEST_MAX ((size_t)512 << 20)
#define TW_BAG_JSON_MAX ((size_t)64 << 20)

/* A line of a manifest. seen and good are for whoever goes through the files. */
struct tw_manifest_entry {
    char *path;
    char sha256[65];
    /* an entry of this path was found in the folder */
    bool seen;
    bool good; /* it was read, and has this digest */
};
/* A manifest, sorted by path. Owned by whoever parsed it, freed by tw_manifest_free. */
struct tw_manifest {
    struct tw_manifest_entry *item;
    size_t count;
};
/* Reads a manifest of n bytes; name: of the file, for messages. TWIN_EFORMAT with line and what was
 * expected. */
int tw_manifest_parse(const char *text, size_t n, const char *name, struct tw_manifest *out,
                      struct twin_error *err);
/* NULL: no line has this path. */
struct tw_manifest_entry *tw_manifest_find(const struct tw_manifest *m, const char *path);
void tw_manifest_free(struct tw_manifest *m);

/* A line of fetch.txt: a file of the payload that is not in the package, and where it is. */
struct tw_fetch_entry {
    char *url, *path;
    uint64_t bytes;
};
/* The lines of fetch.txt, sorted by path; freed by tw_fetch_free. */
struct tw_fetch {
    struct tw_fetch_entry *item;
    size_t count;
};
int tw_fetch_parse(const char *text, size_t n, const char *name, struct tw_fetch *out,
                   struct twin_error *err);
void tw_fetch_free(struct tw_fetch *f);

/* Reads "Payload-Oxum: BYTES.FILES" of bag-info.txt: bytes and number of files of the payload. */
int tw_bag_info_parse(const char *text, size_t n, const char *name, uint64_t *bytes,
                      uint64_t *files, struct twin_error *err);

/* Where a copy of what is hashed goes; failed: it could not be written (errno says why). */
struct tw_bag_copy {
    int to;
    bool failed;
};
/*
 * SHA-256 of what is left of fd; at most `cap` bytes (TWIN_ELIMIT). copy (NULL: none) gets the very
 * bytes that were hashed, so that nobody needs to read the file again.
 */
int tw_bag_sha256(int fd, uint64_t cap, struct tw_bag_copy *copy, char hex[65], uint64_t *bytes,
                  struct twin_error *err);
/* SHA-256 of bytes in memory, as lower-case hex. */
int tw_bag_hash(const void *data, size_t n, char hex[65], struct twin_error *err);
/* Reads a whole file below root, without following a link. *text is malloc'ed and ends in NUL; *n:
 * its bytes. TWIN_EFORMAT: no regular file; TWIN_ELIMIT: larger than cap. */
int tw_bag_read(int root, const char *path, size_t cap, char **text, size_t *n,
                struct twin_error *err);
struct twin_bag_verdict;
/* Reads a file of a package again. Its bytes must be those that were verified: TWIN_ENOENT when
 * none were, TWIN_EFORMAT when they are not as the manifest says, or have changed since. */
int tw_bag_read_verified(int root, const struct twin_bag_verdict *verdict, const char *path,
                         size_t cap, char **text, size_t *n, struct twin_error *err);

/* ---- writing */
/* A package that is being written: its folder, and what is in it so far. Zeroed at first but for
 * dir. */
struct tw_bag_writer {
    char *dir; /* NULL: nothing is written, only asked */
    struct tw_bag_item {
        char *path;
        char sha256[65];
        uint64_t bytes;
        char *url; /* NULL: it is here */
    } *item;
    size_t count, room;
    uint64_t files, bytes; /* of the payload */
};
/* Each of these adds one file of the payload to the list. With dir NULL, put and list do nothing,
 * and copy only reads the file. */
int tw_bag_put(struct tw_bag_writer *w, const char *path, const void *data, size_t n,
               struct twin_error *err);
/* A file that another program made at its place below dir. */
int tw_bag_adopt(struct tw_bag_writer *w, const char *path, struct twin_error *err);
/* A copy of a file. sha256 (NULL: any) is what it must have: TWIN_EFORMAT when it has not, and
 * nothing is left behind. */
int tw_bag_copy(struct tw_bag_writer *w, const char *path, const char *from, const char *sha256,
                char out[65], struct twin_error *err);
/* A file that is not in the package: only its line, and the address where it can be had. */
int tw_bag_list(struct tw_bag_writer *w, const char *path, const char *sha256, uint64_t bytes,
                const char *url, struct twin_error *err);
/* Where a path of the package is; malloc'ed, its folder made. */
char *tw_bag_place(const struct tw_bag_writer *w, const char *path, struct twin_error *err);
/* Writes the manifests and tag files. info, readme: texts of bag-info.txt and README.md. tag:
 * SHA-256 of the tag manifest, which is the package's name. Nothing is put after that. */
int tw_bag_close(struct tw_bag_writer *w, const char *info, const char *readme, char tag[65],
                 struct twin_error *err);
void tw_bag_free(struct tw_bag_writer *w);
#endif
