/* SPDX-License-Identifier: Apache-2.0 */
/* The run of a replay. It is started as the packaged run was recorded (level, window, pins), and
 * compared with what was observed then: the runs as twinrun check does it, checkpoints by their
 * tensors, since the bytes of a file that was saved twice may differ in a date alone. */
#include "replayed.h"

#include "base.h"
#include "json_load.h"
#include "json_text.h"

#include "src/provenance/provenance.h"
#include "src/snapshot/content.h"

#include <string.h>

/* ---- how it is started */

/* o[key] where it is a number that fits, else `otherwise`. */
static uint32_t number_or(const json_t *o, const char *key, uint32_t otherwise)
{
    json_t *v = json_object_get(o, key);
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= UINT32_MAX
               ? (uint32_t)json_integer_value(v)
               : otherwise;
}

/* Was the factor set for the recorded run? */
static bool was_asked(const json_t *record, const char *factor)
{
    return json_is_object(json_object_get(json_object_get(record, "factors"), factor));
}

struct twin_launch_options tw_replay_launch_options(const struct twin_unpacked *u, const char *home)
{
    const json_t *window = json_object_get(u->record, "window");
    enum twin_level level = TWIN_LEVEL_TENSORS;
    const char *name = json_string_value(json_object_get(u->record, "level"));
    if (name)
        twin_level_parse(name, &level);
    struct twin_launch_options o = {
        .argv = u->argv,
        .env = u->env,
        .home = home,
        .label = "replay",
        .level = level,
        .agents = true,
        .max_steps = number_or(u->record, "max_steps", 0),
        .window_last = UINT32_MAX,
        .sketch_every = number_or(u->record, "sketch_every", 0),
        .lossless = json_is_true(json_object_get(u->record, "lossless")),
        .show_output = true,
        .native_output = true,
        .no_aslr = was_asked(u->record, "aslr"),
        .on_cpu = was_asked(u->record, "affinity"),
        .cpu = (int)number_or(json_object_get(json_object_get(u->record, "factors"), "affinity"),
                              "cpu", 0),
        .hot = was_asked(u->record, "hot"),
        .data = u->data,
        .data_count = u->data_count,
    };
    if (json_is_integer(json_array_get(window, 0)) && json_is_integer(json_array_get(window, 1))) {
        o.window_first = (uint32_t)json_integer_value(json_array_get(window, 0));
        o.window_last = (uint32_t)json_integer_value(json_array_get(window, 1));
    }
    return o;
}

/* ---- checkpoints: the tensors count, not the file's bytes */

/* Number of those that differ or are not there; each goes to list. */
static size_t compare_checkpoints(const char *expected, const struct twin_run *now, json_t *list)
{
    char *path = tw_path_join(expected, "checkpoints.json"), *text = NULL;
    size_t n = 0, i, differ = 0;
    json_t *all = path && tw_read_file(path, 64 << 20, &text, &n, NULL) == 0
                      ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL)
                      : NULL;
    json_t *c;
    json_array_foreach (all, i, c) {
        const char *name = json_string_value(json_object_get(c, "path"));
        const char *content = json_string_value(json_object_get(c, "content"));
        /* A checkpoint that the replay did not write stays "missing"; one that cannot be read is
         * "missing", too: its tensors are not there. */
        const char *word = "missing";
        const struct twin_run_file *f = NULL;
        for (size_t k = 0; name && k < now->file_count; k++)
            if (strcmp(now->files[k].path, name) == 0)
                f = &now->files[k];
        struct twin_content is;
        char *file = f ? tw_path_join(now->cwd, f->path) : NULL;
        if (file && content && twin_content_read_tensors(file, &is, NULL) == 0) {
            word = strcmp(is.content, content) == 0 ? "same" : "differ";
            twin_content_free(&is);
        }
        tw_free(file);
        differ += strcmp(word, "same") != 0;
        json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "path",
                                              tw_json_text(name ? name : "?"), "outcome", word,
                                              "content", tw_json_text(content ? content : "")));
    }
    json_decref(all);
    tw_free(text);
    tw_free(path);
    return differ;
}

/* ---- the verdict */

/* What of the two worlds may matter; a run whose world is not known gives none. */
static json_t *world_differences(const char *expected, const struct twin_run *now)
{
    json_t *a = NULL, *b = NULL, *list = json_array();
    struct twin_world_differences d = {0};
    if (twin_provenance_load(expected, &a, NULL) == 0 &&
        twin_provenance_load(now->dir, &b, NULL) == 0 && twin_provenance_diff(a, b, &d, NULL) == 0)
        for (size_t i = 0; i < d.count && i < 1000; i++)
            if (d.item[i].power <= TWIN_POWER_MEDIUM)
                json_array_append_new(
                    list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "power",
                                    twin_power_name(d.item[i].power), "group", d.item[i].group,
                                    "what", tw_json_text(d.item[i].what), "package",
                                    tw_json_text(d.item[i].a), "here", tw_json_text(d.item[i].b)));
    twin_world_differences_free(&d);
    json_decref(a);
    json_decref(b);
    return list;
}

/* Another end, or other checkpoints, make a replay differ whatever the runs recorded. Checkpoints
 * are excused where the runs agree within a tolerance only, as their bits then cannot be the same,
 * and where the runs failed. */
enum tw_replay_outcome tw_replay_outcome_of(enum twin_verdict_outcome verdict, bool ended_alike,
                                            bool checkpoints_differ)
{
    bool excused = verdict == TWIN_FAILED || verdict == TWIN_WITHIN_TOLERANCE;
    if (!ended_alike || (checkpoints_differ && !excused))
        return TW_REPLAY_DIFFERS;
    switch (verdict) {
    case TWIN_SAME: return TW_REPLAY_SAME;
    case TWIN_WITHIN_TOLERANCE: return TW_REPLAY_WITHIN_TOLERANCE;
    case TWIN_DIFFER: return TW_REPLAY_DIFFERS;
    case TWIN_INCONCLUSIVE: return TW_REPLAY_INCONCLUSIVE;
    case TWIN_FAILED: break;
    }
    return TW_REPLAY_FAILED;
}

int tw_replay_judge(const struct twin_unpacked *u, const struct twin_run *now,
                    const char *tolerance, struct tw_replayed *out, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    *out = (struct tw_replayed){.now = now};
    int rc = twin_run_load(u->expected, &out->was, &why);
    if (rc != 0)
        return twin_error_set(err, rc, "what was observed cannot be read: %s", why.message);
    const struct twin_run *runs[] = {out->was, now};
    /* The replay may have been told another command. */
    struct twin_compare_options o = {.arms = !twin_run_same_command(out->was, now),
                                     .tolerance_file = tolerance};
    rc = twin_compare(runs, 2, &o, &out->v, &why);
    if (rc != 0)
        return twin_error_set(err, rc, "cannot compare the runs: %s", why.message);
    out->checkpoints = json_array();
    out->world = world_differences(u->expected, now);
    size_t differ = compare_checkpoints(u->expected, now, out->checkpoints);
    bool alike = now->exit_code == out->was->exit_code && now->outcome == out->was->outcome;
    out->outcome = tw_replay_outcome_of(out->v->outcome, alike, differ > 0);
    return 0;
}

void tw_replayed_free(struct tw_replayed *r)
{
    json_decref(r->checkpoints);
    json_decref(r->world);
    json_decref(r->container);
    twin_verdict_free(r->v);
    twin_run_free(r->was);
    *r = (struct tw_replayed){.now = NULL};
}
