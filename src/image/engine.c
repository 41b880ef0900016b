/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is typed to start one command in an image. docker and podman have images of their own, which
 * they know by digest; the others start from a root that was laid out of verified layers.
 *
 * All of them get the same: one folder with the right to write, some below it or beside it without,
 * at the paths that they have outside, no network, the caller's user, nothing of his variables.
 * What the command needs to know otherwise stands in a file of that folder.
 */
#include "image.h"
#include "provenance_inside.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const words[] = {[TW_CONTAINER_DOCKER] = "docker",
                                    [TW_CONTAINER_PODMAN] = "podman",
                                    [TW_CONTAINER_APPTAINER] = "apptainer",
                                    [TW_CONTAINER_BWRAP] = "bwrap",
                                    [TW_CONTAINER_CHROOT] = "chroot"};
_Static_assert(sizeof words / sizeof *words == TW_CONTAINERS, "one word for each engine");

const char *tw_container_word(enum tw_container e)
{
    assert((unsigned)e < TW_CONTAINERS);
    return words[e];
}

bool tw_container_of_word(const char *word, enum tw_container *out)
{
    for (size_t i = 0; i < TW_CONTAINERS; i++)
        if (strcmp(words[i], word) == 0) {
            *out = (enum tw_container)i;
            return true;
        }
    return false;
}

bool tw_container_wants_root(enum tw_container e)
{
    return e != TW_CONTAINER_DOCKER && e != TW_CONTAINER_PODMAN;
}

/* ---- which one */

bool tw_container_answers(enum tw_container e, char **why)
{
    /* each question needs what a container needs: the daemon, or the right to make namespaces */
    static const char *const docker[] = {"docker", "version", "--format", "{{.Server.Version}}",
                                         NULL};
    static const char *const podman[] = {"podman", "info", "--format", "{{.Host.Arch}}", NULL};
    static const char *const apptainer[] = {"apptainer", "--version", NULL};
    static const char *const bwrap[] = {"bwrap",         "--bind",        "/",     "/",
                                        "--proc",        "/proc",         "--dev", "/dev",
                                        "--unshare-pid", "--unshare-net", "true",  NULL};
    static const char *const chroot_root[] = {"unshare", "--mount", "--pid",
                                              "--fork",  "true",    NULL};
    static const char *const chroot_user[] = {
        "unshare", "--map-root-user", "--mount", "--pid", "--fork", "true", NULL};
    const char *const *const questions[] = {docker, podman, apptainer, bwrap,
                                            geteuid() == 0 ? chroot_root : chroot_user};
    struct tw_ask a = {.argv = questions[e], .dir = "/", .limit_s = 60, .cap = 65536};
    bool yes = tw_ask(&a);
    *why = NULL;
    if (!yes && a.missing)
        *why = tw_printf("%s is not installed", a.argv[0]);
    else if (!yes)
        *why = tw_printf("%s cannot start a container here: %s", words[e],
                         *a.complaint ? a.complaint : "it did not answer");
    tw_free(a.out);
    return yes;
}

int tw_container_find(enum tw_container *out, struct twin_error *err)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < TW_CONTAINERS; i++) {
        char *why = NULL;
        *out = (enum tw_container)i;
        if (tw_container_answers(*out, &why)) {
            tw_free(why);
            tw_buf_free(&b);
            return 0;
        }
        tw_buf_print_safe(&b, "%s%s", i ? "; " : "", why ? why : words[i]);
        tw_free(why);
    }
    char *all = tw_buf_steal(&b);
    int rc = twin_error_set(err, TWIN_EUNSUPPORTED, "no engine can start a container here: %s",
                            all ? all : "?");
    tw_free(all);
    return rc;
}

/* ---- lists of words. `failed` is looked at once, at the end. */

struct line {
    char **word;
    size_t count;
    bool failed;
};

/* Takes the word; NULL: no memory. */
static void take(struct line *l, char *word)
{
    char **grown = word ? tw_reallocarray(l->word, l->count + 2, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(word);
        l->failed = true;
        return;
    }
    l->word = grown;
    grown[l->count++] = word;
    grown[l->count] = NULL;
}

