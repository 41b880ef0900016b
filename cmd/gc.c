/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun gc: deletes old runs, never one in progress, and nothing unasked.
 *
 * The ledger catches up before and after, so that what goes is known before it is gone, and marked
 * afterwards. Each run is named with its size before it is deleted. What cannot be read is left
 * alone.
 */
#include "say.h"
#include "runs.h"
#include "old_runs.h"
#include "options.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>

/* What the command line gave. keep: TW_NOT_GIVEN, older_than: negative, where it gave nothing. */
struct gc_args {
    const char *home, *ledger;
    uint64_t keep;
    double older_than;
    bool dry_run, json;
};

#define FIELD(f) offsetof(struct gc_args, f)

static const struct tw_option options[] = {
    {"keep", 'k', TW_OPT_COUNT, "N", NULL, "What goes", "delete all but the N newest runs",
     FIELD(keep)},
    {"older-than", 0, TW_OPT_DAYS, "DAYS", NULL, "What goes",
     "delete runs that began more than DAYS days ago", FIELD(older_than)},
    {"dry-run", 'n', TW_OPT_FLAG, NULL, NULL, "What goes",
     "say what would be deleted, delete nothing", FIELD(dry_run)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Other", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(gc_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Other", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"--keep N [options]", "--older-than DAYS [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "deleted, or nothing to delete"},
    {"2", "trouble: bad use, or a folder that could not be read or deleted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun gc --keep 10 --dry-run", "what would go if only the ten newest stayed"},
    {"twinrun gc --older-than 14", "delete what is older than two weeks"},
    {NULL, NULL},
};

/* What has been done so far. bytes: of those that went. */
struct gc_totals {
    size_t kept, gone, failed;
    uint64_t bytes;
};

/* Names the run, and deletes it unless only asked what would go. One that cannot be deleted is
 * said, and the others go on. */
static void remove_one(const struct gc_args *a, const char *home, const char *dir, json_t *list,
                       struct gc_totals *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char size[16];
    uint64_t bytes = tw_folder_bytes(dir);
    if (!a->json) {
        tw_put("%s %s  %s\n", a->dry_run ? "would delete" : "delete", tw_base_name(dir),
               tw_human_bytes(bytes, size));
        fflush(stdout); /* said before it is done */
    }
    if (!a->dry_run && twin_run_remove(home, dir, NULL, &err) != 0) {
        tw_trouble(&err, "cannot delete %s", tw_base_name(dir));
        t->failed++;
        return;
    }
    json_array_append_new(
        list, json_pack("{s:o, s:I}", "dir", tw_json_text(dir), "bytes", (json_int_t)bytes));
    t->gone++;
    t->bytes += bytes;
}

/* From the newest to the oldest, since "keep N" counts from there. The exit code. */
static int collect_runs(const struct gc_args *a, const char *home, char **dirs, size_t count)
{
    const struct tw_old_runs which = {a->keep, a->older_than};
    struct gc_totals t = {0};
    json_t *list = json_array();
    char size[16];
    for (size_t i = 0; i < count; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_run *r = NULL;
        /* of another version, or damaged: deleting what we cannot read is not our call */
        if (twin_run_load(dirs[i], &r, &err) != 0) {
            tw_say("left alone: %s: %s", tw_base_name(dirs[i]), err.message);
            t.kept++;
            continue;
        }
        bool go = tw_run_may_go(&which, t.kept, r, tw_realtime_ns());
        twin_run_free(r);
        if (go)
            remove_one(a, home, dirs[i], list, &t);
        else
            t.kept++;
    }
    int rc = t.failed ? TW_EXIT_TROUBLE : 0;
    if (!a->json) {
        json_decref(list);
        tw_put("%zu run%s %s, %s; %zu kept\n", t.gone, tw_plural_s(t.gone),
               a->dry_run ? "would go" : "deleted", tw_human_bytes(t.bytes, size), t.kept);
        return rc;
    }
    json_t *all = json_pack("{s:s, s:b, s:o, s:I, s:I}", "schema", "twinrun.gc/1", "dry_run",
                            a->dry_run, "deleted", list, "bytes", (json_int_t)t.bytes, "kept",
                            (json_int_t)t.kept);
    return tw_json_print(all) != 0 ? TW_EXIT_TROUBLE : rc;
}

static int run(int argc, char **argv)
{
    struct gc_args a = {.keep = TW_NOT_GIVEN, .older_than = -1};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    char **dirs = NULL;
    size_t count = 0;
    int rc = tw_options_parse(&tw_command_gc, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (a.keep == TW_NOT_GIVEN && a.older_than < 0)
        return tw_bad_use("gc",
                          "expected --keep N or --older-than DAYS: nothing is deleted unasked");
    char *home = tw_home(a.home);
    if (!home || twin_run_list(home, &dirs, &count, &err) != 0)
        rc = tw_trouble(&err, "cannot list the runs");
    else {
        if (!a.dry_run && count) /* what goes is to be known afterwards */
            twin_ledger_close(tw_ledger_open(home, a.ledger, NULL, NULL));
        rc = collect_runs(&a, home, dirs, count);
        if (!a.dry_run && count)
            twin_ledger_close(tw_ledger_open(home, a.ledger, NULL, NULL));
    }
    for (size_t i = 0; i < count; i++)
        tw_free(dirs[i]);
    tw_free(dirs);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_gc = {
    "gc",
    "delete old runs",
    synopsis,
    "Deletes run folders of a home, and says each one with its size before it goes. With both "
    "options a run goes when either asks for it. Runs in progress, folders that are no run "
    "folders, and runs of a version that this program cannot read are left alone. The ledger still "
    "knows what was deleted: twinrun ls lists it as such.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
