/* SPDX-License-Identifier: Apache-2.0 */
/* Step 4 of the lab: is the configuration's hash one number for one meaning, what evidence is there
 * besides, and what can no hash of it catch? The hash is made of the configuration again, in
 * another order, as YAML, and with each value changed in turn: the first three must give the same
 * number, every change another one. Then comes what the run's records hold, and a list of what no
 * configuration says (driver, data, lock file, GPU). */
#include "lab.h"

#include "json_text.h"

#include "src/provenance/config.h"
#include "src/provenance/provenance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Areas of evidence that a lab must have, and bytes of a reason that the page shows. */
enum { AREAS_NEEDED = 3, WHY_SHOWN = 200 };

/* ---- the hash */

/* A configuration and what its hash was seen to do. */
struct hashing {
    const struct tw_lab *lab;
    json_t *config; /* what the file says */
    char *source;   /* "train.yaml", "the command line" */
    char base[65];
    size_t changed, caught; /* values changed in turn; of those, how many gave another hash */
    bool repeats, reordered, yaml, yaml_tried;
};

/* The hash of a file with this text, which is written into the lab's folder so that a person can
 * look. */
static int hash_text(const struct hashing *h, const char *name, const char *text, char out[65],
                     struct twin_error *err)
{
    struct twin_config c;
    char *path = tw_path_join(h->lab->folder, name);
    int rc = path ? tw_write_file_atomic(path, text, strlen(text), err)
                  : tw_no_memory(err, "writing a configuration");
    rc = rc ? rc : twin_config_read(path, TWIN_CONFIG_BY_NAME, &c, err);
    if (rc == 0) {
        memcpy(out, c.canonical, sizeof c.canonical);
        twin_config_free(&c);
    }
    tw_free(path);
    return rc;
}

/* The hash of a configuration as JSON, written by these flags of json_dumps. */
static int hash_json(const struct hashing *h, const char *name, const json_t *config, size_t flags,
                     char out[65], struct twin_error *err)
{
    char *text = json_dumps(config, flags | JSON_REAL_PRECISION(17));
    int rc = text ? hash_text(h, name, text, out, err)
                  : tw_no_memory(err, "writing a configuration");
    free(text);
    return rc;
}

/* The same with the members of each object the other way round. */
static json_t *turned_round(const json_t *x)
{
    if (json_is_array(x)) {
        json_t *list = json_array();
        for (size_t i = 0; i < json_array_size(x); i++)
            json_array_append_new(list, turned_round(json_array_get(x, i)));
        return list;
    }
    if (!json_is_object(x))
        return json_deep_copy(x);
    const size_t n = json_object_size(x);
    const char **keys = tw_calloc(n + 1, sizeof *keys), *key;
    json_t *o = keys ? json_object() : NULL, *value;
    size_t i = n;
    if (keys) {
        json_object_foreach ((json_t *)(uintptr_t)x, key, value)
            keys[--i] = key;
        for (i = 0; i < n; i++)
            json_object_set_new(o, keys[i], turned_round(json_object_get(x, keys[i])));
    }
    tw_free(keys);
    return o;
}

/* Another value of the same kind. */
static json_t *other_value(const json_t *x)
{
    if (json_is_string(x)) {
        char *longer = tw_printf("%s?", json_string_value(x));
        json_t *s = longer ? json_string(longer) : NULL;
        tw_free(longer);
        return s;
    }
    if (json_is_integer(x))
        return json_integer(json_integer_value(x) + 1);
    if (json_is_real(x))
        return json_real(json_real_value(x) + 1);
    if (json_is_boolean(x))
        return json_boolean(json_is_false(x));
    return json_integer(1);
}

/* Each value in turn: changed, hashed, put back. */
static int change_each(struct hashing *h, json_t *at, struct twin_error *err)
{
    const size_t n = json_is_object(at) ? json_object_size(at) : json_array_size(at);
    void *place = json_is_object(at) ? json_object_iter(at) : NULL;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        json_t *value = place ? json_object_iter_value(place) : json_array_get(at, i);
        if ((json_is_object(value) && json_object_size(value)) ||
            (json_is_array(value) && json_array_size(value))) {
            rc = change_each(h, value, err);
        } else {
            char found[65];
            json_incref(value);
            if (place)
                json_object_iter_set_new(at, place, other_value(value));
            else
                json_array_set_new(at, i, other_value(value));
            rc = hash_json(h, "config-changed.json", h->config, 0, found, err);
            h->changed++;
            h->caught += rc == 0 && strcmp(found, h->base) != 0;
            if (place)
                json_object_iter_set_new(at, place, value);
            else
                json_array_set_new(at, i, value);
        }
        place = place ? json_object_iter_next(at, place) : NULL;
    }
    return rc;
}

