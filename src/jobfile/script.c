/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A script for sbatch held against the rules: its directives, and the words of its commands.
 *
 * The script is not run, and a shell is not understood: what a word could become is not known, and
 * is said to be so. Variables count where a word of a command sets them (export NAME=VALUE,
 * --env NAME=VALUE).
 */
#include "inside.h"
#include "pods.h"

#include <string.h>

/* One option of a directive, or one word of a command. Texts are the script's own. */
struct option {
    char *name, *value;
    size_t line;
};
struct word {
    char *text;
    size_t line;
};

struct script {
    struct option *option;
    size_t options, option_room;
    struct word *word;
    size_t words, word_room;
    struct tw_jobfile_findings *out;
    const struct tw_jobfile_asked *asked;
    const char *where;
    bool ignored; /* such a directive was said */
    bool over;    /* more than OPTIONS or WORDS */
    bool failed;  /* no memory */
};

enum { OPTIONS = 10000, WORDS = 400000 };

static void add_option(struct script *s, const char *name, size_t n, const char *value, size_t line)
{
    if (s->options == s->option_room) {
        const size_t room = s->option_room ? 2 * s->option_room : 32;
        s->over |= room > OPTIONS * 2;
        struct option *grown = s->over ? NULL : tw_reallocarray(s->option, room, sizeof *grown);
        if (!grown) {
            s->failed |= !s->over;
            return;
        }
        s->option = grown;
        s->option_room = room;
    }
    struct option o = {tw_strndup(name, n), tw_strdup(value), line};
    s->failed |= !o.name || !o.value;
    s->option[s->options++] = o;
}

static void add_word(struct script *s, const char *text, size_t n, size_t line)
{
    if (s->words == s->word_room) {
        const size_t room = s->word_room ? 2 * s->word_room : 64;
        s->over |= room > WORDS * 2;
        struct word *grown = s->over ? NULL : tw_reallocarray(s->word, room, sizeof *grown);
        if (!grown) {
            s->failed |= !s->over;
            return;
        }
        s->word = grown;
        s->word_room = room;
    }
    char *copy = tw_strndup(text, n);
    s->failed |= !copy;
    s->word[s->words++] = (struct word){copy, line};
}

/* The next word from *p, without its quotes, into out (room for the whole line). False: none. */
static bool next_word(const char **p, char *out)
{
    const char *q = *p + strspn(*p, " \t");
    char quote = '\0';
    size_t n = 0;
    if (!*q || *q == '#')
        return false;
    for (; *q && (quote || !strchr(" \t", *q)); q++) {
        if (*q == quote)
            quote = '\0';
        else if (!quote && (*q == '"' || *q == '\''))
            quote = *q;
        else
            out[n++] = *q;
    }
    out[n] = '\0';
    *p = q;
    return true;
}

static const char *long_name(char letter)
{
    static const struct {
        char letter;
        const char *name;
    } rows[] = {{'C', "constraint"}, {'w', "nodelist"}, {'p', "partition"},    {'N', "nodes"},
                {'n', "ntasks"},     {'G', "gpus"},     {'c', "cpus-per-task"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].letter == letter)
            return rows[i].name;
    return "";
}

/* The options of one directive: --name=value, --name value, -Nvalue, -N value. room: as long as the
 * line. */
static void take_directive(struct script *s, const char *rest, char *room, size_t line)
{
    while (next_word(&rest, room)) {
        const bool is_long = tw_starts(room, "--");
        const bool is_short = !is_long && room[0] == '-';
        const char *name = long_name(is_short ? room[1] : '\0');
        if (is_long)
            name = room + 2;
        const size_t n = strcspn(name, "=");
        const char *value = "";
        if (is_long && name[n] == '=')
            value = name + n + 1;
        else if (is_short && room[1])
            value = room + 2 + (room[2] == '=');
        if (!*name)
            continue;
        char *kept = tw_strdup(value), *known = tw_strndup(name, n);
        const char *ahead = rest + strspn(rest, " \t");
        if (kept && !*kept && *ahead && *ahead != '-' && *ahead != '#' && next_word(&rest, room)) {
            tw_free(kept);
            kept = tw_strdup(room);
        }
        if (known && kept)
            add_option(s, known, strlen(known), kept, line);
        else
            s->failed = true;
        tw_free(kept);
        tw_free(known);
    }
}

