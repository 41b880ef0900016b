/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_ORDER_H
#define TW_ENGINE_ORDER_H
/*
 * What a node is told and what it answers, as files in a ticket's folder:
 *
 * - order: what is to be run and how, with the whole environment of the caller. Readable by its
 *   owner alone; the node deletes it once it has read it, since an environment may hold secrets.
 * - claim.json: who took the ticket. Made once: a second one, of an engine that repeats what it was
 *   told not to, finds it there, leaves a file again.* and does nothing.
 * - dir: the run folder, once it is there; stop, made by the caller: the run is to end.
 * - result.json: how it ended. Written last and in one step.
 *
 * The order is a list of NAME=VALUE, each ended by a NUL, so that any bytes go through. It is read
 * by the same version of twinrun that wrote it, and by no other.
 */
#include "engine.h"

#include "src/launch/run.h"

struct tw_buf;

struct tw_order {
    struct twin_launch_options o; /* without what cannot be given to another process */
    bool bare;                    /* as struct tw_trial */
    char *cwd, *engine, *ticket;
    uint32_t attempt;
    unsigned mask;      /* umask */
    char **environment; /* of the caller; NULL-terminated */
    /* owned: what o points to */
    char **argv, **env, *home, *label, *copy_of, *spool;
    size_t argc, env_count, environment_count;
    struct twin_run_data *data;
};

/* What does not change between attempts: the options, folder and environment of this process. */
int tw_order_body(const struct twin_launch_options *o, bool bare, struct tw_buf *body,
                  struct twin_error *err);
/* Writes it into the ticket's folder. version: of this program. */
int tw_order_write(const struct tw_ticket *t, const char *engine, const struct tw_buf *body,
                   struct twin_error *err);
/* Reads it. TWIN_EVERSION: another version wrote it. Deleted by tw_order_delete. */
int tw_order_read(const char *folder, struct tw_order *out, struct twin_error *err);
void tw_order_delete(const char *folder);
void tw_order_free(struct tw_order *o);

/* ---- result.c */

struct tw_claim {
    char *node, *host; /* owned */
    int64_t pid;
};
/* 0: the ticket is ours. TWIN_EINVAL: somebody has it (and the mark again.* was left). */
int tw_claim_make(const char *folder, const char *ticket, const struct tw_claim *c,
                  struct twin_error *err);
/* False: nobody has it yet, or the file is not that of this ticket. */
bool tw_claim_read(const struct tw_ticket *t, struct tw_claim *out);
void tw_claim_free(struct tw_claim *c);
/* How often somebody came again for the ticket. */
size_t tw_claim_again(const char *folder);

struct tw_result {
    int rc;                  /* of the launch; 0: there is a run */
    char *message;           /* of the launch's error; owned */
    char *dir, *node, *host; /* owned */
    bool interrupted;        /* by a signal that nobody of ours sent */
    int exit_code;
    char digest[33]; /* of the run's record: what stands in the folder must have it */
};
int tw_result_write(const char *folder, const struct tw_order *order, const struct tw_result *r,
                    struct twin_error *err);
/* False: there is none, or not a whole one of this very attempt. */
bool tw_result_read(const struct tw_ticket *t, struct tw_result *out);
void tw_result_free(struct tw_result *r);
/* Of run.json's bytes and of the names and sizes of the traces. TWIN_E*: cannot be read. */
int tw_run_digest(const struct twin_run *run, char out[33], struct twin_error *err);

#endif
