/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PRECISION_H
#define TW_PRECISION_H
/* What the files of the precision policy share: precision_policy.c (the file), precision.c (rules
 * held against a run), precision_trace.c (what its traces show). */
#include "src/provenance/precision.h"

#include <jansson.h>

/* What a rule speaks of. */
enum tw_precision_about {
    TW_ABOUT_NOTHING,  /* no key that says it yet */
    TW_ABOUT_DTYPES,   /* of records; `pattern` says which */
    TW_ABOUT_AUTOCAST, /* regions of each step */
    TW_ABOUT_SCALER,   /* in each step: required, or off */
    TW_ABOUT_SETTING   /* switches of each rank's libraries */
};

/* One [[precision]] table: what it speaks of, and what it allows there. */
struct tw_precision_rule {
    size_t line;
    enum tw_precision_about about;
    char *key;     /* as in the file: "dtypes", "tf32", ... */
    char *pattern; /* NULL: every record */
    char *reason;
    char **allowed;
    size_t allowed_count;
    uint32_t dtypes; /* of TW_ABOUT_DTYPES: a bit for each type */
    bool required;   /* of TW_ABOUT_SCALER */
};

/* Owns its rules; twin_precision_free. */
struct twin_precision_policy {
    struct tw_precision_rule *rule;
    size_t count;
};

/* The switches that a key of the policy stands for; NULL: it stands for none. */
struct tw_precision_switch {
    const char *key, *setting[3];
    bool cuda_only; /* without a device they change nothing */
};
const struct tw_precision_switch *tw_precision_switch(const char *key);

/* data is n bytes and a NUL, and is changed; path: for messages. */
int tw_precision_parse(char *data, size_t n, const char *path, struct twin_precision_policy **out,
                       struct twin_error *err);
bool tw_precision_allows(const struct tw_precision_rule *r, const char *word);
/* breach is taken; what exceeds the cap is only counted. */
int tw_precision_add(struct twin_precision_result *r, struct twin_precision_breach *breach,
                     struct twin_error *err);
/* One trace of a rank's main process, for all rules that speak of records and steps. */
int tw_precision_trace(const struct twin_precision_policy *p, const char *path,
                       struct twin_precision_verdict *out, struct twin_error *err);
#endif
