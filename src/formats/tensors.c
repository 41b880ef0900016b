/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors: which format one is (src/formats/tensors.h). The formats themselves are in
 * npy.c, safetensors.c, torch.c, hdf5.c, keras.c, tf_bundle.c, dcp.c (a folder of
 * torch.distributed.checkpoint) and folder.c (several files as one list); each adds what it finds
 * by tw_tensors_add() (tensors_list.c), which checks it against the bytes that are there. Elements
 * are read in tensors_read.c.
 *
 * All files are foreign. Opening reads descriptions only, never the elements, and what a list may
 * cost in memory is bounded by the size of what describes it. Nothing in a file is ever run.
 *
 * Two names of the same bytes are told as aliases. Elements that lie apart (a transposed tensor)
 * are put into row-major order when they are read; for that their whole span is held in memory, one
 * tensor at a time. */
#include "tensors_inside.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening */

/* A zip file: a checkpoint when a data.pkl lies directly below a folder of it, else arrays. */
static int list_zip(struct twin_tensors *f, struct twin_error *err)
{
    struct tw_zip z;
    const char *pickle = NULL;
    int rc = tw_zip_open(&f->source, &z, err);
    if (rc != 0)
        return rc;
    tw_tensors_budget(f, f->source.size, TW_LIST_BYTES_EACH);
    bool arrays = false;
    for (size_t i = 0; i < z.count; i++) {
        const char *slash = strchr(z.entry[i].name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0 && !pickle)
            pickle = z.entry[i].name;
        arrays |= tw_ends(z.entry[i].name, ".npy");
    }
    if (tw_keras_is(&z)) {
        f->kind = TWIN_TENSORS_KERAS;
        rc = tw_keras_list(f, &z, err);
    } else if (pickle) {
        f->kind = TWIN_TENSORS_TORCH;
        rc = tw_torch_list(f, &z, pickle, err);
    } else if (arrays || z.count == 0) {
        f->kind = TWIN_TENSORS_NPZ;
        rc = tw_npz_list(f, &z, err);
    } else {
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "%s: a zip file that is neither a PyTorch checkpoint (no data.pkl in "
                            "it) nor .npz (no .npy in it) nor .keras (no *.weights.h5 in it)",
                            f->source.name);
    }
    tw_zip_free(&z);
    return rc;
}

/* What a file that is none of tensors seems to be, by its first n bytes. */
static const char *seems(const unsigned char *b, size_t n)
{
    if (n == 0)
        return "an empty file";
    if (n >= 2 && memcmp(b, "\x1f\x8b", 2) == 0)
        return "gzip: unpack it first";
    if (n >= 2 && b[0] == 0x80 && b[1] <= 5)
        return "a Python pickle, which is a program; save with numpy.save, torch.save or "
               "safetensors";
    if (n >= 4 && memcmp(b, "TWV1", 4) == 0)
        return "recorded values of a transplant, which twinrun alone reads";
    return n >= 2 && b[0] == '#' && b[1] == '!' ? "a script" : "something else";
}

static int unknown_format(const struct tw_source *s, const unsigned char *b, size_t n,
                          struct twin_error *err)
{
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "%s: expected .npy, .npz, .safetensors, .keras, .h5 or a checkpoint of "
                          "PyTorch or TensorFlow (its .index), found %s",
                          s->name, seems(b, n));
}

/* Tells the format by the first bytes. safetensors has no magic number: a length below 2^32, then
 * an open brace; a larger length needs the name to say it. */
static int list_tensors(struct twin_tensors *f, struct twin_error *err)
{
    unsigned char start[32];
    size_t n = f->source.size < sizeof start ? (size_t)f->source.size : sizeof start;
    int rc = tw_source_read(&f->source, 0, start, n, err);
    if (rc != 0)
        return rc;
    /* The formats with a magic number first. */
    if (n >= 6 && memcmp(start, "\x93NUMPY", 6) == 0) {
        f->kind = TWIN_TENSORS_NPY;
        return tw_npy_list(f, err);
    }
    if (n >= 4 && (memcmp(start, "PK\3\4", 4) == 0 || memcmp(start, "PK\5\6", 4) == 0))
        return list_zip(f, err);
    if (n >= 8 && memcmp(start, "\x89HDF\r\n\x1a\n", 8) == 0) {
        f->kind = TWIN_TENSORS_HDF5;
        return tw_hdf5_list(f, 0, f->source.size, err);
    }
    if (tw_torch_legacy_is(start, n)) {
        f->kind = TWIN_TENSORS_TORCH_LEGACY;
        return tw_torch_legacy_list(f, err);
    }
    /* a header has at most 1e8 bytes */
    if (n >= 10 && start[8] == '{' &&
        (tw_le32(start + 4) == 0 || tw_ends(f->source.name, ".safetensors"))) {
        f->kind = TWIN_TENSORS_SAFETENSORS;
        return tw_safetensors_list(f, err);
    }
    if (tw_bundle_is(&f->source)) {
        f->kind = TWIN_TENSORS_TENSORFLOW;
        return tw_bundle_list(f, &f->bundle, err);
    }
    return unknown_format(&f->source, start, n, err);
}

/* An empty list of what s holds. NULL: no memory; then s is closed. */
static struct twin_tensors *begin_list(const struct tw_source *s, enum twin_tensors_kind kind,
                                       bool values, struct twin_error *err)
{
    struct twin_tensors *f = tw_calloc(1, sizeof *f);
    if (f) {
        f->source = *s;
        f->kind = kind;
        f->wants_values = values;
        f->source.name = tw_arena_text(f, s->name, strlen(s->name));
        if (f->source.name)
            return f;
        twin_tensors_close(f);
    } else if (s->fd >= 0 && !s->borrowed) {
        close(s->fd);
    }
    tw_no_memory(err, "reading %s", s->name);
    return NULL;
}

