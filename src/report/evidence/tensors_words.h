/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_TENSORS_WORDS_H
#define TW_REPORT_TENSORS_WORDS_H
/* What twinrun digest says of files of tensors: of one what is in it, of two what differs. */
#include "src/snapshot/content.h"

#include <jansson.h>
#include <stdio.h>

/* Both return 0: one file, or the tensors are the same; 1: they differ; a TWIN_E*: they cannot be
 * compared. err is not NULL. */
int tw_tensors_text(FILE *out, char *const *files, const struct twin_content *c, size_t count,
                    struct twin_error *err);
/* *out is the caller's, where it is not an error; NULL: no memory. */
int tw_tensors_json(char *const *files, const struct twin_content *c, size_t count, json_t **out,
                    struct twin_error *err);

#endif
