/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GATHER_TAR_H
#define TW_GATHER_TAR_H
/*
 * Reads a tar archive (POSIX.1-1988 ustar, POSIX.1-2001 pax, GNU's long names) into a folder.
 *
 * An archive is foreign bytes. What a run folder does not consist of (links, devices, pipes, sparse
 * files), a path that leads out of the folder, and a path that comes twice are refused, and nothing
 * that is there is opened through a link or replaced. Nothing is decompressed, so what is written
 * is never more than what was read.
 */
#include "front.h"

#include <stdint.h>

/* Most entries, and folders inside of each other. */
enum { TW_TAR_ENTRIES = 1 << 20, TW_TAR_DEPTH = 64 };

/*
 * Reads fd to the archive's end, and makes its files and folders below root, an open folder. name:
 * of the archive, for messages. TWIN_EFORMAT: no tar archive, cut short, or refused; TWIN_ELIMIT;
 * TWIN_EINTR where front stops it; TWIN_EIO. What was made before an error stays.
 */
int tw_tar_unpack(int fd, const char *name, int root, const struct tw_front *front,
                  struct twin_error *err);
#endif
