/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks git about a checkout that somebody else may have made. Its own configuration can name
 * programs: hooks, monitors, external differences and filters. None of them is started. The user's
 * own configuration stays in force, so that what the user has git ignore, and Git LFS, are as they
 * are in the user's hands.
 */
#include "provenance_inside.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Words of a command of ours. With more filters or submodules than the others say, git is not
     * asked about files at all. */
    WORDS_MAX = 40,
    OVERRIDES_MAX = 64,
    MODULES_MAX = 200,
    MODULE_DEPTH = 4,
    LIST_BYTES = 1 << 20
};

/* Options that switch the filters of a checkout off ("-c", "filter.x.clean=", ...); they hold for
 * the git commands that git itself starts, too. Owns its words. */
struct overrides {
    char *word[2 * OVERRIDES_MAX];
    size_t count, modules;
    bool late; /* git gave no answer */
    bool odd;  /* a filter's name cannot be overridden: git is not asked at all */
};

/* Starts git with what must hold in each call: no monitors, no hooks, no pager, names unquoted,
 * prefixes as patches have them, and none of the variables that point it elsewhere. o may be
 * NULL. */
static bool ask_git(struct tw_ask *a, const char *dir, double limit_s, size_t cap,
                    const struct overrides *o, const char *const *words)
{
    static const char *const before[] = {
        "env",
        "-u",
        "GIT_DIR",
        "-u",
        "GIT_WORK_TREE",
        "-u",
        "GIT_INDEX_FILE",
        "-u",
        "GIT_EXTERNAL_DIFF",
        "git",
        "--no-pager",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.quotepath=false",
        "-c",
        "diff.noprefix=false",
        "-c",
        "diff.mnemonicPrefix=false",
        "-c",
        "color.ui=never",
    };
    enum { BEFORE = sizeof before / sizeof before[0] };
    const char *argv[BEFORE + 2 * OVERRIDES_MAX + WORDS_MAX + 1];
    size_t n = 0;
    for (; n < BEFORE; n++)
        argv[n] = before[n];
    for (size_t i = 0; o && i < o->count; i++)
        argv[n++] = o->word[i];
    for (size_t i = 0; words[i] && i < WORDS_MAX; i++)
        argv[n++] = words[i];
    argv[n] = NULL;
    *a = (struct tw_ask){.argv = argv, .dir = dir, .limit_s = limit_s, .cap = cap};
    bool ok = tw_ask(a);
    a->argv = NULL; /* it ends with this call */
    return ok;
}

/* Adds the option that makes one key of a filter harmless. A name with '=' or a line break cannot
 * be given by -c. */
static void switch_off(struct overrides *o, const char *key)
{
    const char *dot = strrchr(key, '.');
    int length = (int)(dot - key);
    bool odd = strchr(key, '=') || strchr(key, '\n') || o->count + 2 > 2 * OVERRIDES_MAX;
    bool flag = strcmp(dot, ".required") == 0;
    char *option = odd ? NULL : tw_strdup("-c");
    const char *off = flag ? "false" : "";
    char *value = odd ? NULL : tw_printf("%.*s%s=%s", length, key, dot, off);
    if (!option || !value) {
        o->odd = true;
        tw_free(option);
        tw_free(value);
        return;
    }
    o->word[o->count++] = option;
    o->word[o->count++] = value;
}

/* The filters that the checkout's own configuration names: all scopes but the system's and the
 * user's. */
static void own_filters(struct overrides *o, const char *dir)
{
    static const char *const words[] = {"config",       "--show-scope", "--includes", "-z",
                                        "--get-regexp", "^filter\\.",   NULL};
    struct tw_ask a;
    ask_git(&a, dir, 10, LIST_BYTES, NULL, words); /* without a filter it ends with 1 */
    o->late |= a.late;
    o->odd |= a.late || a.full;
    for (char *at = a.out, *end = a.out + a.bytes; at && at < end;) {
        char *scope = at, *key = scope + strlen(scope) + 1;
        if (key >= end)
            break;
        at = key + strlen(key) + 1;
        char *value = strchr(key, '\n');
        /* A name in it has no line break, so the first one ends the key. */
        bool users = strcmp(scope, "system") == 0 || strcmp(scope, "global") == 0;
        if (value)
            *value = '\0';
        if (!users && strrchr(key, '.') > key + 6)
            switch_off(o, key);
    }
    tw_free(a.out);
}

/* Those of the submodules, too: git looks into them by itself. */
static void all_filters(struct overrides *o, const char *dir, int depth)
{
    static const char *const words[] = {
        "config", "--file", ".gitmodules", "--get-regexp", "^submodule\\..*\\.path$", NULL};
    struct tw_ask a;
    char *save = NULL, *modules = tw_path_join(dir, ".gitmodules");
    bool any = modules && access(modules, F_OK) == 0;
    tw_free(modules);
    own_filters(o, dir);
    if (!any)
        return;
    if (depth >= MODULE_DEPTH) {
        o->odd = true;
        return;
    }
    if (ask_git(&a, dir, 10, LIST_BYTES, NULL, words))
        for (char *line = strtok_r(a.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            char *path = strstr(line, ".path "), *below = path ? tw_path_join(dir, path + 6) : NULL;
            char *git_of = below ? tw_path_join(below, ".git") : NULL;
            if (git_of && access(git_of, F_OK) == 0 && o->modules++ < MODULES_MAX)
                all_filters(o, below, depth + 1);
            o->odd |= o->modules > MODULES_MAX;
            tw_free(git_of);
            tw_free(below);
        }
    tw_free(a.out);
}

/* Only status and diff look into files, and so start filters; the others need no look for them. */
bool tw_pv_git(struct tw_ask *a, const char *dir, double limit_s, size_t cap,
               const char *const *words)
{
    struct overrides o = {.count = 0};
    bool looks_at_files = strcmp(words[0], "status") == 0 || strcmp(words[0], "diff") == 0;
    bool ok = false;
    if (looks_at_files)
        all_filters(&o, dir, 0);
    if (!o.odd)
        ok = ask_git(a, dir, limit_s, cap, &o, words);
    else {
        *a = (struct tw_ask){.status = -1, .late = o.late};
        snprintf(a->complaint, sizeof a->complaint,
                 "the checkout's configuration has filters that cannot be switched off");
    }
    for (size_t i = 0; i < o.count; i++)
        tw_free(o.word[i]);
    return ok;
}
