/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration: the command, its folder, the variables that decide about numbers, configuration
 * files. Seeds: what was stated, what was seen.
 *
 * The command is written so that it works in another place: words that name code, data, programs or
 * configuration files become parts (docs/format/package.md) which a replay resolves to its own
 * paths. Values that were redacted when the run was recorded stay away, and are named as missing
 * where they matter.
 */
#include "pack.h"

#include "base.h"
#include "phrase.h"

#include "src/launch/redact.h"
#include "src/provenance/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- words of the command */

/* The part that a path of the command stands for, or NULL: the word stays as it is. */
static json_t *part_for(struct tw_pack *p, const char *path)
{
    json_t *file;
    size_t i;
    if (path[0] != '/') {
        /* Inside the checkout relative paths stay as they are; data beside it are found again under
         * another one. */
        char *real = p->from && *path ? tw_pk_real(p->from, path) : NULL;
        const struct tw_pack_datum *d = real ? tw_pack_datum_of(p, real) : NULL;
        json_t *v = d && !(p->top && tw_pk_below(d->folder, p->top))
                        ? json_pack("{s:s, s:s}", "data", d->name, "path",
                                    tw_pk_below(real, d->folder))
                        : NULL;
        tw_free(real);
        return v;
    }
    /* a program outside of the code is looked up by its name where it runs next */
    json_array_foreach (TW_PK_AT(p->provenance, "programs", "files"), i, file) {
        const char *known = tw_pk_text(file, "path");
        if (known && strcmp(known, path) == 0 &&
            !(p->top && tw_pk_below(tw_pk_real_path(file), p->top)))
            return json_pack("{s:s}", "program", strrchr(path, '/') + 1);
    }
    /* data before code: a set may lie inside of the checkout */
    char *real = tw_pk_real("/", path);
    const struct tw_pack_datum *d = real ? tw_pack_datum_of(p, real) : NULL;
    const char *below = real && p->top ? tw_pk_below(real, p->top) : NULL;
    json_t *v = NULL;
    if (d)
        v = json_pack("{s:s, s:s}", "data", d->name, "path", tw_pk_below(real, d->folder));
    else if (below)
        v = json_pack("{s:s}", "code", below);
    json_array_foreach (json_object_get(p->area[TWIN_AREA_CONFIGURATION], "files"), i, file)
        if (!v && real && strcmp(tw_pk_text(file, "real"), real) == 0)
            v = json_pack("{s:s}", "config", tw_pk_text(file, "file"));
    tw_free(real);
    return v;
}

/* A word is a path, or NAME=PATH: then the text up to the sign and the path are two parts. */
json_t *tw_pack_word(struct tw_pack *p, const char *word)
{
    const char *sign = strchr(word, '=');
    json_t *part = part_for(p, word);
    if (part)
        return json_pack("[o]", part);
    part = sign && sign[1] ? part_for(p, sign + 1) : NULL;
    if (part)
        return json_pack("[s#, o]", word, (int)(sign + 1 - word), part);
    return json_string(word);
}

/* The absolute path that an argument is, or that stands behind its sign: --out=/tmp/x. */
static const char *absolute_path_in(const char *word)
{
    const char *sign = strchr(word, '=');
    if (word[0] == '/')
        return word;
    return sign && sign[1] == '/' ? sign + 1 : NULL;
}

/* The whole command. A file that it names by an absolute path outside of code and data is missing,
 * unless the job made it. */