/* Hands the list over, or closes it. */
static int finish_list(struct twin_tensors *f, int rc, struct twin_tensors **out)
{
    if (rc)
        twin_tensors_close(f);
    else
        *out = f;
    return rc;
}

int tw_tensors_open_source(const struct tw_source *s, bool values, struct twin_tensors **out,
                           struct twin_error *err)
{
    *out = NULL;
    struct twin_tensors *f = begin_list(s, TWIN_TENSORS_NPY, values, err);
    return f ? finish_list(f, list_tensors(f, err), out) : TWIN_ENOMEM;
}

/* fd: of the folder; taken. */
static int open_folder(const char *path, int fd, bool values, struct twin_tensors **out,
                       struct twin_error *err)
{
    if (faccessat(fd, ".metadata", F_OK, 0) != 0) {
        close(fd);
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected a file, or a folder of torch.distributed.checkpoint "
                              "(with .metadata in it), found another folder",
                              path);
    }
    struct twin_tensors *f = begin_list(&(struct tw_source){.fd = -1, .name = path},
                                        TWIN_TENSORS_TORCH_DISTRIBUTED, values, err);
    if (!f) {
        close(fd);
        return TWIN_ENOMEM;
    }
    return finish_list(f, tw_dcp_list(f, fd, &f->dcp, err), out);
}

int twin_tensors_open_folder(const char *dir, const struct twin_tensors_file *file, size_t count,
                             struct twin_tensors **out, struct twin_error *err)
{
    *out = NULL;
    struct twin_tensors *f = begin_list(&(struct tw_source){.fd = -1, .name = dir},
                                        TWIN_TENSORS_FOLDER, true, err);
    return f ? finish_list(f, tw_folder_list(f, file, count, &f->folder, err), out) : TWIN_ENOMEM;
}

/* Opened once and looked at afterwards, so that it is the same file. */
static int open_path(const char *path, bool values, struct twin_tensors **out,
                     struct twin_error *err)
{
    struct stat st;
    /* a FIFO must not hold us up */
    struct tw_source s = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .name = path};
    *out = NULL;
    if (s.fd < 0)
        return twin_error_system(err, "%s: cannot open", path);
    if (fstat(s.fd, &st) != 0) {
        int rc = twin_error_system(err, "%s", path);
        close(s.fd);
        return rc;
    }
    if (S_ISDIR(st.st_mode))
        return open_folder(path, s.fd, values, out, err);
    if (!S_ISREG(st.st_mode)) {
        close(s.fd);
        return twin_error_set(err, TWIN_EINVAL, "%s: expected a file, found %s", path,
                              "a device, pipe or socket");
    }
    s.size = (uint64_t)st.st_size;
    return tw_tensors_open_source(&s, values, out, err);
}

int twin_tensors_open(const char *path, struct twin_tensors **out, struct twin_error *err)
{
    return open_path(path, false, out, err);
}

int twin_tensors_open_all(const char *path, struct twin_tensors **out, struct twin_error *err)
{
    return open_path(path, true, out, err);
}

int twin_tensors_open_all_bytes(const void *data, size_t bytes, const char *name,
                                struct twin_tensors **out, struct twin_error *err)
{
    const struct tw_source s = {.fd = -1, .memory = data, .size = bytes, .name = name};
    return tw_tensors_open_source(&s, true, out, err);
}

int twin_tensors_open_bytes(const void *data, size_t bytes, const char *name,
                            struct twin_tensors **out, struct twin_error *err)
{
    const struct tw_source s = {.fd = -1, .memory = data, .size = bytes, .name = name};
    return tw_tensors_open_source(&s, false, out, err);
}

void twin_tensors_close(struct twin_tensors *f)
{
    if (!f)
        return;
    if (f->source.fd >= 0 && !f->source.borrowed)
        close(f->source.fd);
    tw_dcp_free(f->dcp);
    tw_folder_free(f->folder);
    tw_bundle_free(f->bundle);
    tw_unpack_free(f->unpack);
    tw_free(f->whole);
    tw_free(f->tensor);
    tw_free(f->by_place);
    for (struct block *b = f->memory, *next; b; b = next) {
        next = b->next;
        tw_free(b);
    }
    tw_free(f->skipped);
    tw_free(f->value);
    tw_free(f);
}

/* ---- looking */

enum twin_tensors_kind twin_tensors_kind(const struct twin_tensors *f)
{
    return f->kind;
}

const char *twin_tensors_kind_name(enum twin_tensors_kind kind)
{
    static const char *const names[] = {".npy",
                                        ".npz",
                                        "safetensors",
                                        "PyTorch",
                                        "PyTorch, old format",
                                        "torch.distributed.checkpoint",
                                        "folder",
                                        "HDF5",
                                        "Keras",
                                        "TensorFlow"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

size_t twin_tensors_count(const struct twin_tensors *f)
{
    return f->count;
}

const struct twin_tensors_entry *twin_tensors_at(const struct twin_tensors *f, size_t i)
{
    return i < f->count ? &f->tensor[i].entry : NULL;
}

size_t twin_tensors_value_count(const struct twin_tensors *f)
{
    return f->values;
}

const struct twin_tensors_value *twin_tensors_value_at(const struct twin_tensors *f, size_t i)
{
    return i < f->values ? &f->value[i] : NULL;
}

size_t twin_tensors_skipped_count(const struct twin_tensors *f)
{
    return f->skipped_count;
}

const char *twin_tensors_skipped(const struct twin_tensors *f, size_t i)
{
    return i < f->skipped_count ? f->skipped[i] : NULL;
}
