/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun snapshot: writes down what a folder of data holds, as a manifest that can be verified.
 * The digests are src/snapshot's. A manifest that is there is a promise: one that says something
 * else is replaced only by --force.
 */
#include "say.h"
#include "options.h"
#include "terminal.h"
#include "snapshot_words.h"
#include "data.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct snapshot_args {
    const char *output;
    struct tw_strings exclude;
    bool follow, paranoid, force, json, quiet;
};

#define FIELD(f) offsetof(struct snapshot_args, f)

static const struct tw_option options[] = {
    {"output", 'o', TW_OPT_FILE, "FILE", NULL, "Output",
     "the manifest; DIR.snapshot beside the folder unless given", FIELD(output)},
    {"exclude", 'x', TW_OPT_LIST, "PATTERN", NULL, "What",
     "leave out what matches; with / at its end only folders", FIELD(exclude)},
    {"follow", 0, TW_OPT_FLAG, NULL, NULL, "What", "go into folders elsewhere that links lead to",
     FIELD(follow)},
    {"paranoid", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "read every file, also those that look as they did when they were last read", FIELD(paranoid)},
    {"force", 0, TW_OPT_FLAG, NULL, NULL, "Output", "replace a manifest that says something else",
     FIELD(force)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"DIR [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "the manifest was written, or is there already and still holds"},
    {"1", "a manifest is there and says something else: what changed since is listed; nothing was "
          "written"},
    {"2", "trouble: bad use, a file that cannot be read or changes while it is read, a device or "
          "pipe among the data"},
    {"130", "interrupted; what was read is remembered"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun snapshot data", "writes data.snapshot"},
    {"twinrun verify data.snapshot", "does the folder still hold the same?"},
    {"cd data && sha256sum -c ../data.snapshot", "the same by another tool"},
    {"twinrun record --data data=data.snapshot -- python train.py",
     "a run that starts only when it does"},
    {NULL, NULL},
};

/* DIR.snapshot, also for "." and "data/". */
static char *default_output(const char *dir, struct twin_error *err)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    const char *slash = memrchr(dir, '/', n);
    const char *last = slash ? slash + 1 : dir;
    const size_t m = n - (size_t)(last - dir);
    const bool named = m > 0 && !(m == 1 && last[0] == '.') &&
                       !(m == 2 && last[0] == '.' && last[1] == '.');
    char *real = named ? NULL : realpath(dir, NULL);
    char *out = NULL;
    if (named)
        out = tw_printf("%.*s.snapshot", (int)n, dir);
    else if (real)
        out = tw_printf("%s.snapshot", real);
    if (!out)
        twin_error_system(err, "the folder %s cannot be read", dir);
    free(real);
    return out;
}

/* A checkout without its large files looks complete. */
static void say_pointers(const struct twin_snapshot *s)
{
    size_t n = 0;
    const char *first = NULL;
    /* The snapshot knows them by the ids that it took from the files themselves. */
    for (size_t i = 0; i < s->id_count; i++)
        if (strcmp(s->id[i].scheme, "lfs-pointer") == 0 && n++ == 0)
            first = s->id[i].path;
    char *safe = first ? tw_printable(first, strlen(first)) : NULL;
    if (n)
        tw_say("note: %zu file%s only a pointer of Git LFS, not data (%s%s): git lfs pull", n,
               n == 1 ? " is" : "s are each", safe ? safe : "?", n > 1 ? ", ..." : "");
    tw_free(safe);
}

/* The manifest that is there already. *there: it is. An exit code, or -1. */
static int read_old(const char *output, const struct snapshot_args *a, struct twin_snapshot *old,
                    bool *there)
{
    struct twin_error err = TWIN_ERROR_INIT;
    *there = false;
    if (access(output, F_OK) != 0)
        return -1;
    if (twin_snapshot_read(output, old, &err) == 0) {
        *there = true;
        return -1;
    }
    /* --force replaces what cannot be read, too, but not what a newer version wrote. */
    return a->force && err.code != TWIN_EVERSION
               ? -1
               : tw_trouble(&err,
                            "snapshot: %s is there and would be replaced; -o names another file, "
                            "--force replaces it",
                            output);
}

/* For JSON: what became of the manifest. */
static const char *outcome_word(bool differs, bool keep)
{
    if (differs)
        return "differ";
    return keep ? "unchanged" : "written";
}

/* Reads the folder, and writes the manifest unless one that says the same, or may not be replaced,
 * is there. The exit code. */
static int take_snapshot(const struct snapshot_args *a, const char *dir, const char *output)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct twin_snapshot s, old;
    bool there;
    int rc = read_old(output, a, &old, &there);
    if (rc >= 0)
        return rc;
    struct twin_snapshot_options o = tw_snapshot_options(&looking, "reading");
    char **exclude = tw_calloc(a->exclude.count + 1, sizeof *exclude);
    for (size_t i = 0; exclude && i < a->exclude.count; i++)
        exclude[i] = (char *)(uintptr_t)a->exclude.items[i];
    o.exclude = exclude;
    o.follow = a->follow;
    o.paranoid = a->paranoid;
    /* A manifest inside the folder is not part of the data. */
    o.not_this = output;
    if (!exclude || twin_snapshot_take(dir, &o, &s, &err) != 0) {
        rc = tw_snapshot_failed(&looking, &err);
    } else {
        /* An old manifest that differs is kept, and the difference is the answer. */
        const bool differs = there && strcmp(old.root, s.root) != 0 && !a->force;
        const bool keep = differs || (there && strcmp(old.root, s.root) == 0 && !a->force);
        tw_progress_clear();
        say_pointers(&s);
        if (!keep && twin_snapshot_write(&s, output, &err) != 0)
            rc = tw_trouble(&err, "snapshot: no manifest");
        else if (a->json)
            rc = tw_json_print(tw_snapshot_taken_json(dir, output, &s, differs ? &old : NULL,
                                                      outcome_word(differs, keep)));
        else
            tw_snapshot_taken_text(stdout, output, &s, differs ? &old : NULL);
        if (rc <= 0)
            rc = differs ? TW_EXIT_DIFFER : TW_EXIT_SAME;
        twin_snapshot_free(&s);
    }
    if (there)
        twin_snapshot_free(&old);
    tw_free(exclude);
    return rc;
}