/* The hash, again, of the same in another order, and of each value changed. */
static int hash_variants(struct hashing *h, struct twin_error *err)
{
    char again[65] = "", found[65] = "";
    int rc = hash_json(h, "config.json", h->config, JSON_COMPACT, h->base, err);
    rc = rc ? rc : hash_json(h, "config-again.json", h->config, JSON_COMPACT, again, err);
    h->repeats = rc == 0 && strcmp(again, h->base) == 0;
    json_t *t = rc == 0 ? turned_round(h->config) : NULL;
    if (rc == 0)
        rc = t ? hash_json(h, "config-reordered.json", t, JSON_INDENT(7), found, err)
               : tw_no_memory(err, "writing a configuration");
    h->reordered = rc == 0 && strcmp(found, h->base) == 0;
    if (rc == 0) { /* JSON with its members turned round is YAML, too */
        h->yaml_tried = hash_json(h, "config-reordered.yaml", t, JSON_INDENT(3), found, NULL) == 0;
        h->yaml = h->yaml_tried && strcmp(found, h->base) == 0;
    }
    json_decref(t);
    return rc ? rc : change_each(h, h->config, err);
}

/* The first configuration file that the command names, else the command line. */
static int read_config(struct hashing *h, const json_t *p, struct twin_error *err)
{
    struct twin_config c;
    const char *path = json_string_value(json_object_get(
        json_array_get(json_object_get(json_object_get(p, "config"), "files"), 0), "path"));
    int rc = path ? twin_config_read(path, TWIN_CONFIG_BY_NAME, &c, err)
                  : twin_config_argv(h->lab->argv, &c, err);
    if (rc != 0)
        return rc;
    h->source = tw_strdup(path ? path : "the command line");
    h->config = json_loadb(c.text, c.text_bytes, JSON_DECODE_ANY, NULL);
    twin_config_free(&c);
    return h->config && h->source ? 0 : tw_no_memory(err, "for the configuration");
}

/* ---- the checklist */

/* The area that audits do not have: which machine it was. */
static json_t *hardware_area(const json_t *p)
{
    const json_t *cpu = json_object_get(json_object_get(p, "environment"), "cpu");
    const json_t *gpus = json_object_get(json_object_get(p, "accelerators"), "gpus");
    const char *name = json_string_value(json_object_get(cpu, "name"));
    const char *microcode = json_string_value(json_object_get(cpu, "microcode"));
    const char *gpu = json_string_value(json_object_get(json_array_get(gpus, 0), "name"));
    json_t *missing = json_array();
    char *holds = tw_printf(
        "%s, microcode %s, %lld processors; %s", name ? name : "processor not known",
        microcode ? microcode : "not known",
        (long long)json_integer_value(json_object_get(cpu, "online")), gpu ? gpu : "no GPU");
    if (!name || !json_string_value(json_object_get(cpu, "flags")))
        json_array_append_new(missing,
                              json_string("the processor's name and flags were not recorded"));
    json_t *o = json_pack("{s:s, s:o, s:o}", "name", "hardware", "holds",
                          tw_json_text(holds ? holds : ""), "missing", missing);
    tw_free(holds);
    return o;
}

/* As text into the page, as JSON into the result and, for CI, a file of its own. Returns how many
 * pass. */
