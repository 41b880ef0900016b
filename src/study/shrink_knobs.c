/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that shrink may make smaller, where they stand, and the command with other ones in
 * their places. */
#include "shrink_runs.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* ---- where a number stands */

/* Finds `name NUMBER` or `name=NUMBER` in argv[from..to-1]. 0: no such word; -1: no number behind
 * it. */
static int find_number(char *const *argv, size_t from, size_t to, const char *name, size_t *word,
                       size_t *skip, uint64_t *value)
{
    size_t n = strlen(name);
    for (size_t i = from; i < to && argv[i]; i++) {
        bool alone = strcmp(argv[i], name) == 0;
        if (!alone && !(strncmp(argv[i], name, n) == 0 && argv[i][n] == '='))
            continue;
        *word = alone ? i + 1 : i;
        *skip = alone ? 0 : n + 1;
        return argv[*word] && tw_parse_u64(argv[*word] + *skip, UINT32_MAX, value) == 0 ? 1 : -1;
    }
    return 0;
}

/* How many words the command has. */
static size_t count_words(char *const *argv)
{
    size_t n = 0;
    while (argv[n])
        n++;
    return n;
}

/* A knob that stands at argv[word] + skip. */
static int add_knob(struct tw_shrink *c, enum tw_knob_kind kind, const char *name, size_t word,
                    size_t skip, uint64_t from, uint64_t to, struct twin_error *err)
{
    if (c->knob_count == TW_KNOBS_MAX)
        return twin_error_set(err, TWIN_EINVAL, "expected at most %d knobs", TW_KNOBS_MAX);
    struct tw_knob *k = &c->knob[c->knob_count];
    *k = (struct tw_knob){
        .kind = kind, .name = tw_strdup(name), .word = word, .skip = skip, .from = from, .to = to};
    if (!k->name)
        return tw_no_memory(err, "for a knob of a configuration");
    c->whole.value[c->knob_count++] = from;
    return 0;
}

/* ---- ranks */

/* Where a launcher's own options end: at a word that is neither an option nor could be the value of
 * one. */
static size_t end_of_options(char *const *argv, size_t from)
{
    size_t i = from;
    while (argv[i] && (argv[i][0] == '-' || (i > from && argv[i - 1][0] == '-')))
        i++;
    return i;
}

/* The number of processes of a launcher that we know, down to one. */
static int add_ranks(struct tw_shrink *c, struct twin_error *err)
{
    static const char *const torch[] = {"--nproc-per-node", "--nproc_per_node", NULL};
    static const char *const mpi[] = {"-np", "--np", "-n", "--n", NULL};
    static const char *const slurm[] = {"-n", "--ntasks", NULL};
    const char *program = tw_base_name(c->argv[0]), *const *names = NULL;
    size_t from = 1, word, skip;
    uint64_t value;
    if (strcmp(program, "torchrun") == 0)
        names = torch;
    else if (strcmp(program, "mpirun") == 0 || strcmp(program, "mpiexec") == 0 ||
             strcmp(program, "orterun") == 0)
        names = mpi;
    else if (strcmp(program, "srun") == 0)
        names = slurm;
    for (size_t i = 1; !names && c->argv[i] && c->argv[i + 1] && tw_starts(program, "python"); i++)
        if (strcmp(c->argv[i], "-m") == 0 &&
            (strcmp(c->argv[i + 1], "torch.distributed.run") == 0 ||
             strcmp(c->argv[i + 1], "torch.distributed.launch") == 0)) {
            names = torch;
            from = i + 2;
        }
    size_t to = names ? end_of_options(c->argv, from) : 0;
    for (; names && *names; names++)
        if (find_number(c->argv, from, to, *names, &word, &skip, &value) == 1)
            return value > 1 ? add_knob(c, TW_KNOB_RANKS, *names, word, skip, value, 1, err) : 0;
    return 0;
}

/* ---- --knob */

/* Takes "NAME=FROM:TO" apart in place. */
static bool parse_knob(char *text, uint64_t *from, uint64_t *to)
{
    char *equals = strrchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
    if (!colon || equals == text)
        return false;
    *equals = *colon = '\0';
    return tw_parse_u64(equals + 1, UINT32_MAX, from) == 0 &&
           tw_parse_u64(colon + 1, UINT32_MAX, to) == 0 && *to < *from;
}