static void add(struct line *l, const char *const *these)
{
    for (; *these; these++)
        take(l, tw_strdup(*these));
}
#define ADD(l, ...) add(l, (const char *const[]){__VA_ARGS__, NULL})

/* ---- docker and podman */

const char *const tw_proxy_variables[] = {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
                                          "FTP_PROXY",  "ftp_proxy",  "NO_PROXY",    "no_proxy",
                                          "ALL_PROXY",  "all_proxy",  NULL};

static void add_mounts(struct line *l, const struct tw_contained *c)
{
    ADD(l, "--mount");
    take(l, tw_printf("type=bind,src=%s,dst=%s", c->folder, c->folder));
    for (const char *const *p = c->read_only; *p; p++) {
        ADD(l, "--mount");
        take(l, tw_printf("type=bind,src=%s,dst=%s,readonly", *p, *p));
    }
}

/* The image by its id, which is a digest, or by the digest that a registry has for it. */
static void add_image(struct line *l, const struct tw_contained *c)
{
    if (!c->layout)
        ADD(l, c->reference);
    else if (c->engine == TW_CONTAINER_DOCKER)
        ADD(l, c->config);
    else
        ADD(l, c->config + strlen("sha256:"));
}

static void docker_before(struct line *l, const struct tw_contained *c)
{
    if (!c->layout) {
        if (c->pull)
            ADD(l, words[c->engine], "pull", "--quiet", c->reference);
        return;
    }
    /* under a name that nothing else has; it is run by its id */
    ADD(l, "skopeo", "copy", "--quiet");
    take(l, tw_printf("oci:%s", c->layout));
    take(l,
         tw_printf("%s:%.12s",
                   c->engine == TW_CONTAINER_PODMAN ? "containers-storage:localhost/twinrun-replay"
                                                    : "docker-daemon:twinrun-replay",
                   c->config + strlen("sha256:")));
}

/* A proxy's address may hold a password, and is this machine's business. docker takes it out of its
 * config.json, unless the variable is set; inside, what is empty is taken away again. */
static void keep_out_proxies(struct line *l, bool podman)
{
    if (podman) {
        ADD(l, "--http-proxy=false");
        return;
    }
    for (const char *const *p = tw_proxy_variables; *p; p++) {
        ADD(l, "--env");
        take(l, tw_printf("%s=", *p));
    }
}

static void docker_run(struct line *l, const struct tw_contained *c)
{
    const bool podman = c->engine == TW_CONTAINER_PODMAN;
    ADD(l, words[c->engine], "run", "--rm", "--name", c->name, "--pull=never");
    if (!podman)
        ADD(l, "--init"); /* podman needs another program for that */
    keep_out_proxies(l, podman);
    /* the caller's user owns the folder: no right of root is needed to write to it */
    ADD(l, "--cap-drop", "ALL", "--security-opt", "no-new-privileges");
    ADD(l, "--network", c->network ? "host" : "none", "--shm-size", "8g");
    /* rootless, the user is to be himself inside: files that he owns stay his */
    if (podman && c->uid != 0)
        ADD(l, "--userns", "keep-id");
    ADD(l, "--user");
    take(l, tw_printf("%u:%u", (unsigned)c->uid, (unsigned)c->gid));
    if (c->gpus && podman)
        ADD(l, "--device", "nvidia.com/gpu=all");
    else if (c->gpus)
        ADD(l, "--gpus", "all");
    add_mounts(l, c);
    ADD(l, "--workdir", c->folder, "--entrypoint", c->argv[0]);
    add_image(l, c);
    add(l, c->argv + 1);
}

/* ---- those that start from a root */

static void apptainer_run(struct line *l, const struct tw_contained *c)
{
    ADD(l, "apptainer", "--quiet", "exec", "--containall", "--no-home", "--writable-tmpfs");
    if (!c->network)
        ADD(l, "--net", "--network", "none");
    /* for root it leaves root's rights in the job otherwise */
    if (c->uid == 0)
        ADD(l, "--no-privs");
    if (c->gpus)
        ADD(l, "--nv");
    ADD(l, "--bind", c->folder);
    for (const char *const *p = c->read_only; *p; p++) {
        ADD(l, "--bind");
        take(l, tw_printf("%s:%s:ro", *p, *p));
    }
    ADD(l, "--pwd", c->folder, c->root);
    add(l, c->argv);
}

