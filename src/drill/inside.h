/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_DRILL_INSIDE_H
#define TW_DRILL_INSIDE_H
/* What the files of this room share. */
#include "drill.h"

#include "src/registry/registry.h"

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

/* When a job is to be killed. */
enum dr_moment {
    DR_NEVER,
    DR_SAVED, /* its first save is complete */
    DR_SAVING /* its second save has begun: a file beside or the file itself is being written */
};

/*
 * One run in a copy of a folder. copy_of: NULL, the working folder. env: additions, or NULL. Killed
 * at the moment with all processes below it. *killed_ns: when, monotonic; 0: it ended before.
 */
struct dr_run {
    char *const *argv;
    char *const *env;
    const char *copy_of;
    bool in_place; /* in the working folder itself: of a command that writes nothing there */
    bool agents;   /* ours are in the job */
    bool is_ours;  /* not the job, but this program once more */
    bool secret;   /* what it writes is not copied into its run folder */
    enum dr_moment moment;
    /* puts something into the copy before the job starts; may be NULL */
    int (*fill)(void *user, const char *work, struct twin_error *err);
    void *fill_user;
    uint64_t killed_ns, ended_ns;
    struct twin_run *run;
};
/* Makes it; run is the caller's. Errors: twin_launch's. */
int dr_make(const struct tw_drill_asked *asked, struct dr_run *r, struct twin_error *err);

/* ---- what a run left (runs.c) */

enum { DR_CHECKPOINT_BYTES = 1 << 30 };

char *dr_checkpoint_of(const struct tw_drill_asked *asked, const struct twin_run *run);
bool dr_ended_well(const struct twin_run *run);
/* Did the run itself write the checkpoint? One that lay there before proves nothing. */
bool dr_wrote(const struct tw_drill_asked *asked, const struct twin_run *run);
/* Do two checkpoints say the same: by tensors and values where both can be read, else by bytes. */
int dr_same_state(const struct tw_drill_asked *asked, const struct twin_run *p,
                  const struct twin_run *q, bool *same, struct twin_error *err);

/* ---- one drill (drill.c) */

/* whole: nothing happened to it. half: something did. again: the last one, which is judged. */
struct dr_drill {
    const struct tw_drill_asked *asked;
    struct tw_drill_result *out;
    struct dr_run whole, half, again;
    bool lost_words; /* no memory for one of them: the drill ends as an error */
    struct twin_error *err;
};

void dr_say(const struct dr_drill *d, const char *what);
void dr_note(struct dr_drill *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Goes on with the last note. */
void dr_add(struct dr_drill *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The word about all records (drill.h); a literal, or one that lives until it is copied here. */
void dr_records(struct dr_drill *d, const char *word);
double dr_seconds(uint64_t from_ns, uint64_t to_ns);
/* What a run printed, if it is a JSON object (the caller's); else NULL with 0. */
int dr_printed(const struct twin_run *run, json_t **out, struct twin_error *err);
/* A whole run, which must end well and leave the checkpoint. */
int dr_make_whole(struct dr_drill *d, struct dr_run *r);
/* The job as in the first run again; it may end badly. What r held is freed. */
int dr_make_back(struct dr_drill *d, struct dr_run *r);
/* The end of each drill: is the last run's state the proven one? If not, is there one? */
int dr_judge(struct dr_drill *d, const char *what);
/* One more run of the job in another world, held against the proven state: `half`, and a step that
 * begins with `what`. Where it is another one, detect_s is the longest such run's time. *same. */
int dr_try(struct dr_drill *d, const struct dr_run *as, const char *what, bool *same);

int dr_preempt(struct dr_drill *d);
int dr_corrupt(struct dr_drill *d);
int dr_node(struct dr_drill *d);
int dr_upgrade(struct dr_drill *d);
int dr_clock(struct dr_drill *d);
int dr_rollback(struct dr_drill *d);
int dr_registry_loss(struct dr_drill *d);

/* ---- a staging copy of a registry (staging.c) */

/*
 * A folder of its own below the home, which goes with dr_staging_end, or when a later drill finds
 * that its process is gone. A key that is made for the drill and dies with it signs what is added
 * there, so no entry of a drill can ever be taken for one of the registry.
 */
struct dr_staging {
    char *folder;                        /* HOME/drills/... */
    char *registry;                      /* folder/registry */
    char *key, *pub;                     /* files */
    struct twin_trust *own;              /* that key alone */
    const struct tw_strings *identities; /* of tw_drill_asked; an empty list for none */
    char (*entry)[64];                   /* names of the log's files, in order */
    size_t entries;
    int lock;
};
/* Makes it, and reads what `asked->registry` is now into *now: it has to be without fault. Both are
 * ended by the caller, whatever is returned. */
int dr_staging_begin(struct dr_drill *d, struct dr_staging *s, struct tw_registry *now);
void dr_staging_end(struct dr_staging *s);
/* Everything of a store into a new folder, digests checked. names: as dr_staging.entry, or NULL. */
int dr_copy_registry(const char *from, const char *to, struct dr_staging *names,
                     struct twin_error *err);
char *dr_below(const struct dr_staging *s, const char *name); /* malloc'ed path */
/* The drill's key vouches for all entries of the copy so far. */
int dr_vouch(const struct dr_staging *s, struct tw_registry *r, struct twin_error *err);
/* Opens the copy as those see it who trust the drill's key: it vouches for what was there. What is
 * encrypted in it can be read where there are identities. */
int dr_staging_open(struct dr_staging *s, struct tw_registry *r, struct twin_error *err);

/* killer.c: a thread that looks at the saves of one file and kills. */
struct dr_killer;
int dr_killer_start(const char *path, enum dr_moment moment, struct dr_killer **out,
                    struct twin_error *err);
void dr_killer_aim(struct dr_killer *k, pid_t pid); /* the job's main process */
/* Ends the thread; the moment of the kill, 0: there was none. k may be NULL. */
uint64_t dr_killer_stop(struct dr_killer *k);

#endif