static void take_line(struct script *s, char *line, char *room, size_t number, bool *header)
{
    const char *p = line + strspn(line, " \t\r");
    if (!*p)
        return;
    if (tw_starts(line, "#SBATCH") && strchr(" \t", line[7])) {
        const struct jf_place at = {s->out, number, s->where};
        if (*header)
            take_directive(s, line + 7, room, number);
        else
            jf_say(&at, TW_RULE_DIRECTIVES, TW_RULE_BROKEN,
                   tw_printf("sbatch does not read this directive: it stands behind a command"),
                   "move it above the first command");
        s->ignored |= !*header;
        return;
    }
    if (*p == '#')
        return;
    *header = false;
    while (next_word(&p, room))
        add_word(s, room, strlen(room), number);
}

/* Splits the text, which is changed: lines that end in a backslash go on in the next. */
static void read_lines(struct script *s, char *text, char *room)
{
    bool header = true;
    size_t number = 1;
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        size_t lines = 1;
        while (end && end > line && end[-1] == '\\') {
            end[-1] = ' ';
            *end = ' ';
            end = strchr(end + 1, '\n');
            lines++;
        }
        if (end)
            *end = '\0';
        if (number > 1 || !tw_starts(line, "#!"))
            take_line(s, line, room, number, &header);
        number += lines;
        line = end ? end + 1 : NULL;
    }
}

/* ---- questions */

/* The last one counts, as it does for sbatch. NULL: it is not there. */
static const struct option *option_of(const struct script *s, const char *name)
{
    for (size_t i = s->options; i-- > 0;)
        if (strcmp(s->option[i].name, name) == 0)
            return &s->option[i];
    return NULL;
}

static bool is_name(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool letter = (text[i] >= 'A' && text[i] <= 'Z') || text[i] == '_' ||
                            (text[i] >= 'a' && text[i] <= 'z');
        if (!letter && (i == 0 || text[i] < '0' || text[i] > '9'))
            return false;
    }
    return n > 0;
}

/* The value that a word gives to a variable for which is() holds; NULL: no word does. */
static const char *variable_of(const struct script *s, bool (*is)(const char *name, size_t n),
                               size_t *line)
{
    for (size_t i = 0; i < s->words; i++) {
        const char *text = s->word[i].text;
        const size_t n = strcspn(text, "=");
        if (text[n] == '=' && is_name(text, n) && is(text, n)) {
            *line = s->word[i].line;
            return text + n + 1;
        }
    }
    return NULL;
}

static bool ends_in(const char *name, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n >= m && strncmp(name + n - m, end, m) == 0;
}

static bool is_hash_seed(const char *name, size_t n)
{
    return n == 14 && ends_in(name, n, "PYTHONHASHSEED");
}

static bool is_seed(const char *name, size_t n)
{
    return ends_in(name, n, "SEED") && !is_hash_seed(name, n);
}

static bool is_run_id(const char *name, size_t n)
{
    return ends_in(name, n, "RUN_ID") || ends_in(name, n, "RUN_NAME");
}

static bool is_threads(const char *name, size_t n)
{
    return n == 15 && ends_in(name, n, "OMP_NUM_THREADS");
}

static struct jf_place at_line(const struct script *s, size_t line)
{
    return (struct jf_place){s->out, line, s->where};
}

/* ---- rules */