/* For uid 0 without any right of root, as at chroot_script below: bubblewrap's own device nodes are
 * the machine's, and it takes the kernel's settings for files that uid 0 cannot write to. */
static const char bwrap_script[] =
    "for d in null zero full random urandom tty; do\n"
    "    mount --bind \"/dev/$d\" \"/dev/$d\"; mount -o remount,bind,ro \"/dev/$d\"\n"
    "done\n"
    "exec \"$@\"\n";
static const char *const settings[] = {"sys",  "sysrq-trigger", "irq",  "bus",
                                       "fs",   "driver",        "acpi", "scsi",
                                       "mtrr", "dynamic_debug", NULL};

static void bwrap_run(struct line *l, const struct tw_contained *c)
{
    if (c->uid == 0)
        ADD(l, "unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", bwrap_script,
            "twinrun");
    /* a session of its own: what runs inside can type nothing into the caller's terminal */
    ADD(l, "bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--unshare-pid",
        "--unshare-ipc", "--unshare-uts");
    if (!c->network)
        ADD(l, "--unshare-net");
    ADD(l, "--clearenv", "--bind", c->root, "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind",
        "/sys", "/sys");
    for (const char *const *p = settings; *p && c->uid == 0; p++) {
        ADD(l, "--ro-bind-try");
        take(l, tw_printf("/proc/%s", *p));
        take(l, tw_printf("/proc/%s", *p));
    }
    ADD(l, "--bind", c->folder, c->folder);
    for (const char *const *p = c->read_only; *p; p++)
        ADD(l, "--ro-bind", *p, *p);
    ADD(l, "--chdir", c->folder);
    add(l, c->argv);
}

/*
 * Runs in namespaces of its own: what is mounted there is gone when its last process is. Uid 0 owns
 * the kernel's files even without a right of root, and at many of them (sysctl, cgroups, the mode
 * of /dev/null) the kernel asks for no more than that: they are mounted without the right to write.
 * /sys is a mount with others below it, each with a right of its own.
 */
static const char chroot_script[] =
    "root=$1 folder=$2; shift 2\n"
    "read_only() { mount --bind \"$1\" \"$2\"; mount -o remount,bind,ro \"$2\"; }\n"
    "mount -t proc proc \"$root/proc\"\n"
    "for p in \"$root/proc\"/[!0-9]*; do\n"
    "    case ${p##*/} in sysrq-trigger|mtrr) ;; *) [ -d \"$p\" ] || continue;; esac\n"
    "    [ -L \"$p\" ] || read_only \"$p\" \"$p\"\n"
    "done\n"
    "mount -t tmpfs -o mode=755 tmpfs \"$root/dev\"\n"
    "for d in null zero full random urandom; do\n"
    "    : >\"$root/dev/$d\"; read_only \"/dev/$d\" \"$root/dev/$d\"\n"
    "done\n"
    "mkdir \"$root/dev/shm\"; chmod 1777 \"$root/dev/shm\"; ln -s /proc/self/fd \"$root/dev/fd\"\n"
    "mount --rbind /sys \"$root/sys\"; mount -o remount,bind,ro \"$root/sys\"\n"
    "while read -r id parent device top at rest; do\n"
    "    case $at in /sys/*) ;; *) continue;; esac\n"
    "    ! mountpoint -q \"$root$at\" || mount -o remount,bind,ro \"$root$at\"\n"
    "done </proc/self/mountinfo\n"
    "mount --bind \"$folder\" \"$root$folder\"\n"
    "while [ \"$1\" != -- ]; do read_only \"$1\" \"$root$1\"; shift; done\n"
    "shift\n"
    "env -i \"$(command -v chroot)\" \"$root\" \"$@\"\n";

static void chroot_run(struct line *l, const struct tw_contained *c)
{
    ADD(l, "unshare");
    if (c->uid != 0)
        ADD(l, "--map-root-user");
    ADD(l, "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts");
    if (!c->network)
        ADD(l, "--net");
    ADD(l, "--propagation", "private", "--", "sh", "-euc", chroot_script, "twinrun", c->root,
        c->folder);
    add(l, c->read_only);
    ADD(l, "--");
    add(l, c->argv);
}