static size_t make_checklist(const struct tw_lab *lab, struct tw_lab_step *s, const json_t *areas)
{
    struct tw_buf passed = {0}, failed = {0};
    json_t *list = json_array(), *area;
    size_t n = 0, i;
    json_array_foreach (areas, i, area) {
        const char *name = json_string_value(json_object_get(area, "name"));
        json_t *missing = json_object_get(area, "missing");
        json_t *holds = json_object_get(area, "holds");
        const bool pass = json_array_size(missing) == 0;
        const char *why = json_string_value(json_array_get(missing, 0));
        const size_t length = why ? strlen(why) : 0;
        const size_t shown = length < WHY_SHOWN ? length : WHY_SHOWN;
        char *safe = why ? tw_printable_again(why, shown) : NULL;
        struct tw_buf *b = pass ? &passed : &failed;
        const char *between = pass ? ", " : "\n";
        n += pass;
        tw_buf_printf(b, "%s%s", b->len ? between : "", name);
        if (!pass)
            tw_buf_printf(b, ": %s%s", safe ? safe : "?", length > WHY_SHOWN ? "..." : "");
        tw_free(safe);
        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:o, s:o}", "name", name, "pass", pass, "holds",
                                        holds ? json_deep_copy(holds) : json_string(""), "missing",
                                        missing ? json_deep_copy(missing) : json_array()));
    }
    tw_lab_line(s, "checklist", "%zu of %zu: %s", n, json_array_size(areas),
                passed.data ? passed.data : "none");
    const char *label = "missing";
    for (const char *at = failed.data; at && *at; label = "") {
        const size_t length = strcspn(at, "\n");
        tw_lab_line(s, label, "%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
    char *text = json_dumps(list, JSON_INDENT(1));
    char *path = tw_path_join(lab->folder, "checklist.json");
    if (text && path && tw_write_file_atomic(path, text, strlen(text), NULL) == 0)
        json_object_set_new(s->json, "checklist_file", tw_json_text(path));
    free(text);
    tw_free(path);
    json_object_set_new(s->json, "checklist", list);
    tw_buf_free(&passed);
    tw_buf_free(&failed);
    return n;
}

/* ---- what no hash of a configuration sees, with what it is here */

/* p[a][b] or p[a][b][c] (c not NULL), where it is a text. */
static const char *text_at(const json_t *p, const char *a, const char *b, const char *c)
{
    const json_t *x = json_object_get(json_object_get(p, a), b);
    const char *s = json_string_value(c ? json_object_get(x, c) : x);
    return s ? s : "not known";
}

/* Lines of a requirements file that do not say which version. */
static char *lock_file(void)
{
    static const char *const names[] = {"uv.lock",  "poetry.lock",    "Pipfile.lock",
                                        "pdm.lock", "conda-lock.yml", "requirements.txt"};
    char *text = NULL;
    size_t n, loose = 0, all = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (tw_read_file(names[i], 1 << 20, &text, &n, NULL) != 0)
            continue;
        bool exact = !tw_ends(names[i], ".txt");
        for (char *line = text, *next; !exact && line && *line; line = next) {
            next = strchr(line, '\n');
            if (next)
                *next++ = '\0';
            line += strspn(line, " \t");
            const bool counts = *line && !strchr("#-\r", *line);
            all += counts;
            loose += counts && !strstr(line, "==") && !strchr(line, '@');
        }
        tw_free(text);
        return exact ? tw_printf("%s pins versions; whether this environment was made from it, it "
                                 "cannot say",
                                 names[i])
                     : tw_printf("%s: %zu of %zu lines do not say which version", names[i], loose,
                                 all);
    }
    return tw_strdup("there is no lock file in this folder");
}

/* The lines on things that may change a result and that stand in no configuration. */
static void say_blind_spots(const struct tw_lab *lab, struct tw_lab_step *s, const json_t *p)
{
    const json_t *gpu = json_array_get(json_object_get(json_object_get(p, "accelerators"), "gpus"),
                                       0);
    const json_t *driver = json_object_get(json_object_get(p, "accelerators"), "driver");
    const char *gpu_name = json_string_value(json_object_get(gpu, "name"));
    const char *driver_text = json_string_value(driver);
    const size_t python = json_object_size(
        json_object_get(json_object_get(p, "packages"), "python"));
    char *lock = lock_file(), *of[4] = {NULL};
    static const char *const names[4] = {"driver", "silent mirror", "loose lock file", "other GPU"};
    if (gpu_name)
        of[0] = tw_printf("GPU driver %s, kernel %s", driver_text ? driver_text : "not known",
                          text_at(p, "environment", "kernel", "release"));
    else
        of[0] = tw_printf("no GPU driver here; kernel %s, microcode %s, libc %s",
                          text_at(p, "environment", "kernel", "release"),
                          text_at(p, "environment", "cpu", "microcode"),
                          text_at(p, "environment", "libc", NULL));
    of[1] = lab->data.count
                ? tw_printf("%llu files of data (%.12s...): their name could stand for others; a "
                            "snapshot holds them",
                            (unsigned long long)lab->data.item[0].files, lab->data.item[0].root)
                : tw_strdup("data are named, not weighed: no snapshot was verified, so that others "
                            "under the same name would pass (twinrun snapshot)");
    of[2] = tw_printf("%s%s", lock ? lock : "",
                      python ? "; the run's own list of packages is in its provenance" : "");
    of[3] = gpu_name ? tw_printf("this one is a %s; kernels are chosen by model", gpu_name)
                     : tw_printf("no GPU here; the processor is %s: another one may take other "
                                 "instructions (pin isa)",
                                 text_at(p, "environment", "cpu", "name"));
    json_t *list = json_object();
    for (int i = 0; i < 4; i++) {
        char *safe = of[i] ? tw_printable_again(of[i], strlen(of[i])) : NULL;
        char *line = tw_printf("%s: %s", names[i], safe ? safe : "?");
        tw_lab_line(s, i ? "" : "not in it", "%s", line ? line : "?");
        json_object_set_new(list, names[i], tw_json_text(safe ? safe : ""));
        tw_free(safe);
        tw_free(line);
        tw_free(of[i]);
    }
    tw_free(lock);
    json_object_set_new(s->json, "not_in_the_hash", list);
}

