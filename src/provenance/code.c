/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code: what git says of the folder that twinrun was started in. Its own programs only (no
 * hooks, no external diff, no filters' network), each with a limit. The difference to the commit is
 * kept beside the record, since a digest alone rebuilds nothing.
 */
#include "provenance_inside.h"

#include "base.h"
#include "sha256.h"
#include "phrase.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* Bytes, files and depths beyond which the record says that it is incomplete. They bound what a
     * strange checkout can cost a run. */
    DIFF_MAX = 64 << 20,
    STATUS_MAX = 16 << 20,
    UNTRACKED_MAX = 10000,
    LIST_MAX = 4 << 20,
    DEPTH_MAX = 3,
    SUBMODULES_MAX = 50,
    DIRTY_SHOWN = 1000
};
/* How many bytes of untracked files are hashed in all. */
#define UNTRACKED_BYTES ((uint64_t)256 << 20)
/* Seconds for one call of git: before the job, and beside it. */
static const double LIMIT_S = 10, UNTRACKED_S = 5;

#define GIT(a, dir, limit, cap, ...) \
    tw_pv_git(a, dir, limit, cap, (const char *const[]){__VA_ARGS__, NULL})

/* Takes the first line out of an answer and frees the rest. malloc'ed; NULL: there was none, or no
 * memory. */
static char *first_line(struct tw_ask *a)
{
    char *line = a->out ? tw_strndup(a->out, strcspn(a->out, "\n")) : NULL;
    tw_free(a->out);
    a->out = NULL;
    return line;
}

/* ---- remotes */

/* {"origin": "https://..."}, passwords in addresses redacted. From the configuration, as asking a
 * remote would use the network. */
