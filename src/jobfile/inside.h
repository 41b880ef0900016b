/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_JOBFILE_INSIDE_H
#define TW_JOBFILE_INSIDE_H
/* What the files of this room share: YAML as a tree that knows its lines, findings, and the rules
 * that manifests and scripts have in common. */
#include "jobfile.h"

#include "base.h"

#include <jansson.h>

/* ---- YAML (yaml.c) */

enum jf_kind { JF_SCALAR, JF_MAP, JF_LIST };

/* One value. line: from 1. text: of a scalar, as it stands there; is_plain: without quotes. key: of
 * a map, beside item. values: how many values it stands for, what aliases name counted again. */
struct jf_node {
    enum jf_kind kind;
    size_t line;
    char *text;
    bool is_plain;
    struct jf_node **key, **item;
    size_t count, room, values;
    struct jf_node *next; /* all nodes of a file, for freeing */
};

/* A file: its documents, in order. */
struct jf_yaml {
    struct jf_node **document;
    size_t documents, room;
    struct jf_node *all;
};

/* Reads all documents. jf_yaml_free in any case. Errors as tw_jobfile_lint. */
int jf_yaml_read(const char *name, const char *text, size_t bytes, struct jf_yaml *out,
                 struct twin_error *err);
void jf_yaml_free(struct jf_yaml *y);

/* The value of a key, own keys before those that "<<" brings; NULL: none, or map is no map. */
const struct jf_node *jf_get(const struct jf_node *map, const char *key);
/* Along keys, the last NULL. */
const struct jf_node *jf_at(const struct jf_node *map, const char *const *keys);
#define JF_AT(map, ...) jf_at(map, (const char *const[]){__VA_ARGS__, NULL})
/* Of a scalar its text; else "". */
const char *jf_text(const struct jf_node *n);
/* Items of a list; 0 when it is none. */
size_t jf_count(const struct jf_node *list);
/* Does it stand for a value? Neither missing nor null. */
bool jf_given(const struct jf_node *n);

/* ---- findings (findings.c) */

struct jf_place {
    struct tw_jobfile_findings *out;
    size_t line;
    const char *where;
};
void jf_holds(const struct jf_place *p, enum tw_jobfile_rule rule, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* what: a text of tw_printf, which this gives up; fix: is copied. */
void jf_say(const struct jf_place *p, enum tw_jobfile_rule rule, enum tw_jobfile_state state,
            char *what, const char *fix);

/* ---- what both kinds of file are asked (findings.c) */

/* Is it NAME@sha256: and 64 small hex digits? */
bool jf_has_digest(const char *image);
/* Does the text hold what is filled in later: {{ }}, $( ), ${ }, $NAME? */
bool jf_is_template(const char *text);
/* A whole number without a sign. */
bool jf_is_number(const char *text);

/* The images of one job, held against the one that is asked for. */
struct jf_images {
    const struct tw_jobfile_asked *asked;
    size_t same, open, others; /* is it; may be it; is another one */
    size_t line;               /* of the first that is not it; 0: none */
    char *found;               /* the first that is not it; owned */
};
void jf_see_image(struct jf_images *x, const char *image, size_t line);
/* The finding of TW_RULE_PACKAGE, where an image is asked for, at the job's place or the image's.
 * One of several is enough: what stands beside a trainer has other images. */
void jf_judge_package(const struct jf_place *p, struct jf_images *x, bool elsewhere);

/* ---- the two halves */

void jf_lint_documents(const struct jf_yaml *y, const struct tw_jobfile_asked *asked,
                       struct tw_jobfile_findings *out);
int jf_lint_script(const char *name, const char *text, size_t bytes,
                   const struct tw_jobfile_asked *asked, struct tw_jobfile_findings *out,
                   struct twin_error *err);

/* ---- writing */

/* JSON as YAML, appended; a document begins with "---" where it is not the first. Without libyaml
 * as JSON, which every reader of YAML takes. */
int jf_yaml_write(const json_t *const *document, size_t count, char **out, struct twin_error *err);
int jf_write_slurm(const struct tw_jobfile_job *job, char **out, struct twin_error *err);
/* The values that go into any file; TWIN_EINVAL with what is wrong. */
int jf_check_job(enum tw_jobfile_kind kind, const struct tw_jobfile_job *job,
                 struct twin_error *err);
/* "LABEL=VALUE": the label's length; SIZE_MAX: no such form. */
size_t jf_label_length(const char *pool);

#endif
