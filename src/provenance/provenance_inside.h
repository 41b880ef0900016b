/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PROVENANCE_H
#define TW_PROVENANCE_H
/*
 * Inside of provenance: what a run was. One process per run, the collector, makes the record; each
 * subject has a file:
 *
 *  - provenance.c: the collector's life; values.c: values of the record;
 *  - ask.c: other programs, with a limit; git.c: git, in a checkout that may be anybody's;
 *  - code.c: what git says of the folder;
 *  - command.c: programs, entry point, configuration files;
 *  - data.c: data that the command names;
 *  - environment.c: machine and system; topology.c: hwloc; accelerators.c: NVML;
 *  - packages.c: dpkg, pip, conda; libraries.c: mapped files and their digests;
 *  - launch.c: variables, scheduler; ranks.c: what each process said;
 *  - written.c, written_events.c: what is in the files that the job wrote.
 *
 * What reads a record later: read.c; diff.c, parity.c, parity_groups.c, power.c (differences.h)
 * compare worlds; parity_start.c does so while the ranks begin; precision*.c hold a run against a
 * policy; ends.c says where it ended; habits.c reads a script. config.c, config_argv.c are digests
 * of a configuration; its values come from formats.
 *
 * Building a JSON value fails only for lack of memory. A value that could not be built is left out:
 * nothing here is worth failing a run.
 */
#include "launch.h" /* tw_json_bytes */

#include "src/launch/redact.h"
#include "src/provenance/provenance.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TW_PROVENANCE_SCHEMA "twinrun.provenance/1"

/* What the collector knows: the run that it is about, and the record as far as it goes. It lives in
 * a process of its own, which ends with it. */
struct tw_collector {
    const struct twin_run *run;
    const char *home;
    char *const *env; /* the job's */
    char *from;       /* the folder twinrun was started in */
    struct twin_redactor *redactor;
    json_t *root, *notes;
    json_t *before; /* record of an earlier run of this process; NULL: none */
    pid_t job;      /* 0: not started */
    bool ended;     /* the launcher said so, or is gone */
};

/* ---- values */
json_t *tw_pv_text(const struct tw_collector *c, const char *s); /* the same without its secrets */
/* takes the value; a NULL one is left out */
void tw_pv_put(json_t *object, const char *key, json_t *value);
void tw_pv_add(json_t *list, json_t *value);
void tw_pv_note(struct tw_collector *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *tw_pv_variable(char *const *env, const char *name);

/*
 * A whole small file of text, its last line's end taken off; NULL when it cannot be read. tw_free.
 */
char *tw_pv_read(const char *path, size_t cap);
/* its first line; NULL when it cannot be read */
json_t *tw_pv_line(const char *path);
/* SHA-256 of a file; stops at `cap` bytes (0: none) and at deadline_ns (0: none). 0, or -1 with
 * *why. */
int tw_pv_sha256(const char *path, uint64_t cap, uint64_t deadline_ns, char hex[65],
                 uint64_t *bytes, const char **why);

/* ---- other programs (ask.c) */
/* One call of another program: the first four members say which and how, the others what came of
 * it. */
struct tw_ask {
    const char *const *argv;
    const char *dir; /* working folder; NULL: ours */
    double limit_s;
    size_t cap; /* of what it prints; more ends it */
    /* out */
    char *out; /* NUL-terminated, tw_free; NULL: none */
    size_t bytes;
    int status;          /* exit code; 128 + signal; -1: not started */
    bool missing;        /* there is no such program */
    bool late, full;     /* ended by us: its time was up, or it printed too much */
    char complaint[256]; /* first line of its stderr */
};
bool tw_ask(struct tw_ask *a); /* true: it ended by itself with 0 */
/* git in a checkout of anybody's, which starts none of its programs (git.c). As tw_ask; words:
 * NULL-terminated. */
bool tw_pv_git(struct tw_ask *a, const char *dir, double limit_s, size_t cap,
               const char *const *words);

/* ---- subjects: each returns its part of the record */
json_t *tw_pv_code(struct tw_collector *c);                  /* before the job */
void tw_pv_code_later(struct tw_collector *c, json_t *code); /* remotes, untracked files */
json_t *tw_pv_programs(struct tw_collector *c);
json_t *tw_pv_config(struct tw_collector *c);
json_t *tw_pv_data(struct tw_collector *c);
json_t *tw_pv_environment(struct tw_collector *c);
/* into the environment: asks them, unless the run before found the same ones */
void tw_pv_compilers(struct tw_collector *c);
json_t *tw_pv_topology(const struct tw_collector *c); /* writes topology.xml, and says what it is */
json_t *tw_pv_packages(struct tw_collector *c);
json_t *tw_pv_accelerators(struct tw_collector *c);
json_t *tw_pv_launch(struct tw_collector *c);
/* After the job: fills "ranks", "libraries", "seeds" from what the processes said. */
void tw_pv_ranks(struct tw_collector *c);
/* A variable as it may be kept, without the paths that twinrun itself put in front of it (ours;
 * NULL: none). */
void tw_pv_put_variable(const struct tw_collector *c, json_t *o, const json_t *ours,
                        const char *name, const char *value);

/* ---- libraries (libraries.c) */
/* The files that the run's processes have mapped, each once, and their digests. */
struct tw_libraries;
struct tw_libraries *tw_libraries_open(void);
/* Number of a file among those of the run; -1: no memory. */
long tw_libraries_add(struct tw_libraries *l, const char *path);
void tw_libraries_hash(struct tw_libraries *l, double seconds); /* for so long at most; once */
json_t *tw_libraries_json(const struct tw_libraries *l);
void tw_libraries_close(struct tw_libraries *l);
#endif
