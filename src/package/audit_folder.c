/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder that nobody packed: somebody's repository, a supplement of a paper. Nothing in it is
 * executed; it is judged by the files that people leave for others: git, lock files, checksums,
 * configurations, seeds in the source. What is found is named, and so is what is not.
 *
 * One walk through the folder collects facts (struct found), then five functions judge an area
 * each. These are hints for a human auditor: a seed in a source file does not prove that it was
 * used.
 */
#include "pack.h"

#include "base.h"
#include "phrase.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most entries of all folders, folders inside of each other, bytes of a file that is read, loose
 * versions that are named. */
enum { ENTRIES_MAX = 50000, DEPTH_MAX = 12, TEXT_MAX = 1 << 20, NAMED = 5 };

/* What the walk found. The texts keep the first example of each kind; "": none. */
struct found {
    bool failed;
    size_t entries, sources, configs, lines;
    bool cut, git, checksums, docker_digest, docker;
    char commit[65], checksum_file[256], lock[256], loose[256], config[256], seed[320],
        command[256];
    size_t loose_count;
    char loose_line[NAMED][120];
    uint64_t data_bytes;
    size_t data_files;
    char data_example[256];
};

static bool ends_in(const char *name, const char *const *ends)
{
    for (; *ends; ends++)
        if (tw_ends(name, *ends))
            return true;
    return false;
}

/* Reads a file of text below an open folder, at most TEXT_MAX bytes. malloc'ed; NULL: it is larger,
 * no regular file, a link, or cannot be read. */
static char *text_of(int dir, const char *name, size_t *n)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    *n = 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= TEXT_MAX &&
        (text = tw_malloc((size_t)st.st_size + 1))) {
        ssize_t got = tw_pread_all(fd, text, (size_t)st.st_size, 0);
        *n = got > 0 ? (size_t)got : 0;
        text[*n] = '\0';
    }
    if (fd >= 0)
        close(fd);
    return text;
}

/* Keeps the first path of its kind, cut to the room. */
static void keep_path(char *to, size_t room, const char *path)
{
    if (!*to)
        snprintf(to, room, "%.*s", (int)room - 1, path);
}

/* ---- environment */

/* A list for pip is exact when each line has "==" or an address; else up to NAMED lines are kept
 * that have not. */
static void requirements(struct found *f, const char *text, const char *path)
{
    size_t lines = 0, loose = 0;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\r\n"), from = strspn(line, " \t");
        /* comments and options of pip are no packages */
        if (n > from && line[from] != '#' && line[from] != '-') {
            char one[120];
            snprintf(one, sizeof one, "%.*s", (int)(n - from > 100 ? 100 : n - from), line + from);
            one[strcspn(one, "#;")] = '\0';
            lines++;
            if (!strstr(one, "==") && !strchr(one, '@')) {
                if (loose < NAMED)
                    snprintf(f->loose_line[loose], sizeof f->loose_line[0], "%s", one);
                loose++;
            }
        }
        line += n + strspn(line + n, "\r\n");
    }
    /* the first list wins, and an exact one wins over a loose one */
    if (lines && loose == 0)
        keep_path(f->lock, sizeof f->lock, path);
    else if (lines && !*f->loose) {
        keep_path(f->loose, sizeof f->loose, path);
        f->loose_count = loose;
    }
}

/* Lock files, lists for pip or conda, container recipes. */
static void look_environment_file(struct found *f, int dir, const char *name, const char *path)
{
    static const char *const locks[] = {
        "poetry.lock", "uv.lock",   "pdm.lock",   "Pipfile.lock",  "conda-lock.yml", "pixi.lock",
        "pylock.toml", "renv.lock", "Cargo.lock", "Manifest.toml", "flake.lock",     "guix.scm",
        "spack.lock",  NULL};
    size_t n;
    char *text = NULL;
    /* files that name exact versions by their nature */
    for (const char *const *l = locks; *l; l++)
        if (strcmp(name, *l) == 0)
            keep_path(f->lock, sizeof f->lock, path);
    /* files that people write: their lines decide */
    if (tw_starts(name, "requirements") && tw_ends(name, ".txt") && (text = text_of(dir, name, &n)))
        requirements(f, text, path);
    else if ((strcmp(name, "environment.yml") == 0 || strcmp(name, "environment.yaml") == 0) &&
             !*f->loose)
        keep_path(f->loose, sizeof f->loose, path);
    else if ((strcmp(name, "Dockerfile") == 0 || tw_ends(name, ".def")) &&
             (text = text_of(dir, name, &n))) {
        f->docker = true;
        f->docker_digest |= strstr(text, "@sha256:") != NULL;
    }
    tw_free(text);
}