static int run(int argc, char **argv)
{
    struct snapshot_args a = {0};
    struct tw_operands given;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_snapshot, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (given.count != 1)
        return tw_bad_use("snapshot", "expected one folder, found %zu", given.count);
    tw_progress_setup(a.quiet);
    char *output = a.output ? tw_strdup(a.output) : default_output(given.items[0], &err);
    rc = output ? take_snapshot(&a, given.items[0], output) : tw_trouble(&err, "no snapshot");
    tw_free(output);
    return rc;
}

const struct tw_command tw_command_snapshot = {
    "snapshot",
    "write down what a folder of data holds, as a manifest that can be verified",
    synopsis,
    "Writes path, size, mode and SHA-256 of every file in DIR into a manifest, with one digest "
    "over all of it: the root. Equal data give equal roots on any machine: modes and times are not "
    "part of it, nor is whether a file is reached by a link. `sha256sum -c` reads the manifest, "
    "too.\n\n"
    "Files are read in parallel. What was read is remembered below the user's cache folder, also "
    "when the work is interrupted or killed: next time only files are read that are new or whose "
    "size, inode or times differ. --paranoid reads all.\n\n"
    "A link to a file counts as that file; a link to a folder in DIR is recorded as a link; one "
    "that leads to a folder elsewhere needs --follow. Left out are .git, .hg, .svn, .dvc and "
    ".twinrun, and the manifest itself. Pipes, sockets, devices and files that cannot be read are "
    "errors.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
