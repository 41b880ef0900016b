/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_CONTENT_H
#define TWIN_CONTENT_H
/*
 * Digests of the tensors in a file: equal for equal tensors, whatever the file is called, when it
 * was written, in which order, and whether it is .npy, .npz, safetensors or a PyTorch checkpoint.
 * docs/digest.md. Reading is src/formats/tensors.h's.
 *
 * A tensor's digest is SHA-256 over: "twinrun.tensor/2" and a NUL; length of the name (u64) and the
 * name; length of the type's name and that ("f32"); the number of dimensions and each (u64); the
 * SHA-256 of each MiB of its elements, row-major, the last one shorter. Integers and elements are
 * little-endian. The content's digest is SHA-256 over "twinrun.content/2", a NUL and the 32-byte
 * digests of all tensors in the order of their names as bytes.
 *
 * What is no tensor has a digest of its own: SHA-256 over "twinrun.values/1", a NUL, and for each
 * value by name: length and name; one byte and what it takes: 'n' (none); 't', 'i' and an i64; 'f'
 * and an f64; 's' (text), 'b' (bytes), 'c' (a class), 'o' (an object of this class), 'e' ("[]",
 * "{}") and length and text.
 */
#include "src/formats/tensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* Elements are digested in stretches of so many bytes; part of the format. */
#define TWIN_CONTENT_PIECE ((size_t)1 << 20)

/* One tensor with its digest. entry is borrowed from the file. */
struct twin_content_tensor {
    const struct twin_tensors_entry *entry;
    size_t index; /* of it in the file's order */
    unsigned char digest[32];
    char sha256[65]; /* that in hex */
};

/* What a file or a folder holds: its tensors and values in the order of their names, with digests
 * in hex. The file stays open as long as this lives. */
struct twin_content {
    struct twin_tensors *tensors;
    size_t count;
    struct twin_content_tensor *tensor; /* by name */
    uint64_t file_bytes;
    char file[65], content[65]; /* SHA-256 of the file's bytes; of its tensors */
    char values[65];            /* of what is no tensor */
    size_t value_count;
    const struct twin_tensors_value **value; /* by name */
};

/* Errors: those of twin_tensors_open and _read; TWIN_EUNSUPPORTED names a tensor that cannot be
 * read. Needs twin_content_free after success. */
int twin_content_read(const char *path, struct twin_content *out, struct twin_error *err);
/* The same without the digest of a file's bytes, which is serial, while tensors are digested by all
 * processors.
 * `file` is "", but for folders whose files are not those of torch.distributed.checkpoint: a
 * snapshot names their files, and its root comes with that. */
int twin_content_read_tensors(const char *path, struct twin_content *out, struct twin_error *err);
/* The same with it for files (and folders of torch.distributed.checkpoint) of up to
 * TWIN_CONTENT_SMALL bytes, where nobody notices the time. */
#define TWIN_CONTENT_SMALL ((uint64_t)64 << 20)
int twin_content_read_quickly(const char *path, struct twin_content *out, struct twin_error *err);
void twin_content_free(struct twin_content *c);

/* One tensor that is not the same in both. */
struct twin_content_difference {
    const char *name;
    const struct twin_tensors_entry *a, *b; /* NULL: not there */
    /* same type and shape, other values: then the following are known */
    bool values;
    uint64_t changed;       /* elements whose bits differ */
    double max_ulp, rel_l2; /* NaN: not for such a type */
    double l2;              /* of the difference itself */
};
/* Calls visit for each, by name, until it returns other than 0. Returns the number of visits, or an
 * error (negative, in err). */
long twin_content_compare(const struct twin_content *a, const struct twin_content *b,
                          int (*visit)(void *user, const struct twin_content_difference *d),
                          void *user, struct twin_error *err);
/* The same for what is no tensor; a or b is NULL where it is not there. */
long twin_content_compare_values(const struct twin_content *a, const struct twin_content *b,
                                 int (*visit)(void *user, const struct twin_tensors_value *a,
                                              const struct twin_tensors_value *b),
                                 void *user);
#endif