static json_t *remotes(struct tw_collector *c, const char *dir)
{
    struct tw_ask a;
    char *save = NULL;
    json_t *o = json_object();
    if (GIT(&a, dir, LIMIT_S, 1 << 20, "config", "--get-regexp", "^remote\\..*\\.url$"))
        for (char *line = strtok_r(a.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            char *url = strchr(line, ' ');
            size_t head = strlen("remote."), tail = strlen(".url");
            if (!url || (size_t)(url - line) <= head + tail)
                continue;
            url[-(long)tail] = '\0';
            tw_pv_put(o, line + head, tw_pv_text(c, url + 1));
        }
    tw_free(a.out);
    return o;
}

/* ---- the difference to the commit */

/* Is there a secret in a piece of a difference? Source code says `token =` all the time: only what
 * stands in quotes, a password in an address, and known shapes count. Lines beyond 4 KiB are data
 * and passed over. */
static bool holds_secret(const char *s, size_t n)
{
    for (const char *line = s, *end = s + n; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((stop ? stop : end) - line), at = 0, from, to;
        int pending = TW_SECRET_IN_FILE, again = TW_SECRET_IN_FILE;
        while (length < 4096 && tw_secret_next(&pending, line, length, &at, &from, &to)) {
            bool quoted = from > 0 && (line[from - 1] == '"' || line[from - 1] == '\'') &&
                          to < length && line[to] == line[from - 1] && to - from >= 6;
            bool address = from >= 3 && memcmp(line + from - 3, "://", 3) == 0;
            size_t alone = 0, f, t;
            if (quoted || address || tw_secret_next(&again, line + from, to - from, &alone, &f, &t))
                return true;
        }
        line += length + 1;
    }
    return false;
}

/* The name in "diff --git a/x b/x\n"; "?" where it has another form. malloc'ed; NULL: no memory. */
static char *name_of_piece(const char *s, size_t n)
{
    const char *stop = memchr(s, '\n', n);
    const char *b = stop ? memmem(s, (size_t)(stop - s), " b/", 3) : NULL;
    return b ? tw_strndup(b + 3, (size_t)(stop - b - 3)) : tw_strdup("?");
}

/* Leaves out the pieces of files that hold secrets; their names go to `withheld`. */
static void without_secrets(const char *s, size_t n, struct tw_buf *kept, json_t *withheld)
{
    static const char head[] = "\ndiff --git ";
    for (const char *at = s, *end = s + n; at < end;) {
        const char *next = memmem(at, (size_t)(end - at), head, sizeof head - 1);
        size_t length = next ? (size_t)(next + 1 - at) : (size_t)(end - at);
        if (holds_secret(at, length)) {
            char *name = name_of_piece(at, length);
            tw_pv_add(withheld, tw_json_bytes(name));
            tw_free(name);
        } else {
            tw_buf_append(kept, at, length);
        }
        at += length;
    }
}

/* The uncommitted difference: its digest, and the text in `file` of the run folder, readable by the
 * user alone. The digest is over the whole, also where pieces are withheld: it still says whether
 * two runs had the same. against: a commit, or the empty tree. */
static json_t *difference(struct tw_collector *c, const char *dir, const char *against,
                          const char *file)
{
    struct tw_ask a;
    struct tw_buf kept = {0};
    char hex[65];
    json_t *o = json_object(), *withheld = json_array();
    bool ok = GIT(&a, dir, LIMIT_S, DIFF_MAX, "diff", "--binary", "--full-index", "--no-ext-diff",
                  "--no-textconv", "--no-renames", "--submodule=short", "--ignore-submodules=dirty",
                  against);
    if (ok) {
        tw_sha256_of(a.out, a.bytes, hex);
        tw_pv_put(o, "sha256", json_string(hex));
        tw_pv_put(o, "bytes", json_integer((json_int_t)a.bytes));
        without_secrets(a.out, a.bytes, &kept, withheld);
    } else {
        json_t *why;
        if (a.late)
            why = json_string("git gave no answer in time");
        else if (a.full)
            why = json_string("larger than 64 MiB");
        else
            why = tw_pv_text(c, a.complaint);
        tw_pv_put(o, "why", why);
    }
    if (ok && kept.len) {
        char *path = tw_path_join(c->run->dir, file);
        if (path && !kept.failed && tw_write_file_atomic(path, kept.data, kept.len, NULL) == 0)
            tw_pv_put(o, "file", json_string(file));
        else
            tw_pv_put(o, "why", json_string("it could not be written into the run folder"));
        if (path)
            chmod(path, 0600);
        tw_free(path);
    }
    if (json_array_size(withheld)) {
        tw_pv_note(
            c,
            "the difference to the commit is kept without %zu file%s that seem%s to hold secrets",
            json_array_size(withheld), tw_plural_s(json_array_size(withheld)),
            json_array_size(withheld) == 1 ? "s" : "");
        json_object_set(o, "withheld", withheld);
    }
    json_decref(withheld);
    tw_buf_free(&kept);
    tw_free(a.out);
    return o;
}

/* ---- status */

/* How many fields stand before the path in a line of `status --porcelain=v2`; 0: it has none. */
static int fields_before_path(char kind)
{
    switch (kind) {
    case '1': return 8;
    case '2': return 9;
    case 'u': return 10;
    default: return 0;
    }
}

/* The path in a line of `status --porcelain=v2`; NULL: it has none. */
static const char *path_in(const char *line)
{
    int fields = fields_before_path(*line);
    const char *p = fields ? line : NULL;
    while (p && fields-- > 0)
        p = (p = strchr(p, ' ')) ? p + 1 : NULL;
    return p;
}

/* Lines that end in NUL: "# branch.oid <commit>", "# branch.head <name>", then what is changed.
 * `moved` gets the submodules at another commit. */
static void changed(const char *text, size_t n, json_t *o, json_t *moved)
{
    json_t *list = json_array();
    size_t count = 0;
    for (const char *line = text, *end = text + n; line < end; line += strlen(line) + 1) {
        const char *path = path_in(line);
        if (tw_starts(line, "# branch.head "))
            tw_pv_put(o, "branch",
                      strcmp(line + 14, "(detached)") == 0 ? json_null()
                                                           : tw_json_bytes(line + 14));
        if (tw_starts(line, "# branch.oid "))
            tw_pv_put(o, "commit", line[13] == '(' ? json_null() : tw_json_bytes(line + 13));
        if (!path)
            continue;
        if (line[5] == 'S' && line[6] == 'C')
            tw_pv_put(moved, path, json_true());
        if (count++ < DIRTY_SHOWN)
            tw_pv_add(list,
                      json_pack("{s:s#, s:o}", "state", line + 2, 2, "path", tw_json_bytes(path)));
        if (*line == '2') /* the old path follows */
            line += strlen(line) + 1;
    }
    tw_pv_put(o, "dirty", json_boolean(count > 0));
    tw_pv_put(o, "changed", list);
    tw_pv_put(o, "changed_count", json_integer((json_int_t)count));
}

static json_t *collect_repository(struct tw_collector *c, const char *dir, int depth,
                                  size_t *diffs);

/*
 * A submodule that is not there yet is one, too; but none of its path is a link: it could lead to
 * another repository of the user's, which is nobody's business who gets this run's record.
 */
static bool leads_below(const char *top, const char *path)
{
    if (tw_path_fault(path, strlen(path), TW_PATH_ANY_NAME))
        return false;
    int root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = root < 0 ? -1 : tw_open_below(root, path, O_PATH | O_DIRECTORY);
    bool below = fd >= 0 || (root >= 0 && errno == ENOENT);
    if (fd >= 0)
        close(fd);
    if (root >= 0)
        close(root);
    return below;
}

/* Each with its own state, by the paths in .gitmodules. moved: those whose commit is not the one
 * that is pinned. */
static json_t *submodules(struct tw_collector *c, const char *top, int depth, size_t *diffs,
                          const json_t *moved)
{
    struct tw_ask a;
    char *save = NULL;
    json_t *list = json_array();
    char *modules = tw_path_join(top, ".gitmodules");
    bool any = modules && access(modules, F_OK) == 0;
    tw_free(modules);
    if (!any || depth >= DEPTH_MAX)
        return list;
    if (GIT(&a, top, LIMIT_S, 1 << 20, "config", "--file", ".gitmodules", "--get-regexp",
            "^submodule\\..*\\.path$"))
        for (char *line = strtok_r(a.out, "\n", &save);
             line && json_array_size(list) < SUBMODULES_MAX; line = strtok_r(NULL, "\n", &save)) {
            char *path = strstr(line, ".path ");
            bool below = path && leads_below(top, path + 6);
            char *dir = below ? tw_path_join(top, path + 6) : NULL;
            char *git_of = dir ? tw_path_join(dir, ".git") : NULL;
            bool there = git_of && access(git_of, F_OK) == 0;
            if (dir) {
                json_t *o = there ? collect_repository(c, dir, depth + 1, diffs)
                                  : json_pack("{s:s}", "why", "not initialised");
                tw_pv_put(o, "path", tw_json_bytes(path + 6));
                tw_pv_put(o, "pinned_commit_matches",
                          there ? json_boolean(!json_object_get(moved, path + 6)) : json_null());
                tw_pv_add(list, o);
            }
            tw_free(git_of);
            tw_free(dir);
        }
    tw_free(a.out);
    return list;
}

/* Why git gave no answer, in our words; NULL: what git itself said is the reason. */
static const char *refusal_word(const struct tw_ask *a)
{
    if (a->missing)
        return "git is not installed";
    if (a->late)
        return "git gave no answer in time";
    if (a->full)
        return "git named too many files";
    return strstr(a->complaint, "not a git repository") ? "not in a git repository" : NULL;
}

/* No commit, and why. */
static void refuse_repository(struct tw_collector *c, const struct tw_ask *a, json_t *o)
{
    const char *why = refusal_word(a);
    tw_pv_put(o, "commit", json_null());
    tw_pv_put(o, "why", why ? json_string(why) : tw_pv_text(c, a->complaint));
}

/* As few calls as will do: each takes some milliseconds, and the job waits. */
static json_t *collect_repository(struct tw_collector *c, const char *dir, int depth, size_t *diffs)
{
    struct tw_ask a;
    char file[32];
    json_t *o = json_object(), *moved = json_object();
    bool ok = GIT(&a, dir, LIMIT_S, STATUS_MAX, "status", "--porcelain=v2", "--branch", "-z",
                  "--untracked-files=no", "--ignore-submodules=none");
    if (ok)
        changed(a.out, a.bytes, o, moved);
    else
        refuse_repository(c, &a, o);
    tw_free(a.out);
    if (!ok) {
        json_decref(moved);
        return o;
    }
    const bool born = json_is_string(json_object_get(o, "commit"));
    if (born ? GIT(&a, dir, LIMIT_S, 65536, "rev-parse", "--show-toplevel", "HEAD^{tree}")
             : GIT(&a, dir, LIMIT_S, 65536, "rev-parse", "--show-toplevel")) {
        char *tree = strchr(a.out, '\n');
        if (tree)
            *tree++ = '\0';
        if (tree)
            tree[strcspn(tree, "\n")] = '\0';
        tw_pv_put(o, "top", tw_json_bytes(a.out));
        tw_pv_put(o, "tree", tw_json_bytes(born ? tree : NULL));
    }
    tw_free(a.out);
    const char *top = json_string_value(json_object_get(o, "top"));
    if (top && json_is_true(json_object_get(o, "dirty"))) {
        snprintf(file, sizeof file, *diffs ? "code.%zu.diff" : "code.diff", *diffs);
        ++*diffs;
        char *empty = NULL;
        if (!born && GIT(&a, dir, LIMIT_S, 4096, "hash-object", "-t", "tree", "/dev/null"))
            empty = first_line(&a);
        tw_pv_put(o, "diff", difference(c, top, empty ? empty : "HEAD", file));
        tw_free(empty);
    }
    tw_pv_put(o, "submodules", top ? submodules(c, top, depth, diffs, moved) : json_array());
    json_decref(moved);
    return o;
}

/* git must not ask for a password, take locks from the user, or fetch; and its messages are
 * compared with English ones. */
json_t *tw_pv_code(struct tw_collector *c)
{
    size_t diffs = 0;
    setenv("GIT_TERMINAL_PROMPT", "0", 1);
    setenv("GIT_OPTIONAL_LOCKS", "0", 1);
    setenv("GIT_NO_LAZY_FETCH", "1", 1);
    setenv("LC_ALL", "C", 1);
    return collect_repository(c, c->from, 0, &diffs);
}

/* ---- what the job does not change, or what may take long: beside the job */

/* Remotes of the repository and of all its submodules. */
static void all_remotes(struct tw_collector *c, json_t *code, const char *top)
{
    json_t *module;
    size_t i;
    tw_pv_put(code, "remotes", remotes(c, top));
    json_array_foreach (json_object_get(code, "submodules"), i, module)
        if (json_string_value(json_object_get(module, "top")))
            all_remotes(c, module, json_string_value(json_object_get(module, "top")));
}

/* The real path of the home that the run lies in, with a slash at its end: HOME/runs/RUN. NULL: it
 * lies in none. */
static char *home_of(const struct twin_run *run)
{
    char real[PATH_MAX];
    char *end = realpath(run->dir, real) ? strrchr(real, '/') : NULL;
    if (end)
        *end = '\0';
    end = end ? strrchr(real, '/') : NULL;
    if (!end || strcmp(end, "/runs") != 0)
        return NULL;
    end[1] = '\0';
    return tw_strdup(real);
}

/* Untracked files with their digests, as far as bytes and time go. `more` says that the list may be
 * incomplete; then it proves nothing. */
void tw_pv_code_later(struct tw_collector *c, json_t *code)
{
    struct tw_ask a;
    uint64_t hashed = 0;
    const char *top = json_string_value(json_object_get(code, "top"));
    json_t *list = json_array();
    if (!top || !list) {
        json_decref(list);
        return;
    }
    char *home = home_of(c->run);
    all_remotes(c, code, top);
    bool ok = GIT(&a, top, UNTRACKED_S, LIST_MAX, "ls-files", "--others", "--exclude-standard",
                  "-z");
    bool more = a.late || a.full;
    for (const char *path = a.out, *end = a.out + a.bytes; path && path < end;
         path += strlen(path) + 1) {
        char hex[65];
        uint64_t bytes = 0;
        const char *why;
        if (json_array_size(list) == UNTRACKED_MAX || path + strlen(path) >= end) {
            more = true;
            break;
        }
        char *full = tw_path_join(top, path);
        if (!full)
            break;
        /* what other runs printed is no code of this one */
        if (home && tw_starts(full, home) && twin_home_holds(full)) {
            tw_free(full);
            continue;
        }
        json_t *o = json_pack("{s:o}", "path", tw_json_bytes(path));
        if (tw_pv_sha256(full, UNTRACKED_BYTES - hashed + 1, 0, hex, &bytes, &why) == 0)
            tw_pv_put(o, "sha256", json_string(hex));
        else
            tw_pv_put(o, "why", json_string(why));
        /* what is left is 0 at least */
        hashed += bytes < UNTRACKED_BYTES - hashed ? bytes : UNTRACKED_BYTES - hashed;
        tw_pv_put(o, "bytes", json_integer((json_int_t)bytes));
        tw_pv_add(list, o);
        tw_free(full);
    }
    if (ok || more)
        tw_pv_put(code, "untracked", list);
    else
        json_decref(list);
    tw_pv_put(code, "untracked_all_listed", json_boolean(ok && !more));
    tw_free(a.out);
    tw_free(home);
}
