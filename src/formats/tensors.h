/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_TENSORS_H
#define TWIN_TENSORS_H
/*
 * Numbers from other people's files: NumPy's .npy and .npz, safetensors, PyTorch checkpoints (the
 * zip format, and the one before it; folders of torch.distributed.checkpoint), HDF5, Keras's
 * archives and checkpoints of TensorFlow (NAME.index, beside NAME.data-*). Room:
 * src/formats. docs/internals/formats.md says what is checked.
 *
 *     struct twin_tensors *f;
 *     if (twin_tensors_open("grads.pt", &f, &err) == 0)
 *         for (size_t i = 0; i < twin_tensors_count(f); i++)
 *             twin_tensors_read(f, i, 0, twin_tensors_at(f, i)->count, values, &err);
 *
 * A file is foreign bytes: nothing in it is executed, nothing is unpacked to the disk, every length
 * is checked before it is used. Whatever the bytes are, the answer is tensors or an error. A file
 * that changes while it is open gives an error or other numbers, never a crash (nothing is mapped).
 * A handle belongs to one thread at a time (but see twin_tensors_by_several). Since 0.1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum twin_tensors_kind {
    TWIN_TENSORS_NPY,
    TWIN_TENSORS_NPZ,
    TWIN_TENSORS_SAFETENSORS,
    TWIN_TENSORS_TORCH,
    TWIN_TENSORS_TORCH_LEGACY,
    TWIN_TENSORS_TORCH_DISTRIBUTED,
    TWIN_TENSORS_FOLDER,
    TWIN_TENSORS_HDF5,
    TWIN_TENSORS_KERAS,
    TWIN_TENSORS_TENSORFLOW
};

struct twin_tensors; /* an open file */

/* One tensor. Everything belongs to the file. */
struct twin_tensors_entry {
    const char *name; /* unique. Path in nested containers: a key after '/', "[3]" in a list, "(0)"
                         an argument of an object; a key that could be taken for something else
                         stands in quotes. .npy: "array" */
    enum twin_dtype dtype;  /* TWIN_BYTES when `unreadable` says that there is no such type here */
    const char *stored_as;  /* the type in the file's words: "<f4", "BF16", "torch.HalfStorage" */
    const char *unreadable; /* NULL: twin_tensors_read gives the values. Else why not */
    uint32_t ndim;
    const int64_t *shape; /* [ndim] */
    uint64_t count;       /* elements */
    uint64_t bytes;       /* of all elements, as twin_tensors_read gives them */
    /* the first entry that shows the same elements of the same memory; its own index when there is
     * none */
    size_t alias_of;
};

/* What is no tensor: a step count, a name, the settings of an optimizer. Everything belongs to the
 * file. */
enum twin_value_kind {
    TWIN_VALUE_NONE,
    TWIN_VALUE_TRUTH,
    TWIN_VALUE_INT,
    TWIN_VALUE_FLOAT,
    TWIN_VALUE_TEXT,
    TWIN_VALUE_BYTES,
    TWIN_VALUE_CLASS, /* text: the name of a class or function, as a value */
    /* text: the class of an object that is not known here; what it was made from follows by names
       of its own */
    TWIN_VALUE_OPAQUE,
    TWIN_VALUE_EMPTY /* text: "[]" or "{}" */
};
struct twin_tensors_value {
    const char *name; /* as of tensors */
    enum twin_value_kind kind;
    int64_t number;   /* TRUTH, INT */
    double real;      /* FLOAT */
    const char *text; /* TEXT, BYTES: text_bytes of them and a NUL; CLASS, OPAQUE, EMPTY */
    size_t text_bytes;
};

/* Reads the list of tensors (not their values). TWIN_ENOENT, TWIN_EIO, TWIN_ENOMEM, TWIN_EFORMAT
 * (damaged), TWIN_EUNSUPPORTED (none of these formats), TWIN_ELIMIT (more than 2^20 tensors, lists
 * of more than 256 MiB, containers in containers beyond 100). */
int twin_tensors_open(const char *path, struct twin_tensors **out, struct twin_error *err);
/* The same, and the other values of PyTorch checkpoints and safetensors' metadata:
 * twin_tensors_value_at. */
int twin_tensors_open_all(const char *path, struct twin_tensors **out, struct twin_error *err);
int twin_tensors_open_all_bytes(const void *data, size_t bytes, const char *name,
                                struct twin_tensors **out, struct twin_error *err);
/* The same for bytes in memory, which must outlive the handle. name: for messages. */
int twin_tensors_open_bytes(const void *data, size_t bytes, const char *name,
                            struct twin_tensors **out, struct twin_error *err);

/* One of the files below a folder, and the text that stands for it among the values when it is none
 * of tensors. */
struct twin_tensors_file {
    const char *path, *otherwise;
};
/* Tensors and values of these files as one list. Names begin with the file's path and '/'; tensors
 * of a model that a file *.index.json below the folder says was cut into these (Hugging Face) have
 * the names that they have in one file. A file is opened again when its tensors are read. Errors:
 * as above, of the first file; TWIN_EFORMAT also when two parts hold a tensor of one name. */
int twin_tensors_open_folder(const char *dir, const struct twin_tensors_file *file, size_t count,
                             struct twin_tensors **out, struct twin_error *err);
void twin_tensors_close(struct twin_tensors *f); /* NULL is allowed */

enum twin_tensors_kind twin_tensors_kind(const struct twin_tensors *f);
const char *twin_tensors_kind_name(enum twin_tensors_kind kind); /* "PyTorch", ... */
size_t twin_tensors_count(const struct twin_tensors *f);
/* in the file's order */
const struct twin_tensors_entry *twin_tensors_at(const struct twin_tensors *f, size_t i);

size_t twin_tensors_value_count(const struct twin_tensors *f);
/* in the file's order */
const struct twin_tensors_value *twin_tensors_value_at(const struct twin_tensors *f, size_t i);

/* What was passed over, for instance objects of classes that are not known here: "numpy.dtype".
 * Names of classes or files, each once, at most 64. */
size_t twin_tensors_skipped_count(const struct twin_tensors *f);
const char *twin_tensors_skipped(const struct twin_tensors *f, size_t i);

/* Elements first to first + n - 1 of tensor i, in row-major order, dense, in this machine's byte
 * order, to out. Going forward through a compressed tensor is one pass. TWIN_EINVAL (out of range),
 * TWIN_EUNSUPPORTED (`unreadable`), TWIN_EIO, TWIN_EFORMAT (compressed bytes or checksum are
 * wrong), TWIN_ENOMEM, TWIN_ELIMIT. On an error out may be written in part. */
int twin_tensors_read(struct twin_tensors *f, size_t i, uint64_t first, uint64_t n, void *out,
                      struct twin_error *err);
/* May several threads read tensor i at once, beside one that reads any other? True where its
 * elements lie in one row in the file itself, neither packed nor transposed. */
bool twin_tensors_by_several(const struct twin_tensors *f, size_t i);

#ifdef __cplusplus
}
#endif
#endif