static void judge_image(const struct script *s)
{
    static const char fix[] = "srun apptainer exec docker://REPOSITORY@sha256:DIGEST COMMAND, or "
                              "--container-image=REPOSITORY@sha256:DIGEST (pyxis)";
    const struct option *o = option_of(s, "container-image");
    struct jf_images seen = {.asked = s->asked};
    size_t judged = 0;
    for (size_t i = 0; i < s->words + (o != NULL); i++) {
        const char *text = i < s->words ? s->word[i].text : o->value;
        const struct jf_place at = at_line(s, i < s->words ? s->word[i].line : o->line);
        const char *image = i < s->words ? NULL : text;
        if (tw_starts(text, "--container-image="))
            image = strchr(text, '=') + 1;
        else if (strcmp(text, "--container-image") == 0 && i + 1 < s->words)
            image = s->word[i + 1].text;
        else if (tw_starts(text, "docker://") || tw_starts(text, "oras://"))
            image = text;
        const bool is_file = tw_ends(image ? image : text, ".sif") ||
                             tw_ends(image ? image : text, ".sqsh");
        if (!image && !is_file)
            continue;
        judged++;
        jf_see_image(&seen, image ? image : text, at.line);
        if (is_file || jf_is_template(image))
            jf_say(&at, TW_RULE_IMAGE, TW_RULE_NOT_KNOWN,
                   tw_printf("what is in %s is not in the script", text), fix);
        else if (jf_has_digest(image))
            jf_holds(&at, TW_RULE_IMAGE, "%s", image);
        else
            jf_say(&at, TW_RULE_IMAGE, TW_RULE_BROKEN,
                   tw_printf("expected an image with @sha256:DIGEST, found %s", image), fix);
    }
    const struct jf_place top = at_line(s, 1);
    jf_judge_package(&top, &seen, false);
    if (judged == 0)
        jf_say(&top, TW_RULE_IMAGE, TW_RULE_BROKEN,
               tw_printf("no container image: the software is what the node has"), fix);
}

/* Does an option ask for GPUs? *type: the type that it names ("a100" of gpu:a100:4), n bytes. */
static const struct option *gpus_of(const struct script *s, const char **type, size_t *n)
{
    static const char *const names[] = {"gres", "gpus", "gpus-per-node", "gpus-per-task",
                                        "gpus-per-socket"};
    const struct option *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct option *o = option_of(s, names[i]);
        const char *value = o ? o->value : "";
        if (i == 0 && !tw_starts(value, "gpu"))
            continue;
        value += i == 0 ? strcspn(value, ":") : 0;
        value += i == 0 && *value == ':';
        if (!o || strcmp(value, "0") == 0)
            continue;
        found = o;
        if (*value && (*value < '0' || *value > '9')) {
            *type = value;
            *n = strcspn(value, ":,");
        }
    }
    return found;
}

static bool is_listed(const char *const *list, const char *text, size_t n)
{
    for (; list && *list; list++)
        if (strlen(*list) == n && strncmp(*list, text, n) == 0)
            return true;
    return false;
}

static void judge_constraint(const struct script *s, const struct option *o)
{
    static const char fix[] = "#SBATCH --constraint=FEATURE of nodes of one type, with lint "
                              "--pool-label FEATURE";
    const struct jf_place at = at_line(s, o->line);
    for (const char *p = o->value; *p;) {
        const size_t n = strcspn(p, "&");
        if (is_listed(s->asked->pool_labels, p, n) && !strchr(o->value, '|')) {
            jf_holds(&at, TW_RULE_POOL, "--constraint=%s", o->value);
            return;
        }
        p += n + (p[n] == '&');
    }
    if (strchr(o->value, '|'))
        jf_say(&at, TW_RULE_POOL, TW_RULE_BROKEN,
               tw_printf("--constraint=%s: its repeat may be on the other type", o->value), fix);
    else
        jf_say(&at, TW_RULE_POOL, TW_RULE_NOT_KNOWN,
               tw_printf("whether nodes with %s are of one type is not in the script", o->value),
               fix);
}

static void judge_pool(const struct script *s)
{
    const char *type = NULL;
    size_t n = 0;
    const struct option *nodes = option_of(s, "nodelist"), *gpus = gpus_of(s, &type, &n);
    const struct option *features = option_of(s, "constraint");
    const struct jf_place top = at_line(s, 1);
    if (nodes) {
        const struct jf_place at = at_line(s, nodes->line);
        jf_holds(&at, TW_RULE_POOL, "--nodelist=%s", nodes->value);
    } else if (gpus && type && n > 0) {
        const struct jf_place at = at_line(s, gpus->line);
        jf_holds(&at, TW_RULE_POOL, "GPUs of type %.*s", (int)n, type);
    } else if (features) {
        judge_constraint(s, features);
    } else {
        jf_say(&top, TW_RULE_POOL, TW_RULE_BROKEN,
               tw_printf("neither --constraint nor --nodelist: any node can take it"),
               "#SBATCH --constraint=FEATURE of nodes of one type");
    }
}