/* A knob that stands in the command as `name NUMBER` or `name=NUMBER`. */
static int add_argument(struct tw_shrink *c, const char *name, uint64_t from, uint64_t to,
                        struct twin_error *err)
{
    size_t word, skip;
    uint64_t value = 0;
    int found = find_number(c->argv, 1, count_words(c->argv), name, &word, &skip, &value);
    if (found == 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "--knob: the command has no word %s; write it there with its number (%s "
            "%llu), or use env:NAME=%llu:%llu",
            name, name, (unsigned long long)from, (unsigned long long)from, (unsigned long long)to);
    if (found < 0 || value != from)
        return twin_error_set(err, TWIN_EINVAL,
                              "--knob: expected %s %llu in the command, found %s %s", name,
                              (unsigned long long)from, name,
                              c->argv[word] ? c->argv[word] + skip : "without a number");
    for (size_t i = 0; i < c->knob_count; i++)
        if (c->knob[i].kind != TW_KNOB_ENV && c->knob[i].word == word && c->knob[i].skip == skip) {
            /* the launcher's number of processes, with a limit of the user's own */
            c->knob[i].to = to;
            return 0;
        }
    return add_knob(c, TW_KNOB_ARGUMENT, name, word, skip, from, to, err);
}

/* One --knob. */
static int add_declared(struct tw_shrink *c, const char *text, struct twin_error *err)
{
    uint64_t from, to;
    char *copy = tw_strdup(text);
    if (!copy)
        return tw_no_memory(err, "for a knob of a configuration");
    int rc;
    bool env = tw_starts(copy, "env:");
    if (!parse_knob(copy, &from, &to) || (env && !copy[4]))
        rc = twin_error_set(
            err, TWIN_EINVAL,
            "--knob: expected --OPTION=FROM:TO or env:NAME=FROM:TO with whole numbers, "
            "TO the smaller one; found \"%s\"",
            text);
    else if (env)
        rc = add_knob(c, TW_KNOB_ENV, copy + 4, 0, 0, from, to, err);
    else
        rc = add_argument(c, copy, from, to, err);
    tw_free(copy);
    return rc;
}

int tw_shrink_knobs(struct tw_shrink *c, struct twin_error *err)
{
    int rc = add_ranks(c, err);
    for (size_t i = 0; i < c->args.knobs.count && rc == 0; i++)
        rc = add_declared(c, c->args.knobs.items[i], err);
    return rc;
}

/* ---- the command */

void tw_shrink_command_free(struct tw_shrink_command *m)
{
    for (size_t i = 0; m->argv && m->argv[i]; i++)
        tw_free(m->argv[i]);
    for (size_t i = 0; m->env && m->env[i]; i++)
        tw_free(m->env[i]);
    tw_free(m->argv);
    tw_free(m->env);
    *m = (struct tw_shrink_command){0};
}

/* Puts one number where it stands: over a word, or behind the variables. False: no memory. */
static bool put_number(const struct tw_shrink *c, const struct tw_knob *k, uint64_t value,
                       struct tw_shrink_command *m)
{
    char *text = k->kind == TW_KNOB_ENV ? tw_printf("%s=%llu", k->name, (unsigned long long)value)
                                        : tw_printf("%.*s%llu", (int)k->skip, c->argv[k->word],
                                                    (unsigned long long)value);
    char **slot = m->env;
    if (k->kind != TW_KNOB_ENV) {
        slot = &m->argv[k->word];
        tw_free(*slot);
    } else {
        while (*slot)
            slot++;
    }
    *slot = text;
    return text != NULL;
}

/* A knob that was not turned leaves the command and the environment as they are. */
int tw_shrink_command(const struct tw_shrink *c, const struct tw_shrink_setting *s,
                      struct tw_shrink_command *out)
{
    size_t n = count_words(c->argv);
    *out = (struct tw_shrink_command){tw_calloc(n + 1, sizeof(char *)),
                                      tw_calloc(TW_KNOBS_MAX + 1, sizeof(char *))};
    bool good = out->argv && out->env;
    for (size_t i = 0; good && i < n; i++)
        good = (out->argv[i] = tw_strdup(c->argv[i])) != NULL;
    for (size_t i = 0; good && i < c->knob_count; i++)
        if (s->value[i] != c->knob[i].from)
            good = put_number(c, &c->knob[i], s->value[i], out);
    if (good)
        return 0;
    tw_shrink_command_free(out);
    return TWIN_ENOMEM;
}

char *tw_shrink_shell(const struct tw_shrink *c, const struct tw_shrink_setting *s)
{
    struct tw_shrink_command m;
    char *text = NULL;
    if (tw_shrink_command(c, s, &m) != 0)
        return NULL;
    char *env = tw_shell_quote(m.env, 0), *argv = tw_shell_quote(m.argv, 0);
    if (env && argv)
        text = *env ? tw_printf("env %s %s", env, argv) : tw_strdup(argv);
    tw_free(env);
    tw_free(argv);
    tw_shrink_command_free(&m);
    return text;
}