/* ---- seeds: a call or an assignment that gives a number to something called seed */

/* Looks for a line that gives a number to something with "seed" in its name: seed = 7,
 * manual_seed(7), "seed": 7, or default=7 behind an option --seed. Comments and comparisons are
 * passed over. */
static void look_for_seeds(struct found *f, const char *text, const char *path)
{
    /* only in these languages a colon gives a name its value; in C it belongs to ?: and labels */
    bool colon = tw_ends(path, ".py") || tw_ends(path, ".json") || tw_ends(path, ".yaml") ||
                 tw_ends(path, ".yml") || tw_ends(path, ".cfg") || tw_ends(path, ".ini") ||
                 tw_ends(path, ".ipynb");
    for (const char *line = text; *line && !*f->seed;) {
        size_t n = strcspn(line, "\n"), from = strspn(line, " \t");
        for (size_t i = from; i + 4 < n && line[from] != '#' && line[from] != '/'; i++) {
            if (strncasecmp(line + i, "seed", 4) != 0)
                continue;
            /* the rest of the name: seed_everything, seed" */
            size_t j = i + 4;
            while (j < n && (isalnum((unsigned char)line[j]) || strchr("_\"' ,", line[j])))
                j++;
            if (j < n && (strchr("=(", line[j]) || (colon && line[j] == ':')) &&
                memchr(line + j, '=', n - j) != line + j + 1) {
                j++;
                while (j < n && strchr(" ('\"=", line[j]))
                    j++;
                if (j < n && isdigit((unsigned char)line[j])) {
                    snprintf(f->seed, sizeof f->seed, "%.160s: %.*s", path,
                             (int)(n - from > 100 ? 100 : n - from), line + from);
                    return;
                }
            }
            /* default=0 behind the name of an option */
            const char *preset = memmem(line + i, n - i, "default=", 8);
            if (preset && isdigit((unsigned char)preset[8])) {
                snprintf(f->seed, sizeof f->seed, "%.160s: %.*s", path,
                         (int)(n - from > 100 ? 100 : n - from), line + from);
                return;
            }
        }
        line += n + (line[n] == '\n');
    }
}

/* ---- one file */

/* Sorts a file by its name, and reads it where its text is needed: for seeds, or for a command in a
 * README. */
static void look_at(struct found *f, int dir, const char *name, const char *path,
                    const struct stat *st)
{
    static const char *const sources[] = {".py", ".c",     ".cc", ".cpp", ".cu", ".jl", ".R",
                                          ".r",  ".ipynb", ".sh", ".rs",  ".m",  NULL};
    static const char *const configs[] = {".yaml", ".yml", ".toml", ".json",
                                          ".gin",  ".cfg", ".ini",  NULL};
    static const char *const sums[] = {
        "SHA256SUMS",          "SHA512SUMS",     "checksums.txt",
        "checksums.sha256",    "sha256sums.txt", "manifest-sha256.txt",
        "manifest-sha512.txt", "dvc.lock",       NULL};
    static const char *const data[] = {".csv",   ".tsv",   ".parquet", ".npy",      ".npz",
                                       ".h5",    ".hdf5",  ".tar",     ".tar.gz",   ".tgz",
                                       ".zip",   ".jsonl", ".arrow",   ".tfrecord", ".idx",
                                       "-ubyte", ".bin",   ".mat",     NULL};
    static const char *const not_config[] = {"package.json",
                                             "package-lock.json",
                                             "tsconfig.json",
                                             "pyproject.toml",
                                             "setup.cfg",
                                             "tox.ini",
                                             ".pre-commit-config.yaml",
                                             "environment.yml",
                                             "environment.yaml",
                                             NULL};
    size_t n;
    look_environment_file(f, dir, name, path);
    if (ends_in(name, sums) || tw_ends(name, ".sha256") || tw_ends(name, ".dvc") ||
        tw_ends(name, ".snapshot")) {
        f->checksums = true;
        keep_path(f->checksum_file, sizeof f->checksum_file, path);
    }
    /* a file may be of several kinds */
    bool is_source = ends_in(name, sources);
    bool is_config = ends_in(name, configs) && !ends_in(name, not_config);
    if (is_source)
        f->sources++;
    if (is_config) {
        f->configs++;
        keep_path(f->config, sizeof f->config, path);
    }
    if (ends_in(name, data)) {
        f->data_files++;
        f->data_bytes += (uint64_t)st->st_size;
        keep_path(f->data_example, sizeof f->data_example, path);
    }
    bool readme = strncasecmp(name, "readme", 6) == 0;
    /* one seed is enough: no other file is read for it */
    bool seed_wanted = (is_source || is_config) && !*f->seed;
    char *text = seed_wanted || readme ? text_of(dir, name, &n) : NULL;
    if (text && !readme)
        look_for_seeds(f, text, path);
    if (text && readme && !*f->command)
        /* a line of a README that begins like a command, with or without a prompt */
        for (char *line = text; line && *line;
             line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            size_t from = strspn(line, " \t$`");
            static const char *const begins[] = {
                "python ", "python3 ", "torchrun ", "mpirun ",           "make ",    "bash ", "sh ",
                "./",      "julia ",   "Rscript ",  "accelerate launch", "twinrun ", NULL};
            for (const char *const *b = begins; *b && !*f->command; b++)
                if (tw_starts(line + from, *b))
                    snprintf(f->command, sizeof f->command, "%.*s",
                             (int)(strcspn(line + from, "\n`") > 200 ? 200
                                                                     : strcspn(line + from, "\n`")),
                             line + from);
        }
    tw_free(text);
}