static void judge_driver(const struct script *s)
{
    static const char fix[] =
        "driver=$(srun nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u); "
        "[ \"$driver\" = 550.54.15 ] || exit 64";
    const char *type = NULL;
    size_t n = 0, asks = 0;
    const struct option *gpus = gpus_of(s, &type, &n), *features = option_of(s, "constraint");
    if (!gpus)
        return;
    const struct jf_place at = at_line(s, gpus->line);
    if (features && strstr(features->value, "driver") && !strchr(features->value, '|')) {
        jf_holds(&at, TW_RULE_DRIVER, "--constraint=%s", features->value);
        return;
    }
    for (size_t i = 0; i < s->words; i++) {
        if (strstr(s->word[i].text, "driver_version"))
            asks = s->word[i].line;
        const bool near = asks && s->word[i].line <= asks + 4;
        if (near && strcmp(s->word[i].text, "exit") == 0) {
            jf_holds(&at, TW_RULE_DRIVER, "line %zu asks for the driver, line %zu ends the job",
                     asks, s->word[i].line);
            return;
        }
    }
    if (asks)
        jf_say(&at, TW_RULE_DRIVER, TW_RULE_NOT_KNOWN,
               tw_printf("line %zu asks for the driver; whether another one ends the job is not "
                         "seen",
                         asks),
               fix);
    else
        jf_say(&at, TW_RULE_DRIVER, TW_RULE_BROKEN,
               tw_printf("it asks for GPUs, and nodes with any driver can take it"), fix);
}

/* "/a:/b:ro", in a list with commas or alone; "type=bind,...,ro" */
static bool is_read_only(const char *text)
{
    for (const char *p = strstr(text, ":ro"); p; p = strstr(p + 1, ":ro"))
        if (p[3] == '\0' || p[3] == ',')
            return p > text;
    return strstr(text, "type=bind") && (tw_ends(text, ",ro") || strstr(text, ",ro,"));
}

static void judge_data(const struct script *s)
{
    const struct option *o = option_of(s, "container-mounts");
    const struct jf_place top = at_line(s, 1);
    for (size_t i = 0; i < s->words + (o != NULL); i++) {
        const char *text = i < s->words ? s->word[i].text : o->value;
        const struct jf_place at = at_line(s, i < s->words ? s->word[i].line : o->line);
        if (!is_read_only(text))
            continue;
        jf_holds(&at, TW_RULE_SNAPSHOT, "%s", text);
        return;
    }
    jf_say(&top, TW_RULE_SNAPSHOT, TW_RULE_BROKEN,
           tw_printf("no folder is mounted read-only: the job can change its data"),
           "apptainer exec --bind /data/snapshot:/data:ro, or "
           "--container-mounts=/data/snapshot:/data:ro (pyxis)");
}

static void judge_seed(const struct script *s)
{
    static const char fix[] = "export PYTHONHASHSEED=0 SEED=7, and a program that reads SEED; or "
                              "--seed 7";
    size_t line = 1;
    const char *hash = variable_of(s, is_hash_seed, &line), *seed = variable_of(s, is_seed, &line);
    struct tw_buf words = {0};
    tw_buf_puts(&words, "");
    for (size_t i = 0; i < s->words; i++)
        tw_buf_printf(&words, "%s\n", s->word[i].text);
    const bool in_words = !words.failed && jf_names_seed(words.data);
    const bool given = in_words || (seed && jf_is_number(seed));
    const struct jf_place at = at_line(s, line);
    s->out->failed |= words.failed != 0;
    if (given && hash && jf_is_number(hash))
        jf_holds(&at, TW_RULE_SEED, "PYTHONHASHSEED=%s, and a seed", hash);
    else if ((seed && !given && jf_is_template(seed)) || (hash && jf_is_template(hash)))
        jf_say(&at, TW_RULE_SEED, TW_RULE_NOT_KNOWN,
               tw_printf("the seed is what another variable holds"), fix);
    else
        jf_say(&at, TW_RULE_SEED, TW_RULE_BROKEN,
               tw_printf(given ? "PYTHONHASHSEED is not set to a number: the order of Python's "
                                 "sets is drawn anew in each process"
                               : "no seed: neither a variable that ends in SEED nor one in the "
                                 "command"),
               fix);
    tw_buf_free(&words);
}

