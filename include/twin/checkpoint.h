/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_CHECKPOINT_H
#define TWIN_CHECKPOINT_H
/*
 * A file that is there whole or not at all, for checkpoints of C programs (-ltwincheckpoint).
 * Python: twinrun.save, twinrun.atomic_write.
 *
 *     struct twin_checkpoint *c;
 *     if (twin_checkpoint_begin("model.bin", &c, &err) == 0) {
 *         twin_checkpoint_write(c, weights, bytes, &err);
 *         twin_checkpoint_commit(c, &err);
 *     }
 *
 * Whatever happens meanwhile (SIGKILL, a full disk, a power cut on a file system that keeps what
 * fsync wrote), PATH is what it was or what was committed. Beside it stands PATH.sha256 for
 * `sha256sum -c`: when it is there it is right; in the moment of the change it is absent. What a
 * killed writer left behind is taken away by the next one that begins the same path.
 *
 * A handle belongs to one thread at a time; different handles, also of one path, may be written at
 * the same time by any threads and processes, and the last commit wins. A child made by fork must
 * leave a handle of its parent's alone. Not for signal handlers. All functions return 0 or a
 * negative TWIN_E* code. Since 0.1.
 */
#include <stddef.h>
#include <twin/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* A file that is being written. Ended by commit or abort, which free it. */
struct twin_checkpoint;

/* Creates a file beside path, which a link is followed to; path itself is not touched. TWIN_EIO,
 * TWIN_ENOENT (no such folder), TWIN_ENOMEM; *out is then NULL. umask is read and put back, so no
 * other thread should make files at that moment. */
int twin_checkpoint_begin(const char *path, struct twin_checkpoint **out, struct twin_error *err);
/* Appends `bytes` bytes of data, which is only read. TWIN_EIO, and TWIN_ENOMEM where the system
 * says so. After an error the handle takes no more, and commit fails with that error. */
int twin_checkpoint_write(struct twin_checkpoint *c, const void *data, size_t bytes,
                          struct twin_error *err);
/* fsync, rename, fsync of the folder; frees the handle in any case. Waits for another commit in the
 * same folder. TWIN_EIO, TWIN_ENOENT, TWIN_ENOMEM, or the error of a write before. After an error
 * path is as it was, unless the error says otherwise: then it is in place without its digest. */
int twin_checkpoint_commit(struct twin_checkpoint *c, struct twin_error *err);
/* Leaves path as it was; frees the handle. NULL is allowed. */
void twin_checkpoint_abort(struct twin_checkpoint *c);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
