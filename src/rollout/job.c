/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of one job agree on: each of them draws by itself, and a step may change the
 * share, or fall back, between two of their starts. The first one leaves its arm in a file beside
 * the flag file, which all of them can see, also on several machines; the others do as it says.
 *
 * The file is written under another name and linked: it is there once, and whole. link() is one
 * step on a shared file system, too.
 */
#include "rollout_inside.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 256 };

static const char *const arms[] = {"canary", "control", "fallback"};

static char *path_of(const char *flag, const char *id, const char *key)
{
    char digits[33];
    const struct tw_hash128 h = tw_hash_bytes(key, strlen(key), TW_ROLLOUT_KEY_SEED);
    return tw_printf("%s.jobs/%s-%s", flag, id, tw_hex_128(h.a, h.b, digits));
}

static int text_of(const char *id, const struct tw_rollout_agreed *a, char text[TEXT_MAX])
{
    char line[TEXT_MAX / 2];
    const int n = snprintf(line, sizeof line, "twinrun-rollout-job 1 %s %s %u", id, a->arm,
                           a->share);
    return snprintf(text, TEXT_MAX, "%s %08x\n", line, tw_crc32c(0, line, (size_t)n));
}

/* Takes exactly what text_of makes. */
static bool parse(const char *text, const char *id, struct tw_rollout_agreed *out)
{
    char again[TEXT_MAX], arm[10] = "";
    unsigned share = 0;
    if (sscanf(text, "twinrun-rollout-job 1 %*16[0-9a-f] %9[a-z] %7u", arm, &share) != 2 ||
        share > TW_ROLLOUT_WHOLE)
        return false;
    out->arm = NULL;
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++)
        if (strcmp(arm, arms[i]) == 0)
            out->arm = arms[i];
    out->share = share;
    if (!out->arm)
        return false;
    text_of(id, out, again);
    return strcmp(text, again) == 0;
}

/* TWIN_ENOENT: there is none. owner: of the flag file; he, root, and who starts the job may say
 * what it does. */
static int read_file(const char *path, const char *id, uid_t owner, struct tw_rollout_agreed *out,
                     struct twin_error *err)
{
    char text[TEXT_MAX + 1] = "";
    struct stat st = {.st_uid = 0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return TWIN_ENOENT;
    if (fd < 0)
        return twin_error_system(err, "%s", path);
    int rc = fstat(fd, &st) == 0 ? 0 : twin_error_system(err, "%s", path);
    const ssize_t n = rc == 0 ? tw_pread_all(fd, text, TEXT_MAX, 0) : 0;
    if (rc == 0 && st.st_uid != geteuid() && st.st_uid != 0 && st.st_uid != owner)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s is of user %lu, who is neither this one nor the flag file's", path,
                            (unsigned long)st.st_uid);
    else if (rc == 0 &&
             (n < 0 || !S_ISREG(st.st_mode) || (st.st_mode & S_IWOTH) || !parse(text, id, out)))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s is not what the job's first process wrote",
                            path);
    out->since_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    close(fd);
    return rc;
}

/* TWIN_EEXIST is not an error of ours: *there. */
static int make_file(const char *path, const char *text, bool *there, struct twin_error *err)
{
    char *temp = NULL;
    int fd = -1, rc = tw_file_beside(path, &temp, &fd, err);
    if (rc != 0)
        return rc;
    if (tw_write_all(fd, text, strlen(text)) != 0 || fchmod(fd, 0640) != 0 || fsync(fd) != 0)
        rc = twin_error_system(err, "%s", temp);
    close(fd);
    if (rc == 0 && link(temp, path) != 0) {
        *there = errno == EEXIST;
        if (!*there)
            rc = twin_error_system(err, "%s", path);
    }
    unlink(temp);
    tw_free(temp);
    return rc;
}

/* Files of rollouts that are over: no flag file has their id. */
static void remove_others(const char *dir, const char *id)
{
    enum { ID = 16, KEY = 32 };
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *name = e->d_name;
        if (strlen(name) == ID + 1 + KEY && tw_hex_span(name) == ID && name[ID] == '-' &&
            tw_hex_span(name + ID + 1) == KEY && strncmp(name, id, ID) != 0)
            unlinkat(dirfd(d), name, 0);
    }
    if (d)
        closedir(d);
}

void tw_rollout_prepare_jobs(const char *flag, const char *id)
{
    char *dir = tw_printf("%s.jobs", flag), *above = tw_strdup(flag);
    struct stat st;
    char *slash = above ? strrchr(above, '/') : NULL;
    if (slash)
        slash[slash == above] = '\0';
    const char *folder = slash ? above : ".";
    /* what cannot be done here the first job tries, or says that it cannot */
    if (dir && above && stat(folder, &st) == 0 && mkdir(dir, 0770) == 0) {
        (void)!lchown(dir, geteuid() == 0 ? st.st_uid : (uid_t)-1, st.st_gid);
        chmod(dir, 02770);
    }
    if (dir)
        remove_others(dir, id);
    tw_free(above);
    tw_free(dir);
}

bool tw_rollout_key_is_shared(const char *key)
{
    return strchr(key, '=') != NULL; /* a random one has none */
}

int tw_rollout_agree(const char *flag, const char *id, const char *key, bool may_write,
                     struct tw_rollout_agreed *a, struct twin_error *err)
{
    char text[TEXT_MAX], *path = path_of(flag, id, key), *dir = tw_printf("%s.jobs", flag);
    bool there = false;
    struct stat of_flag;
    const uid_t owner = stat(flag, &of_flag) == 0 ? of_flag.st_uid : geteuid();
    int rc = path && dir ? read_file(path, id, owner, a, err) : tw_no_memory(err, "for a rollout");
    if (rc == TWIN_ENOENT && may_write) {
        rc = 0;
        /* start makes it; one that was begun by an older twinrun has none */
        if (mkdir(dir, 0770) == 0)
            rc = chmod(dir, 0770) == 0 ? 0 : twin_error_system(err, "%s", dir);
        else if (errno != EEXIST)
            rc = twin_error_system(err, "%s", dir);
        text_of(id, a, text);
        rc = rc ? rc : make_file(path, text, &there, err);
        if (rc == 0 && there)
            rc = read_file(path, id, owner, a, err);
    }
    tw_free(path);
    tw_free(dir);
    return rc;
}
