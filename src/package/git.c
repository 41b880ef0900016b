/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git for packages: theirs when we pack, foreign when we replay. Nothing that a repository or a
 * person's configuration names is started: no hooks, no monitor, no filter, no external difference,
 * no helper of a protocol.
 */
#include "pack.h"
#include "provenance_inside.h"

#include "base.h"

bool tw_git(struct tw_ask *a, const char *dir, double limit_s, const char *const *words)
{
    /* clang-format off */
    static const char *const before[] = {
        "env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE", "-u", "GIT_OBJECT_DIRECTORY", "-u", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "-u", "GIT_EXTERNAL_DIFF", "-u", "GIT_CONFIG_PARAMETERS", "-u", "GIT_CONFIG_COUNT", "-u", "GIT_TEMPLATE_DIR", "-u", "GIT_NAMESPACE", "-u", "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_LFS_SKIP_SMUDGE=1",
        "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=file", "LC_ALL=C", "git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false",
        "-c", "core.autocrlf=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false", "-c", "init.defaultBranch=main", "-c", "submodule.recurse=false",
        "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "color.ui=never", "-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null",
    };
    /* clang-format on */
    enum { BEFORE = sizeof before / sizeof before[0], ROOM = BEFORE + 24 };
    const char *argv[ROOM + 1];
    size_t n = 0;
    for (; n < BEFORE; n++)
        argv[n] = before[n];
    while (*words && n < ROOM)
        argv[n++] = *words++;
    argv[n] = NULL;
    *a = (struct tw_ask){.argv = argv, .dir = dir, .limit_s = limit_s, .cap = (size_t)128 << 20};
    bool ok = tw_ask(a);
    a->argv = NULL; /* it ends with this call */
    return ok;
}
