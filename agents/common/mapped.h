/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_MAPPED_H
#define TW_AGENT_MAPPED_H
/* The files that code of this process runs from, each as often as it is mapped anew. */

/*
 * Not dl_iterate_phdr: its lock is held by whoever loads a library just now, perhaps for seconds.
 * path: read during the call alone; " (deleted)" behind it where the file is gone.
 */
void tw_each_mapped(void (*file)(const char *path, void *user), void *user);
#endif
