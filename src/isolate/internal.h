/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_INTERNAL_H
#define TW_ISOLATE_INTERNAL_H
/*
 * Inside of the isolate room: factors and worlds.
 *
 *   factor_rows.c  the table of factors: one row each
 *   factors.c      what of it is to be had here
 *   factor_file.c  the user's own factors, from TOML
 *   world.c        a list of settings, parsed
 *   isa.c          the factor isa: instruction sets
 *   plan.c         what a world means for a launch: environment, agents, launcher, arguments
 *   effects.c      whether each setting took effect, from what the processes of a run said
 *   watch.c        factors that natural runs have not met, or met with one value
 */
#include "base.h"

#include "src/isolate/isolate.h"

/* Who applies a factor. Each channel has its own way into the job (plan.c), and its own way to see
 * whether that worked (effects.c). */
enum tw_channel {
    TW_BY_NOBODY,      /* cannot be set: the row says why */
    TW_BY_ENVIRONMENT, /* variables (tw_factor_environment) */
    TW_BY_LIBC,        /* TWINRUN_FACTORS, under the factor's id */
    TW_BY_PYTHON,      /* TWINRUN_PINS, under the factor's id */
    TW_BY_LAYOUT,      /* launcher: no_aslr */
    TW_BY_PROCESSOR,   /* launcher: on_cpu */
    TW_BY_RECORDING,   /* files that a recorded run gives (search_order.c) */
    TW_BY_ENGINE,      /* where an engine makes the run (search_node.c) */
    TW_BY_EDITS        /* factor file */
};

/* What libtwinrun_hot.so, the library of hot functions, means to a factor of the libc agent. */
enum tw_hot {
    TW_HOT_UNUSED,
    /* the agent alone applies it at some places only */
    TW_HOT_HELPS,
    /* the agent alone cannot apply it at all */
    TW_HOT_NEEDED
};

/* What the processes of one run said of the sources of variation that they met (watch.c). */
struct tw_met;

/* One factor: a row of factor_rows.c. A column that is not named in a row is false, 0, NULL or
 * empty. */
struct tw_spec {
    struct twin_factor factor;
    enum tw_channel channel;
    bool python_too; /* the Python agent applies it as well, beside the environment */
    enum tw_hot hot;
    bool gpu_only; /* acts in jobs on a GPU alone */

    /* A pin that takes a number: 0 (the default) to max; initial is what 0 stands for. */
    bool valued;
    uint64_t max, initial;
    /* A pin that takes a word: false when it is none. expected: for the message. */
    bool (*read_value)(const char *text, uint64_t *value);
    const char *expected;

    /* Variables, "NAME=value": those of each pin; those that hold a number which the setting gives;
     * others. */
    const char *pinned_by[5];
    const char *number_in[6]; /* NULL-terminated */
    /* the Python agent is told this number, too */
    uint64_t (*number)(const struct twin_setting *s);
    int (*variables)(const struct twin_setting *s, char ***list, size_t *count,
                     struct twin_error *err);
    bool only_python_reads; /* no other program asks for its variable */
    /* Changes what is said of it to what this machine has. */
    void (*adapt)(struct twin_factor *f);

    /* When two natural runs had it in common: where neither met one of these, or where this says
     * so. */
    const char *through[5]; /* NULL-terminated */
    bool (*met_alike)(const struct tw_met *a, const struct tw_met *b);
};
extern const struct tw_spec tw_specs[];
extern const size_t tw_spec_count;

uint64_t tw_salt_number(const struct twin_setting *s);
uint64_t tw_threads_number(const struct twin_setting *s);
uint64_t tw_channels_number(const struct twin_setting *s);
uint64_t tw_onednn_number(const struct twin_setting *s);
bool tw_random_alike(const struct tw_met *a, const struct tw_met *b);
bool tw_torch_alike(const struct tw_met *a, const struct tw_met *b);
bool tw_entropy_alike(const struct tw_met *a, const struct tw_met *b);
bool tw_clock_alike(const struct tw_met *a, const struct tw_met *b);
bool tw_orders_alike(const struct tw_met *a, const struct tw_met *b);

/* The row of a built-in factor; NULL for one of a file. */
const struct tw_spec *tw_spec_of(const struct twin_factor *f);
enum tw_channel tw_factor_channel(const struct twin_factor *f);

/* What a factor of a file changes: variables, or one argument. */
struct tw_factor_edits {
    char **env, **vary_env; /* "NAME=value", NULL-terminated; NULL when none */
    char *from, *to;        /* the first argument equal to `from` becomes `to` */
    char *vary_from, *vary_to;
    char *strings[8]; /* owns the factor's texts */
    size_t string_count;
};
int tw_factor_file_load(const char *path, struct twin_factors *out, struct twin_error *err);
void tw_factor_edits_free(struct tw_factor_edits *e);
void tw_list_free(char **list); /* Frees a NULL-terminated list and its texts; NULL is allowed. */

/* Growing list of strings, NULL-terminated. Takes text over, also on failure; NULL text is out of
 * memory. */
int tw_list_add(char ***list, size_t *count, char *text, struct twin_error *err);

/* The variables that a setting means, added to the list; none for other channels. */
int tw_factor_environment(const struct twin_setting *s, char ***list, size_t *count,
                          struct twin_error *err);
/* The processor that an affinity setting means: the one asked for, else the first that we may run
 * on. */
int tw_factor_processor(const struct twin_setting *s);

/* Instruction sets (isa.c), narrow to wide. */
enum tw_isa { TW_ISA_DEFAULT, TW_ISA_AVX2, TW_ISA_AVX512 };
enum tw_isa tw_isa_widest(void);
bool tw_isa_value(const char *text, uint64_t *value);
int tw_isa_variables(const struct twin_setting *s, char ***list, size_t *count,
                     struct twin_error *err);
void tw_isa_adapt(struct twin_factor *f);
#endif