static void judge_run_id(const struct script *s)
{
    size_t line = 1;
    const char *id = variable_of(s, is_run_id, &line);
    const struct jf_place at = at_line(s, line);
    if (id && *id)
        jf_holds(&at, TW_RULE_RUN_ID, "%s", id);
    else
        jf_say(&at, TW_RULE_RUN_ID, TW_RULE_BROKEN, tw_printf("no variable RUN_ID is set"),
               "export RUN_ID=NAME");
}

static void judge_retry(const struct script *s)
{
    const struct option *no = option_of(s, "no-requeue"), *yes = option_of(s, "requeue");
    const struct option *said = no ? no : yes;
    const struct jf_place at = at_line(s, said ? said->line : 1);
    if (said)
        jf_holds(&at, TW_RULE_RETRY, "--%srequeue", no ? "no-" : "");
    else
        jf_say(&at, TW_RULE_RETRY, TW_RULE_BROKEN,
               tw_printf("neither --requeue nor --no-requeue: JobRequeue of the cluster decides"),
               "#SBATCH --no-requeue");
}

static void judge_threads(const struct script *s)
{
    static const char fix[] = "export OMP_NUM_THREADS=8";
    size_t line = 1;
    const char *n = variable_of(s, is_threads, &line);
    const struct option *cpus = option_of(s, "cpus-per-task");
    const struct jf_place at = at_line(s, line);
    if (n && jf_is_number(n) && strcmp(n, "0") != 0)
        jf_holds(&at, TW_RULE_THREADS, "OMP_NUM_THREADS=%s", n);
    else if (n && strstr(n, "SLURM_CPUS_PER_TASK") && cpus && jf_is_number(cpus->value))
        jf_holds(&at, TW_RULE_THREADS, "OMP_NUM_THREADS of --cpus-per-task=%s", cpus->value);
    else if (n && jf_is_template(n))
        jf_say(&at, TW_RULE_THREADS, TW_RULE_NOT_KNOWN,
               tw_printf("OMP_NUM_THREADS is what another variable holds"), fix);
    else
        jf_say(&at, TW_RULE_THREADS, TW_RULE_BROKEN, tw_printf("OMP_NUM_THREADS is not set"), fix);
}

static void judge_directives(const struct script *s)
{
    const struct option *o = option_of(s, "export");
    const struct jf_place at = at_line(s, o ? o->line : 1);
    const bool takes_all = !o || strstr(o->value, "ALL");
    if (takes_all)
        jf_say(&at, TW_RULE_DIRECTIVES, TW_RULE_BROKEN,
               tw_printf("every variable of the shell that submits it goes into the job"),
               "#SBATCH --export=NIL, the variables of the job in the script, and srun "
               "--export=ALL, which passes those on");
    else if (!s->ignored)
        jf_holds(&at, TW_RULE_DIRECTIVES, "--export=%s", o->value);
}

static void free_script(struct script *s)
{
    for (size_t i = 0; i < s->options; i++) {
        tw_free(s->option[i].name);
        tw_free(s->option[i].value);
    }
    for (size_t i = 0; i < s->words; i++)
        tw_free(s->word[i].text);
    tw_free(s->option);
    tw_free(s->word);
}

int jf_lint_script(const char *name, const char *text, size_t bytes,
                   const struct tw_jobfile_asked *asked, struct tw_jobfile_findings *out,
                   struct twin_error *err)
{
    struct script s = {.out = out, .asked = asked, .where = "script"};
    if (memchr(text, '\0', bytes))
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected a script, found a NUL character",
                              name);
    char *copy = tw_strndup(text, bytes), *room = tw_malloc(bytes + 1);
    if (copy && room)
        read_lines(&s, copy, room);
    s.failed |= !copy || !room;
    if (!s.failed && !s.over) {
        out->jobs = 1;
        judge_image(&s);
        judge_pool(&s);
        judge_driver(&s);
        judge_data(&s);
        judge_seed(&s);
        judge_run_id(&s);
        judge_retry(&s);
        judge_threads(&s);
        judge_directives(&s);
    }
    free_script(&s);
    tw_free(copy);
    tw_free(room);
    if (s.over)
        return twin_error_set(err, TWIN_ELIMIT,
                              "%s: expected a script of at most 400,000 words and 10,000 options",
                              name);
    return s.failed ? tw_no_memory(err, "for the words of %s", name) : 0;
}
