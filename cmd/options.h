/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_OPTIONS_H
#define TW_CMD_OPTIONS_H
/*
 * One table per command. From it come parsing, --help, the man page and the completion scripts, so
 * that they cannot disagree (help.c prints, tests/cli/cases/options-agree.sh checks).
 */
#include "base.h" /* struct tw_strings, struct tw_steps_window, TW_NOT_GIVEN */

#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <twin/error.h>

/* Exit codes of the commands that give a verdict. */
enum {
    TW_EXIT_SAME = 0,
    TW_EXIT_DIFFER = 1,
    TW_EXIT_TROUBLE = 2,
    TW_EXIT_INCONCLUSIVE = 3,
    TW_EXIT_INTERRUPTED = 130
};

/* What an option's argument is, and the type of the field it is stored in. */
enum tw_option_type {
    TW_OPT_FLAG,    /* bool; no argument */
    TW_OPT_STRING,  /* const char * */
    TW_OPT_FILE,    /* const char *; completed as a path */
    TW_OPT_DIR,     /* const char *; completed as a folder */
    TW_OPT_COUNT,   /* uint64_t in min..max */
    TW_OPT_SECONDS, /* uint64_t; 90, 90s, 10m, 2h */
    TW_OPT_DAYS,    /* double >= 0, in days */
    TW_OPT_BYTES,   /* uint64_t; 65536, 500M, 4G (powers of 1024) */
    TW_OPT_LIST,    /* struct tw_strings; may be repeated */
    TW_OPT_LEVEL,   /* enum twin_level */
    TW_OPT_WINDOW   /* struct tw_steps_window; first:last */
};

struct tw_option {
    const char *name; /* long name, without dashes; NULL ends the table */
    char short_name;  /* 0 = none */
    enum tw_option_type type;
    const char *argument; /* its name in the help; NULL for flags */
    const char *initial;  /* default, as text for the same parser; NULL = none */
    const char *group;    /* heading in help and man page */
    const char *help;
    size_t offset;     /* of the field in the command's argument struct */
    uint64_t min, max; /* counts; max 0 = no limit but the type's */
};

enum tw_operand_kind {
    TW_OPERANDS_NONE,
    TW_OPERANDS_FILES,
    TW_OPERANDS_RUNS,
    TW_OPERANDS_JOB,
    TW_OPERANDS_RUNS_OR_JOB
};

struct tw_operands {
    char **items; /* NULL-terminated; point into argv */
    size_t count;
    bool is_job; /* came after "--" */
};

/* One line of a command's exit status or examples section. */
struct tw_pair {
    const char *left, *right;
};

struct tw_command {
    const char *name, *summary;
    const char *const *synopsis; /* usage lines behind "twinrun NAME "; NULL-terminated */
    const char *description;     /* paragraphs, separated by an empty line */
    const struct tw_option *options;
    enum tw_operand_kind operands;
    size_t operands_min, operands_max; /* number of runs */
    const struct tw_pair *exits;       /* ended by left == NULL */
    const struct tw_pair *examples;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
};

#define COMMAND(group, name) extern const struct tw_command tw_command_##name;
#include "commands.h"
#undef COMMAND

/* What a user wants of a command; in the order of the help. */
enum tw_command_group {
    TW_GROUP_FIND,
    TW_GROUP_FIX,
    TW_GROUP_PROVE,
    TW_GROUP_LEARN,
    TW_GROUP_KEEP,
    TW_GROUPS /* their number */
};
extern const char *const tw_command_group_titles[TW_GROUPS];

/* The command in row i of commands.h; NULL behind the last. */
const struct tw_command *tw_command_at(size_t i);
/* The group of row i, which must be there. */
enum tw_command_group tw_command_group_at(size_t i);
/* The command of this name; NULL where there is none. */
const struct tw_command *tw_command_find(const char *name);

/*
 * Fills *args (zeroed or preset by the caller) from defaults and argv. Returns -1 when the command
 * should go on, else the exit code to leave with: --help was printed, or a complaint was (what was
 * expected, found, what to try). List fields are allocated once and belong to the process.
 */
int tw_options_parse(const struct tw_command *c, int argc, char **argv, void *args,
                     struct tw_operands *rest);

/* "10%", "0.1": a share from 0 to 1; -1: it is none. */
double tw_share_of(const char *text);

/* The option every command has besides its table. */
extern const struct tw_option tw_option_help;

/* help.c */
void tw_help_main(FILE *out);
void tw_help_command(FILE *out, const struct tw_command *c);
void tw_man_main(FILE *out);
void tw_man_command(FILE *out, const struct tw_command *c);
void tw_complete_bash(FILE *out);
void tw_complete_zsh(FILE *out);
void tw_complete_fish(FILE *out);

#endif