static void put_argv(struct tw_pack *p, json_t *area)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->run->argc; i++) {
        const char *word = p->run->argv[i];
        json_t *v = tw_pack_word(p, word);
        if (!v)
            tw_pk_missing(&p->failed, area, "argument %zu of the command: it is no text in UTF-8",
                          i);
        else if (twin_redacted(word))
            tw_pk_missing(&p->failed, area,
                          "argument %zu of the command was redacted, since it seems to hold a "
                          "secret; pass secrets in variables",
                          i);
        tw_pk_add(&p->failed, list, v ? v : json_string("?"));
        /* a path that became no part would mean nothing on another machine */
        const char *path = absolute_path_in(word);
        struct stat st;
        if (v && json_is_string(v) && path && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            !tw_pack_is_result(p, path))
            tw_pk_missing(&p->failed, area,
                          "%s: the command names it, and it lies outside of the code and the data",
                          path);
    }
    if (p->run->argc == 0)
        tw_pk_missing(&p->failed, area, "the command");
    tw_pk_put(&p->failed, area, "argv", list);
}

/* ---- configuration files outside of the code */

/* Configuration files that lie outside of the code. "real" is for part_for() and is taken out of
 * the list in the end. */
static int put_config_files(struct tw_pack *p, json_t *area, struct twin_error *err)
{
    json_t *file, *list = json_array();
    size_t i;
    int rc = 0;
    tw_pk_put(&p->failed, area, "files", list);
    json_array_foreach (TW_PK_AT(p->provenance, "config", "files"), i, file) {
        const char *path = tw_pk_text(file, "path"), *raw = tw_pk_text(file, "raw");
        char *real = path && p->from ? tw_pk_real(p->from, path) : NULL, name[16];
        if (!path || (real && p->top && tw_pk_below(real, p->top))) {
            tw_free(real);
            continue; /* the code holds it */
        }
        /* names of the package's own: two files may have one name */
        snprintf(name, sizeof name, "file-%zu", json_array_size(list));
        const char *dot = strrchr(path, '.');
        char *place = tw_printf("data/configuration/%s%s", name,
                                dot && tw_path_ok(dot) && strlen(dot) < 8 ? dot : "");
        struct twin_error inner = TWIN_ERROR_INIT;
        if (!place)
            rc = tw_no_memory(err, "packing the configuration");
        else if (!real || !raw)
            tw_pk_missing(&p->failed, area, "%s: %s", path,
                          real ? "no digest of it was recorded" : "not there any more");
        else if (tw_pack_is_secret(real))
            tw_pk_missing(&p->failed, area, "%s: seems to hold a secret", path);
        else if ((rc = tw_bag_copy(&p->w, place, real, raw, NULL, &inner)) == TWIN_EFORMAT) {
            tw_pk_missing(&p->failed, area, "%s: %s", path, inner.message);
            rc = 0;
        } else if (rc)
            twin_error_set(err, rc, "%s", inner.message);
        else
            tw_pk_add(&p->failed, list,
                      json_pack("{s:s, s:s, s:s, s:s}", "path", path, "real", real, "file",
                                place + 5, "sha256", raw));
        tw_free(place);
        tw_free(real);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- variables */

/* Variables that mean something on this machine or in this job of a scheduler only. */
static bool is_of_this_machine(const char *name)
{
    static const char *const names[] = {"PATH",
                                        "LD_LIBRARY_PATH",
                                        "LD_PRELOAD",
                                        "PYTHONHOME",
                                        "VIRTUAL_ENV",
                                        "CONDA_PREFIX",
                                        "CONDA_DEFAULT_ENV",
                                        "HOSTNAME",
                                        "TMPDIR",
                                        "TWINRUN_HOME",
                                        "CC",
                                        "CXX",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        NULL};
    static const char *const prefixes[] = {"SLURM_", "PBS_",       "LSB_",  "PMI_",  "PMIX_",
                                           "JOB_",   "OMPI_COMM_", "PRTE_", "OPAL_", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(*n, name) == 0)
            return true;
    for (const char *const *n = prefixes; *n; n++)
        if (tw_starts(name, *n))
            return true;
    return false;
}

/* Variables that belong to the seeds: those of random generators, of deterministic modes, and
 * ours. */
static bool is_seed_variable(const char *name)
{
    return strstr(name, "SEED") || strcmp(name, "CUBLAS_WORKSPACE_CONFIG") == 0 ||
           tw_starts(name, "TF_DETERMINISTIC") || tw_starts(name, "TWINRUN_");
}

/* PYTHONPATH as a list of folders of the code. Others are named as missing, since their modules
 * were imported from there. */
static json_t *search_path(struct tw_pack *p, json_t *area, const char *value)
{
    json_t *list = json_array();
    while (*value) {
        size_t n = strcspn(value, ":");
        char *one = tw_strndup(value, n);
        char *real = one && *one && p->from ? tw_pk_real(p->from, one) : NULL;
        const char *below = real && p->top ? tw_pk_below(real, p->top) : NULL;
        if (below)
            tw_pk_add(&p->failed, list, json_pack("{s:s}", "code", below));
        else if (real)
            tw_pk_missing(&p->failed, area, "PYTHONPATH names %s, which lies outside of the code",
                          real);
        tw_free(one);
        tw_free(real);
        value += n + (value[n] == ':');
    }
    return list;
}

/* The variables of one area: seeds or configuration. Paths of this machine and redacted values are
 * left out. */
static json_t *pack_variables(struct tw_pack *p, json_t *area, bool seeds)
{
    json_t *o = json_object(), *all = TW_PK_AT(p->provenance, "launch", "variables"), *v;
    const char *name;
    json_object_foreach (all, name, v) {
        const char *value = json_string_value(v);
        if (!value || is_of_this_machine(name) || is_seed_variable(name) != seeds ||
            strcmp(value, "[redacted]") == 0)
            continue;
        /* the only variable with paths that is kept: as places in the code */
        if (strcmp(name, "PYTHONPATH") == 0) {
            json_t *list = search_path(p, area, value);
            if (json_array_size(list))
                tw_pk_put(&p->failed, o, name, list);
            else
                json_decref(list);
        } else if (twin_redacted(value)) {
            /* A name that is not on the list of those that decide about numbers: its value was
             * never kept. */
            if (tw_secret_variable_kept(name, strlen(name)))
                tw_pk_missing(&p->failed, area, "the value of %s was redacted", name);
        } else if (value[0] != '/') {
            tw_pk_put(&p->failed, o, name, json_string(value));
        }
    }
    return o;
}

/* Files first: words of the command may name them. */
int tw_pack_configuration(struct tw_pack *p, struct twin_error *err)
{
    json_t *area = p->area[TWIN_AREA_CONFIGURATION];
    json_t *digest = TW_PK_AT(p->provenance, "config", "argv_digest");
    int rc = put_config_files(p, area, err);
    put_argv(p, area);
    json_t *set = pack_variables(p, area, false);
    const char *canonical = tw_pk_text(digest, "canonical");
    size_t n = json_array_size(json_object_get(area, "files")), vars = json_object_size(set);
    const char *digest_word = canonical ? ", digest " : "";
    tw_pk_holds(&p->failed, area,
                "%zu argument%s, %zu variable%s, %zu file%s besides the code's%s%.12s",
                p->run->argc, tw_plural_s(p->run->argc), vars, tw_plural_s(vars), n, tw_plural_s(n),
                digest_word, tw_text_or(canonical, ""));
    tw_pk_put(&p->failed, area, "variables", set);
    tw_pk_put(&p->failed, area, "folder", json_string(p->folder ? p->folder : ""));
    if (canonical)
        tw_pk_put(&p->failed, area, "argv_digest", json_incref(digest));
    json_t *file;
    size_t i;
    json_array_foreach (json_object_get(area, "files"), i, file)
        json_object_del(file, "real");
    return rc;
}

/* ---- seeds */

/* Does the name hold "seed", in any case? */
static bool names_seed(const char *s, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i++)
        if (strncasecmp(s + i, "seed", 4) == 0)
            return true;
    return false;
}

/* A number, in decimal or hex. */
static bool is_number(const char *s)
{
    return *s && strspn(s, "+-0123456789xXabcdefABCDEF") == strlen(s) && strpbrk(s, "0123456789");
}

/* Adds a seed that the job was given, and where it stands. */
static void stated(struct tw_pack *p, json_t *list, const char *where, const char *name, size_t n,
                   const char *value)
{
    char *text = tw_printf("%s %.*s", where, (int)n, name);
    tw_pk_add(&p->failed, list, json_pack("{s:s, s:s}", "where", text ? text : "", "value", value));
    p->failed |= !text;
    tw_free(text);
}

/* "--seed 7", "--seed=7", "seed=7"; a number behind a word without dashes is not taken for its
 * value. */
static void seeds_of_command(struct tw_pack *p, json_t *list)
{
    for (size_t i = 0; i < p->run->argc; i++) {
        const char *word = p->run->argv[i];
        const char *sign = strchr(word, '=');
        const char *next = i + 1 < p->run->argc ? p->run->argv[i + 1] : NULL;
        size_t n = sign ? (size_t)(sign - word) : strlen(word);
        if (!names_seed(word, n))
            continue;
        if (sign && is_number(sign + 1))
            stated(p, list, "argument", word, n, sign + 1);
        else if (!sign && word[0] == '-' && next && is_number(next))
            stated(p, list, "argument", word, n, next);
    }
}

/* Keys with "seed" in their name and a number behind them, in the canonical form of a configuration
 * file. */
static void seeds_of_file(struct tw_pack *p, json_t *list, const char *path)
{
    struct twin_config c;
    char *full = p->from ? tw_path_join(p->from, path) : NULL;
    if (!full || twin_config_read(full, TWIN_CONFIG_BY_NAME, &c, NULL) != 0) {
        tw_free(full);
        return;
    }
    /* the canonical form has no blanks, so a number stands directly behind the colon */
    for (const char *at = c.text; (at = strchr(at, '"'));) {
        const char *end = strchr(++at, '"');
        if (!end)
            break;
        if (end[1] == ':' && names_seed(at, (size_t)(end - at)) &&
            (isdigit((unsigned char)end[2]) || end[2] == '-')) {
            char value[32];
            snprintf(value, sizeof value, "%.*s", (int)strcspn(end + 2, ",}]"), end + 2);
            stated(p, list, path, at, (size_t)(end - at), value);
        }
        at = end + 1;
    }
    twin_config_free(&c);
    tw_free(full);
}

/* The first states of each rank's random generators, and its settings. Returns on how many ranks a
 * state was recorded; *ranks: how many there are. */
static size_t put_generators(struct tw_pack *p, json_t *area, size_t *ranks)
{
    json_t *o = json_object(), *settings = json_object(), *rank, *v;
    size_t i, count = 0;
    *ranks = 0;
    json_array_foreach (json_object_get(p->provenance, "ranks"), i, rank) {
        json_t *states = json_object_get(rank, "generators"), *first = json_object();
        const char *name;
        char number[24];
        snprintf(number, sizeof number, "%lld",
                 (long long)json_integer_value(json_object_get(rank, "rank")));
        json_object_foreach (states, name, v)
            if (tw_ends(name, ".first"))
                tw_pk_put(&p->failed, first, name, json_incref(v));
        count += json_object_size(first) > 0;
        ++*ranks;
        /* a rank may have several processes; the first one that said it counts */
        if (json_object_get(rank, "settings") && !json_object_get(settings, number))
            tw_pk_put(&p->failed, settings, number, json_incref(json_object_get(rank, "settings")));
        if (json_object_size(first) && !json_object_get(o, number))
            tw_pk_put(&p->failed, o, number, first);
        else
            json_decref(first);
    }
    tw_pk_put(&p->failed, area, "generators", o);
    tw_pk_put(&p->failed, area, "settings", settings);
    return count;
}

/* Adds the seeds that pins state: "seed.torch=pin:7,..." states one, and so does "entropy=pin:7".
 */
static void seeds_of_pins(struct tw_pack *p, json_t *list, const char *pins)
{
    for (const char *at = pins; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        const size_t n = strcspn(at, "="), length = strcspn(at, ",");
        char value[32];
        if (length <= n + 5 || !tw_starts(at + n, "=pin:") ||
            !(tw_starts(at, "seed.") || tw_starts(at, "entropy=")))
            continue;
        snprintf(value, sizeof value, "%.*s", (int)(length - n - 5), at + n + 5);
        stated(p, list, "pin", at, n, value);
    }
}

/* What `twinrun run` held still inside the processes: a replay asks the agents for the same. In a
 * run whose run.json does not name them only the file `factors` does (lines "effect.ID TAB pin
 * ..."): then the program has to hold them still itself. */
static void put_pins(struct tw_pack *p, json_t *area, json_t *set, json_t *list)
{
    static const char key[] = "\teffect.";
    json_t *agents = TW_PK_AT(p->run_json, "factors", "agents"), *v;
    struct tw_buf names = {0};
    char *text = NULL, *path = tw_path_join(p->run->dir, "factors");
    const char *name;
    size_t n = 0;
    /* agents were told in variables, and are told the same again */
    json_object_foreach (agents, name, v)
        if (tw_pk_is_of_pins(name) && json_is_string(v)) {
            tw_pk_put(&p->failed, set, name, json_incref(v));
            seeds_of_pins(p, list, json_string_value(v));
        }
    /* an old run: only names can be found, for a warning */
    if (!agents && path && tw_read_file(path, (size_t)64 << 20, &text, &n, NULL) == 0)
        for (const char *at = text; (at = strstr(at, key));) {
            at += sizeof key - 1;
            size_t id = strcspn(at, "\t\n");
            char *one = tw_printf(" %.*s,", (int)(id < 40 ? id : 40), at);
            if (one && tw_starts(at + id, "\tpin") && !(names.data && strstr(names.data, one)))
                tw_buf_puts(&names, one);
            p->failed |= !one;
            tw_free(one);
        }
    if (names.len)
        tw_pk_missing(&p->failed, area,
                      "the run was made under pins of twinrun run (%.*s); a replay does not set "
                      "them: set them in the program",
                      (int)names.len - 2, names.data + 1);
    p->failed |= names.failed != 0;
    tw_buf_free(&names);
    tw_free(text);
    tw_free(path);
}

/* The area passes when a seed is stated, or the generators' states are known on every rank. */
int tw_pack_seeds(struct tw_pack *p, struct twin_error *err)
{
    (void)err;
    json_t *area = p->area[TWIN_AREA_SEEDS], *list = json_array(), *file;
    size_t i, ranks;
    seeds_of_command(p, list);
    json_array_foreach (TW_PK_AT(p->provenance, "config", "files"), i, file)
        if (tw_pk_text(file, "path"))
            seeds_of_file(p, list, tw_pk_text(file, "path"));
    json_t *set = pack_variables(p, area, true);
    put_pins(p, area, set, list);
    size_t said = json_array_size(list);
    size_t seen = put_generators(p, area, &ranks);
    size_t vars = json_object_size(set);
    char first[100] = "none stated";
    if (said)
        snprintf(first, sizeof first, "%.60s = %.30s", tw_pk_text(json_array_get(list, 0), "where"),
                 tw_pk_text(json_array_get(list, 0), "value"));
    tw_pk_put(&p->failed, area, "stated", list);
    tw_pk_put(&p->failed, area, "variables", set);
    tw_pk_holds(&p->failed, area,
                "%s; generators' states recorded on %zu of %zu rank%s; %zu variable%s", first, seen,
                ranks, tw_plural_s(ranks), vars, tw_plural_s(vars));
    if (!said && (seen == 0 || seen < ranks))
        tw_pk_missing(&p->failed, area,
                      "no seed is stated in the command or its configuration, and the states of "
                      "the random generators were %s",
                      seen ? "not recorded on every rank" : "not recorded");
    return 0;
}
