/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_INSIDE_H
#define TW_ENGINE_INSIDE_H
/* What the files of the room share: an engine, and what each kind of it can do. */
#include "engine.h"

struct tw_buf;

struct tw_engine_kind {
    const char *name;
    double poll_s, grace_s;
    int (*probe)(struct tw_engine *e, struct twin_error *err);
    /* NULL: the engine complains itself */
    int (*knows_place)(const struct tw_engine *e, const struct tw_place *place,
                       struct twin_error *err);
    int (*can_pin)(const struct tw_engine *e, struct twin_error *err);
    bool (*takes_node)(const struct tw_engine *e, const char *node); /* NULL: any */
    size_t (*room)(const struct tw_engine *e, const struct tw_place *place);
    int (*submit)(struct tw_engine *e, const char *batch, struct tw_ticket *const *ticket, size_t n,
                  struct twin_error *err);
    void (*poll)(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n);
    void (*cancel)(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n);
    void (*release)(struct tw_engine *e, struct tw_ticket *t);
    void (*close)(struct tw_engine *e); /* NULL: it has nothing of its own */
};
extern const struct tw_engine_kind tw_engine_slurm, tw_engine_command, tw_engine_k8s, tw_engine_ray;

struct tw_engine {
    const struct tw_engine_kind *kind;
    char *words; /* behind the colon of --on; "" where there is none */
    struct tw_node *node;
    size_t node_count;
    size_t slots; /* 0: no limit of ours */
    size_t out;   /* tickets that were submitted and not released */
    void *own;    /* what this kind keeps, until its close */
};

/* Adds a node; takes neither text. */
int tw_engine_add_node(struct tw_engine *e, const char *name, const char *type, bool up,
                       struct twin_error *err);
void tw_engine_forget_nodes(struct tw_engine *e);
/* The absolute path of this program, quoted for a shell; malloc'ed. */
char *tw_engine_program(struct twin_error *err);
/* Adds words of the user's that are separated by blanks, each quoted and behind a blank. */
void tw_engine_add_words(struct tw_buf *b, const char *words);
/* The probe of Ray, which is a template otherwise. */
int tw_ray_probe(struct tw_engine *e, struct twin_error *err);
/* Writes a script that may be executed. */
int tw_engine_write_script(const char *path, const char *text, struct twin_error *err);

#endif
