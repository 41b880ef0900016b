/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SNAPSHOT_WORDS_H
#define TW_REPORT_SNAPSHOT_WORDS_H
/* What is said of folders of data and their snapshots. JSON is the caller's; NULL: no memory. */
#include "looking.h"

#include <jansson.h>
#include <stdio.h>

/* Lines "changed  PATH  why" of the differences in data, `most` of them (0: all). *modes: how many
 * entries have other modes or links. */
void tw_snapshot_text_differences(FILE *out, const struct twin_snapshot *was,
                                  const struct twin_snapshot *is, size_t most, size_t *modes);
/* The same as a JSON list. */
json_t *tw_snapshot_json_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is, size_t *differences);
/* "3 files, 1.2 GiB" with links and folders where there are some. */
char *tw_snapshot_holds(const struct twin_snapshot *s, char out[160]);
/* Of a folder that was held against its manifest. */
void tw_snapshot_verified_text(FILE *out, const char *manifest, const char *dir,
                               const struct twin_snapshot *was, const struct twin_snapshot *now);
json_t *tw_snapshot_verified_json(const char *manifest, const char *dir,
                                  const struct twin_snapshot *was, const struct twin_snapshot *now);
/* Of a folder whose manifest was taken. was: what the manifest that is there says, where it says
 * something else and was kept; NULL. outcome: "written", "unchanged", "differ". */
json_t *tw_snapshot_taken_json(const char *dir, const char *output, const struct twin_snapshot *s,
                               const struct twin_snapshot *was, const char *outcome);
void tw_snapshot_taken_text(FILE *out, const char *output, const struct twin_snapshot *s,
                            const struct twin_snapshot *was);

#endif