/* ---- the step */

/* Hashes the configuration of a run in many ways, and lists what is known of the run besides. */
static int examine(struct tw_lab *lab, struct tw_lab_step *s, const struct twin_run *run,
                   struct twin_error *err)
{
    struct hashing h = {.lab = lab};
    json_t *p = NULL, *areas = json_array();
    int rc = twin_provenance_load(run->dir, &p, err);
    rc = rc ? rc : read_config(&h, p, err);
    rc = rc ? rc : hash_variants(&h, err);
    rc = rc ? rc : lab->audit(run, areas, err);
    if (rc == 0) {
        json_array_append_new(areas, hardware_area(p));
        tw_lab_line(s, "hash",
                    "sha256:%.16s... of %s (RFC 8785: what it says, not how it is written)", h.base,
                    h.source);
        const char *as_yaml = "";
        if (h.yaml_tried)
            as_yaml = h.yaml ? "; read as YAML: equal" : "; read as YAML: NOT EQUAL";
        tw_lab_line(s, "same", "hashed again: %s; keys turned round and other spaces: %s%s",
                    h.repeats ? "equal" : "NOT EQUAL", h.reordered ? "equal" : "NOT EQUAL",
                    as_yaml);
        tw_lab_line(s, "changed", "each of %zu values in turn: %zu other hash%s", h.changed,
                    h.caught, h.caught == 1 ? "" : "es");
        if (h.repeats && h.reordered)
            tw_lab_line(s, "means",
                        "two runs with this number were told the same to do; with another number, "
                        "something else");
        json_object_set_new(s->json, "config",
                            json_pack("{s:s, s:s, s:b, s:b, s:o, s:I, s:I}", "source", h.source,
                                      "sha256", h.base, "repeats", h.repeats, "reordered_equal",
                                      h.reordered, "yaml_equal",
                                      h.yaml_tried ? json_boolean(h.yaml) : json_null(), "changed",
                                      (json_int_t)h.changed, "caught", (json_int_t)h.caught));
        const size_t passed = make_checklist(lab, s, areas);
        say_blind_spots(lab, s, p);
        /* One number for one meaning: equal where nothing but the writing changed, another one
         * wherever a value did. */
        const bool sound = h.repeats && h.reordered && (h.yaml || !h.yaml_tried) && h.changed > 0 &&
                           h.caught == h.changed;
        if (!sound)
            tw_lab_decide(s, TW_LAB_FAIL, "the hash is not one number for one meaning");
        else if (passed < AREAS_NEEDED)
            tw_lab_decide(s, TW_LAB_FAIL, "evidence for %zu of the areas; at least %d are needed",
                          passed, AREAS_NEEDED);
        else
            tw_lab_decide(s, TW_LAB_PASS,
                          "one number for one meaning, and evidence for %zu areas besides "
                          "(%s/checklist.json)",
                          passed, lab->folder);
    }
    s->command = tw_printf("%s",
                           h.source && strcmp(h.source, "the command line") != 0 ? h.source : "");
    json_decref(areas);
    json_decref(p);
    json_decref(h.config);
    tw_free(h.source);
    return rc;
}

/* Of the first run of the lab where there is one: what later ones find in their folder may be what
 * earlier ones wrote. */
int tw_lab_config(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err)
{
    struct tw_lab_run r = {0};
    struct twin_run *first = NULL;
    int rc = lab->first
                 ? twin_run_load(lab->first, &first, err)
                 : tw_lab_run(lab, &lab->natural, TWIN_LEVEL_TENSORS, "config   run     ", &r, err);
    const struct twin_run *run = first ? first : r.run;
    s->json = json_object();
    if (rc == 0 && !lab->interrupted && (run->outcome != TWIN_RUN_EXITED || run->exit_code != 0))
        tw_lab_decide(s, TW_LAB_FAIL, "the job failed: there is no run to look at");
    else if (rc == 0 && !lab->interrupted)
        rc = examine(lab, s, run, err);
    twin_run_free(first);
    tw_lab_run_free(&r);
    return rc;
}