/* Goes through a folder; takes fd over. Links are not followed, and folders that hold other
 * people's code (environments, caches) are left out. */
static void walk_folder(struct found *f, int fd, const char *prefix, int depth)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d)) && !f->cut;) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        static const char *const skip[] = {".git",          ".hg",   ".svn", "node_modules",
                                           "__pycache__",   ".venv", "venv", ".twinrun",
                                           "site-packages", NULL};
        bool skipped = false;
        for (const char *const *s = skip; *s; s++)
            skipped |= strcmp(*s, e->d_name) == 0;
        char *path = *prefix ? tw_printf("%s/%s", prefix, e->d_name) : tw_strdup(e->d_name);
        if (++f->entries > ENTRIES_MAX)
            f->cut = true;
        else if (path && S_ISREG(st.st_mode))
            look_at(f, dirfd(d), e->d_name, path, &st);
        else if (path && S_ISDIR(st.st_mode) && depth < DEPTH_MAX && !skipped) {
            int sub = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub >= 0)
                walk_folder(f, sub, path, depth + 1);
        }
        f->failed |= !path;
        tw_free(path);
    }
    closedir(d);
}

/* ---- the commit, read from the files: a foreign repository's git is not started, since its
 * configuration could name programs */

/* HEAD names a commit, or a branch whose file or line in packed-refs has it. */
static void find_commit(struct found *f, int root)
{
    size_t n;
    int git = openat(root, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (git < 0)
        return;
    f->git = true;
    char *head = text_of(git, "HEAD", &n), *ref = NULL;
    /* on a branch: its file has the commit, or packed-refs has a line for it */
    if (head && tw_starts(head, "ref: refs/")) {
        head[strcspn(head, "\r\n")] = '\0';
        /* behind "ref: " */
        const char *name = head + 5;
        int fd = tw_path_ok(name) ? tw_open_below(git, name, O_RDONLY) : -1;
        char text[65] = "";
        if (fd >= 0) {
            ssize_t got = tw_pread_all(fd, text, 64, 0);
            text[got > 0 ? got : 0] = '\0';
            close(fd);
        } else if ((ref = text_of(git, "packed-refs", &n))) {
            for (char *line = ref; line && *line;
                 line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
                size_t hex = tw_hex_span(line);
                if ((hex == 40 || hex == 64) && line[hex] == ' ' &&
                    strncmp(line + hex + 1, name, strlen(name)) == 0 &&
                    strchr("\r\n", line[hex + 1 + strlen(name)]))
                    snprintf(text, sizeof text, "%.*s", (int)hex, line);
            }
        }
        size_t hex = tw_hex_span(text);
        if (hex == 40 || hex == 64)
            snprintf(f->commit, sizeof f->commit, "%.*s", (int)hex, text);
    } else if (head) {
        /* detached: HEAD is the commit */
        size_t hex = tw_hex_span(head);
        if (hex == 40 || hex == 64)
            snprintf(f->commit, sizeof f->commit, "%.*s", (int)hex, head);
    }
    tw_free(head);
    tw_free(ref);
    close(git);
}

/* ---- the five lines */

/* Each judge_ function writes "holds" and "missing" of one area. */
static void judge_code(struct found *f, json_t *o)
{
    if (f->git && *f->commit)
        tw_pk_holds(&f->failed, o, "git, commit %.12s, %zu source file%s", f->commit, f->sources,
                    tw_plural_s(f->sources));
    else
        tw_pk_holds(&f->failed, o, "%zu source file%s%s", f->sources, tw_plural_s(f->sources),
                    f->git ? ", git without a commit" : "");
    if (f->sources == 0)
        tw_pk_missing(&f->failed, o, "source code: no file that looks like it");
    if (!*f->commit)
        tw_pk_missing(
            &f->failed, o, "a commit: %s",
            f->git
                ? "the repository has none"
                : "the folder is no git repository, so nothing says which version made the number");
}

/* Checksums say which bytes were read; files that look like data do not. */
static void judge_data(struct found *f, json_t *o)
{
    char size[16];
    if (f->checksums)
        tw_pk_holds(&f->failed, o, "checksums in %s", f->checksum_file);
    else if (f->data_files)
        tw_pk_holds(&f->failed, o, "%zu files that look like data, %s, such as %s", f->data_files,
                    tw_human_bytes(f->data_bytes, size), f->data_example);
    else
        tw_pk_holds(&f->failed, o, "nothing about data");
    if (!f->checksums)
        tw_pk_missing(&f->failed, o,
                      "checksums of the data (SHA256SUMS, DVC, a twinrun snapshot): nothing says "
                      "which bytes were read");
}

/* Exact versions in a lock file, or an image by its digest. A list without exact versions is named,
 * with some of its lines. */
static void judge_environment(struct found *f, json_t *o)
{
    if (*f->lock)
        tw_pk_holds(&f->failed, o, "exact versions in %s", f->lock);
    else if (f->docker_digest)
        tw_pk_holds(&f->failed, o, "a container image by digest");
    else if (*f->loose)
        tw_pk_holds(&f->failed, o, "%s, without exact versions", f->loose);
    else
        tw_pk_holds(&f->failed, o, "%s",
                    f->docker ? "a container recipe" : "nothing about versions");
    /* one exact source is enough */
    if (*f->lock || f->docker_digest)
        return;
    if (*f->loose && f->loose_count)
        for (size_t i = 0; i < f->loose_count && i < NAMED; i++)
            tw_pk_missing(&f->failed, o, "%s: \"%s\" names no exact version", f->loose,
                          f->loose_line[i]);
    else
        tw_pk_missing(&f->failed, o,
                      "a lock list with exact versions (requirements.txt with ==, poetry.lock, "
                      "uv.lock, conda-lock.yml)%s",
                      f->docker ? "; the container recipe names its base by tag, not by digest"
                                : "");
}

static void judge_configuration(struct found *f, json_t *o)
{
    const char *such_as = *f->config ? ", such as " : "";
    const char *command = *f->command ? "; command: " : "";
    tw_pk_holds(&f->failed, o, "%zu configuration file%s%s%s%s%s", f->configs,
                tw_plural_s(f->configs), such_as, f->config, command, f->command);
    if (!*f->command)
        tw_pk_missing(&f->failed, o, "the command: no line in a README that looks like one");
}

static void judge_seeds(struct found *f, json_t *o)
{
    tw_pk_holds(&f->failed, o, "%s", *f->seed ? f->seed : "no seed that is given a number");
    if (!*f->seed)
        tw_pk_missing(&f->failed, o, "a seed: no source or configuration file gives one a number");
}

/* Collects all facts first, then judges the areas one by one. Errors are a folder that cannot be
 * read, and no memory. */
int twin_audit_folder(const char *dir, struct twin_packed *out, struct twin_error *err)
{
    static void (*const judges[TWIN_AREAS])(struct found *f, json_t *o) = {
        judge_code, judge_data, judge_environment, judge_configuration, judge_seeds};
    struct found *f = tw_calloc(1, sizeof *f);
    *out = (struct twin_packed){0};
    /* two descriptors: walk_folder() takes one over, git is looked for with the other */
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root < 0 ? -1 : openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;
    if (fd < 0)
        rc = twin_error_system(err, "cannot read %s", dir);
    else if (!f)
        rc = tw_no_memory(err, "auditing a folder");
    if (rc == 0) {
        find_commit(f, root);
        walk_folder(f, fd, "", 0);
        fd = -1;
    }
    for (size_t i = 0; i < TWIN_AREAS && rc == 0; i++) {
        out->area[i] = json_pack("{s:[]}", "missing");
        if (!out->area[i])
            f->failed = true;
        else
            judges[i](f, out->area[i]);
    }
    if (rc == 0 && f->cut)
        tw_pk_missing(
            &f->failed, out->area[TWIN_AREA_CODE],
            "a whole look: the folder has more than %d entries, the rest was not looked at",
            ENTRIES_MAX);
    if (rc == 0 && f->failed)
        rc = tw_no_memory(err, "auditing a folder");
    if (fd >= 0)
        close(fd);
    if (root >= 0)
        close(root);
    tw_free(f);
    if (rc)
        twin_packed_free(out);
    return rc;
}