/* ---- all */

/* Is the path one that the engine reads as it is meant? */
static int check_path(const struct tw_contained *c, const char *path, struct twin_error *err)
{
    const char *bad = "";
    if (c->engine == TW_CONTAINER_DOCKER || c->engine == TW_CONTAINER_PODMAN)
        bad = ",\"";
    else if (c->engine == TW_CONTAINER_APPTAINER)
        bad = ",:";
    if (path && strpbrk(path, bad))
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "%s cannot be told the path %s (one of %s is in it): name another "
                              "folder with --into",
                              words[c->engine], path, bad);
    return 0;
}

static int check(const struct tw_contained *c, struct twin_error *err)
{
    const bool bare = c->engine == TW_CONTAINER_BWRAP || c->engine == TW_CONTAINER_CHROOT;
    if (c->gpus && bare)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "the run used a GPU, and %s hands on none (the driver's libraries "
                              "are not in the image): use docker, podman or apptainer, or say "
                              "--gpus none",
                              words[c->engine]);
    int rc = check_path(c, c->folder, err);
    for (const char *const *p = c->read_only; *p && rc == 0; p++)
        rc = check_path(c, *p, err);
    /* these two read what stands behind a colon as a tag */
    if (rc == 0 && c->layout && strchr(c->layout, ':'))
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "the path %s has a colon, which engines read as a tag: name another "
                            "folder with --into",
                            c->layout);
    return rc;
}

/* docker rm --force: a signal, ten seconds at most, a file system that is taken away */
enum { END_S = 60 };

/* What starts these is the container's first process, or the one before: the job can read in /proc
 * with which variables it was started, whatever is cleared later. */
static const char *const *keeps(enum tw_container e)
{
    static const char *const path[] = {"PATH", NULL};
    static const char *const apptainer[] = {
        "PATH", "HOME", "TMPDIR", "APPTAINER_CONFIGDIR", "APPTAINER_TMPDIR", "APPTAINER_CACHEDIR",
        NULL};
    _Static_assert(sizeof apptainer / sizeof *apptainer <= TW_CONTAINER_KEEPS + 1, "room");
    if (e == TW_CONTAINER_APPTAINER)
        return apptainer;
    return tw_container_wants_root(e) ? path : NULL;
}

int tw_container_lines(const struct tw_contained *c, struct tw_command_lines *out,
                       struct twin_error *err)
{
    struct line before = {0}, run = {0}, end = {0};
    *out = (struct tw_command_lines){0};
    int rc = check(c, err);
    if (rc)
        return rc;
    switch (c->engine) {
    case TW_CONTAINER_DOCKER:
    case TW_CONTAINER_PODMAN:
        docker_before(&before, c);
        docker_run(&run, c);
        /* the container is the daemon's child, or its monitor's: it outlives who asked for it */
        ADD(&end, words[c->engine], "rm", "--force", "--volumes", c->name);
        break;
    case TW_CONTAINER_APPTAINER: apptainer_run(&run, c); break;
    case TW_CONTAINER_BWRAP: bwrap_run(&run, c); break;
    case TW_CONTAINER_CHROOT: chroot_run(&run, c); break;
    case TW_CONTAINERS: break;
    }
    /* unshare blocks the signal while it waits for what it started; and what it started asks for
     * its own end with unshare's after it was forked: who is killed before leaves it behind */
    *out = (struct tw_command_lines){.before = before.word,
                                     .run = run.word,
                                     .end = end.word,
                                     .keep = keeps(c->engine),
                                     .end_s = END_S,
                                     .tied = c->engine == TW_CONTAINER_CHROOT,
                                     .deaf = c->engine == TW_CONTAINER_CHROOT};
    if (!before.failed && !run.failed && !end.failed && run.word)
        return 0;
    tw_command_lines_free(out);
    return tw_no_memory(err, "starting a container");
}

static void free_words(char **w)
{
    for (char **p = w; p && *p; p++)
        tw_free(*p);
    tw_free(w);
}

void tw_command_lines_free(struct tw_command_lines *l)
{
    free_words(l->before);
    free_words(l->run);
    free_words(l->end);
    *l = (struct tw_command_lines){0};
}
