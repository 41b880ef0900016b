/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_H
#define TW_ENGINE_H
/*
 * Engines: who runs things on other machines (a scheduler such as Slurm, or a command of the
 * user's). The room has one small interface and four engines behind it; scheduling, queues and
 * transport are the engine's own, nothing of that is made here.
 *
 * What an engine is given is a ticket: a folder on a file system that all machines share, in which
 * lies an order (order.h: what is to be run, and how). On the node `twinrun --node-run FOLDER`
 * takes the order, makes one watched run, and leaves result.json there. That file alone says that a
 * run has ended and what it is; what the engine says of a ticket (queued, running, gone) is a hint.
 * Engines never repeat a run by themselves: what was lost is made again by src/trial/remote.c,
 * which counts it.
 *
 * An engine belongs to one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <twin/error.h>

/* Where a run may be made. */
enum tw_place_kind {
    TW_PLACE_ANY,
    TW_PLACE_SAME_TYPE, /* on nodes of the type that the first run had */
    TW_PLACE_PIN,       /* on this node */
    TW_PLACE_AVOID,     /* on any node but these */
    TW_PLACE_TYPE       /* on nodes that have this, in the engine's words (Slurm: features) */
};
struct tw_place {
    enum tw_place_kind kind;
    char *hosts; /* names with commas; of TYPE the words; NULL for ANY and SAME_TYPE; owned */
};
/* "any", "same-type", "pin:HOST", "avoid:HOST,HOST", "type:WORDS". TWIN_EINVAL. */
int tw_place_parse(const char *text, struct tw_place *out, struct twin_error *err);
int tw_place_copy(const struct tw_place *from, struct tw_place *to, struct twin_error *err);
bool tw_place_equal(const struct tw_place *a, const struct tw_place *b);
/* May a run be on this node? Of types nothing is known here: true. */
bool tw_place_holds(const struct tw_place *p, const char *node);
void tw_place_free(struct tw_place *p);

/* One machine of the engine, as probe found it. */
struct tw_node {
    char *name;      /* owned */
    char *type;      /* equal for nodes that are alike, as far as the engine says; owned */
    char *host;      /* what the machine calls itself, once a run has said so; owned */
    char *processor; /* its model, once a run has said so; owned */
    bool up;
    size_t busy;     /* tickets that are there now, where the engine is told where */
    unsigned failed; /* tickets that were lost there */
};

/* What the engine says of a ticket. */
enum tw_job_state {
    TW_JOB_UNKNOWN, /* the engine did not answer */
    TW_JOB_QUEUED,
    TW_JOB_RUNNING,
    TW_JOB_GONE /* it has ended, or the engine knows nothing of it */
};

enum { TW_TICKET_DIGITS = 32 };
struct tw_ticket {
    char *folder;                      /* owned */
    char number[TW_TICKET_DIGITS + 1]; /* drawn anew for each attempt: no result of another fits */
    struct tw_place place;
    uint32_t attempt;
    /* out, of submit and poll */
    char job[64];    /* the engine's name of it; "": not submitted */
    char node[256];  /* where it is, as the engine says; "": not known */
    char asked[256]; /* the host that the engine was to use, or by its own word does; "": unknown */
    char why[200];   /* why it waits, or how it ended, in the engine's words; "" */
    enum tw_job_state state;
    pid_t pid;             /* of the command that stands for it; 0: none */
    uint64_t cancelled_ns; /* monotonic: when it was told to end; 0: it was not */
    unsigned missed;       /* answers in a row that did not have it */
};

struct tw_engine;

/*
 * on: "local", "slurm", "slurm:OPTIONS OF SBATCH", "k8s:FILE", "ray",
 * "ray:OPTIONS", "cmd:TEMPLATE". hosts: names with
 * commas, for {host} of a template; NULL: none. slots: tickets at a time at most; 0: as many as the
 * engine takes. *out is NULL for "local". TWIN_EINVAL, TWIN_EUNSUPPORTED: the engine is not to be
 * had here.
 */
int tw_engine_open(const char *on, const char *hosts, size_t slots, struct tw_engine **out,
                   struct twin_error *err);
void tw_engine_close(struct tw_engine *e);

const char *tw_engine_name(const struct tw_engine *e); /* "slurm", "cmd" */
/* What nodes there are. *count is 0 where the engine cannot say. Valid until the next call. */
const struct tw_node *tw_engine_nodes(const struct tw_engine *e, size_t *count);
/* The node of this name; NULL: none is known. */
struct tw_node *tw_engine_node(struct tw_engine *e, const char *name);

/* Looks at the nodes anew. Called by tw_engine_open. */
int tw_engine_probe(struct tw_engine *e, struct twin_error *err);
/* Can there be a run in this place at all? TWIN_EINVAL: it would wait for ever, or be anywhere. */
int tw_engine_knows_place(const struct tw_engine *e, const struct tw_place *place,
                          struct twin_error *err);
/* Can each run be put on a node of our choice (TW_PLACE_PIN)? 0, or TWIN_EUNSUPPORTED with why not:
 * the engine is not told where, or its options ask for several nodes or choose them. */
int tw_engine_can_pin(const struct tw_engine *e, struct twin_error *err);
/* Does the engine, by its own word, take runs with these options for this node? */
bool tw_engine_takes_node(const struct tw_engine *e, const char *node);
/* How many tickets with this place the engine takes now. */
size_t tw_engine_room(const struct tw_engine *e, const struct tw_place *place);
/*
 * Hands over n tickets with equal places, n at most what tw_engine_room says. Their folders are
 * <batch>/0, <batch>/1, ... in this order.
 */
int tw_engine_submit(struct tw_engine *e, const char *batch, struct tw_ticket *const *ticket,
                     size_t n, struct twin_error *err);
/* What the engine says of them now; fills state, node and why. */
void tw_engine_poll(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n);
/* Takes them back, queued or running. */
void tw_engine_cancel(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n);
/* The ticket is done with, however it ended: its place is free. */
void tw_engine_release(struct tw_engine *e, struct tw_ticket *t);
/* Seconds between two polls, and how long a ticket that is gone may lack its result. */
double tw_engine_poll_s(const struct tw_engine *e);
double tw_engine_grace_s(const struct tw_engine *e);

/* What the engine of this name calls the node on which this process runs: the scheduler's word for
 * it; of a template TWINRUN_NODE, which the ticket's script sets unless the template does; else the
 * host's name. */
void tw_engine_here(const char *engine, char out[256]);
/* Does this engine run things in containers: is a process' host name its container's, and the
 * environment that it was started with the image's and the manifest's? */
bool tw_engine_has_containers(const char *engine);

#endif
