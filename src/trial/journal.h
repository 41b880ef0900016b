/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_JOURNAL_H
#define TW_TRIAL_JOURNAL_H
/*
 * What lets a long series of runs go on after an interruption: a folder <home>/<kind>/<UTC
 * time>-<pid> with NAME.json (what is being done), plan.txt (how, written before the first run) and
 * log.jsonl (a line for each run, on the disk before anything is decided by it).
 */
#include <jansson.h>
#include <stdbool.h>
#include <twin/error.h>

struct tw_journal {
    char *folder;
    int fd;
}; /* the folder is owned; before tw_journal_open fd is -1 */

/* What a folder is made for, and found again by. */
struct tw_journal_of {
    const char *kind, *name; /* "searches", "search.json" */
    const json_t *what;      /* a folder whose NAME holds an equal object is for the same thing */
    const char *plan;        /* what plan.txt is to say */
    bool resume;             /* go on in the newest folder for the same thing; there must be one */
    /* what there is none of otherwise: "search of this job with these options" */
    const char *thing;
};
/* One line of the log that is there. Non-zero: it is not such a line. */
typedef int tw_journal_line(void *user, const json_t *line, struct twin_error *err);

/* With `resume` every line of the log is given to `line`; a last one that a crash cut off is
 * dropped, so that its run is made again. */
int tw_journal_open(struct tw_journal *j, const char *home, const struct tw_journal_of *of,
                    tw_journal_line *line, void *user, struct twin_error *err);
/* Takes the line (NULL: no memory); it is on the disk when this returns 0. */
int tw_journal_add(struct tw_journal *j, json_t *line, struct twin_error *err);
void tw_journal_close(struct tw_journal *j);
/* The newest folder <home>/<kind>/... whose NAME has every member of the object `alike`, and none
 * where `alike` has null; malloc'ed. NULL: there is none, or no memory. */
char *tw_journal_newest(const char *home, const char *kind, const char *name, const json_t *alike);

/* The words of a job (NULL-terminated) without the secrets in them: a list of texts. NULL: no
 * memory. */
json_t *tw_journal_argv(const char *home, char *const *argv);
#endif
