/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun in a root that has never heard of it: its program, every library that this process runs
 * with and their loader, copied into one folder. The loader is started by its path and told where
 * the libraries lie, so nothing of the root's own is used, and no variable of it reaches the job,
 * which runs with the image's libraries. The agents, which are loaded into the job, need the
 * image's glibc (2.17 or newer) and nothing else.
 */
#include "image.h"

#include "base.h"

#include "src/launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the copies go, and the first thing that went wrong. */
struct carrying {
    const char *to;
    int rc;
    struct twin_error *err;
};

static void copy_file(struct carrying *c, const char *from, const char *folder, const char *name)
{
    char *dir = tw_printf("%s/%s", c->to, folder),
         *path = tw_printf("%s/%s/%s", c->to, folder, name);
    int in = -1, out = -1;
    if (c->rc == 0)
        c->rc = dir && path ? tw_mkdirs(dir, c->err) : tw_no_memory(c->err, "copying twinrun");
    if (c->rc == 0 && (in = open(from, O_RDONLY | O_CLOEXEC)) < 0)
        c->rc = twin_error_system(c->err, "cannot read %s", from);
    if (c->rc == 0) {
        out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        /* one library may be listed twice */
        if (out < 0 && errno != EEXIST)
            c->rc = twin_error_system(c->err, "cannot write %s", path);
    }
    if (out >= 0 && tw_copy_bytes(in, out, NULL) != 0)
        c->rc = twin_error_system(c->err, "cannot write %s", path);
    if (out >= 0 && close(out) != 0 && c->rc == 0)
        c->rc = twin_error_system(c->err, "cannot write %s", path);
    if (in >= 0)
        close(in);
    tw_free(dir);
    tw_free(path);
}

static int take_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct carrying *c = user;
    (void)size;
    /* the program itself has no name here, the kernel's part no file */
    if (info->dlpi_name && info->dlpi_name[0] == '/')
        copy_file(c, info->dlpi_name, "lib", tw_base_name(info->dlpi_name));
    return c->rc;
}

/* Files of one folder whose names end so. */
static void copy_folder(struct carrying *c, const char *from, const char *folder,
                        const char *ending)
{
    DIR *d = c->rc == 0 ? opendir(from) : NULL;
    if (c->rc == 0 && !d)
        c->rc = twin_error_system(c->err, "cannot read %s", from);
    for (struct dirent *e; c->rc == 0 && (e = readdir(d));) {
        char *path = tw_path_join(from, e->d_name);
        struct stat st;
        if (path && tw_ends(e->d_name, ending) && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            copy_file(c, path, folder, e->d_name);
        tw_free(path);
    }
    if (d)
        closedir(d);
}

/* The Python half: folders in folders, no compiled files (they are made by another Python). */
static void copy_tree(struct carrying *c, const char *from, const char *folder, unsigned depth)
{
    enum { DEPTH_MAX = 16 };
    DIR *d = c->rc == 0 && depth < DEPTH_MAX ? opendir(from) : NULL;
    if (c->rc == 0 && !d)
        c->rc = twin_error_system(c->err, "cannot read %s", from);
    for (struct dirent *e; c->rc == 0 && (e = readdir(d));) {
        char *path = tw_path_join(from, e->d_name), *below = tw_path_join(folder, e->d_name);
        struct stat st = {0}; /* not asked for where a name is not ours */
        bool ours = e->d_name[0] != '.' && strcmp(e->d_name, "__pycache__") != 0;
        if (!path || !below)
            c->rc = tw_no_memory(c->err, "copying twinrun");
        else if (ours && stat(path, &st) != 0)
            c->rc = twin_error_system(c->err, "cannot read %s", path);
        else if (ours && S_ISDIR(st.st_mode))
            copy_tree(c, path, below, depth + 1);
        else if (ours && S_ISREG(st.st_mode))
            copy_file(c, path, folder, e->d_name);
        tw_free(path);
        tw_free(below);
    }
    if (d)
        closedir(d);
}

static void copy_parts(struct carrying *c)
{
    struct twin_parts parts;
    c->rc = c->rc ? c->rc : twin_parts_find(&parts, c->err);
    if (c->rc)
        return;
    if (!parts.agent_library || !parts.python_dir)
        c->rc = twin_error_set(c->err, TWIN_ENOENT,
                               "twinrun's own agents were not found beside its program");
    char *agents = c->rc ? NULL
                         : tw_strndup(
                               parts.agent_library,
                               (size_t)(strrchr(parts.agent_library, '/') - parts.agent_library));
    char *python = c->rc ? NULL : tw_path_join(parts.python_dir, "twinrun");
    if (c->rc == 0 && (!agents || !python))
        c->rc = tw_no_memory(c->err, "copying twinrun");
    if (c->rc == 0)
        copy_folder(c, agents, TW_CARRIED_PARTS, ".so");
    if (c->rc == 0)
        copy_tree(c, python, TW_CARRIED_PARTS "/python/twinrun", 0);
    tw_free(agents);
    tw_free(python);
    twin_parts_free(&parts);
}

static int take_loader(struct dl_phdr_info *info, size_t size, void *user)
{
    const char **loader = user;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum && !*loader; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP)
            *loader = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return 0;
}

int tw_carry_words(const char *to, char *argv[TW_CARRIED_WORDS + 1], struct twin_error *err)
{
    const char *loader = NULL;
    size_t words = 0;
    int rc = 0;
    memset(argv, 0, (TW_CARRIED_WORDS + 1) * sizeof *argv);
    dl_iterate_phdr(take_loader, &loader);
    /* a program that is linked statically needs none */
    if (loader) {
        argv[words++] = tw_printf("%s/lib/%s", to, tw_base_name(loader));
        argv[words++] = tw_strdup("--library-path");
        argv[words++] = tw_printf("%s/lib", to);
    }
    argv[words++] = tw_printf("%s/bin/twinrun", to);
    for (size_t i = 0; i < words && rc == 0; i++)
        if (!argv[i])
            rc = tw_no_memory(err, "copying twinrun");
    if (rc)
        tw_carried_free(argv);
    return rc;
}

void tw_carried_free(char *argv[TW_CARRIED_WORDS + 1])
{
    for (size_t i = 0; i < TW_CARRIED_WORDS; i++) {
        tw_free(argv[i]);
        argv[i] = NULL;
    }
}

int tw_carry(const char *to, char *argv[TW_CARRIED_WORDS + 1], struct twin_error *err)
{
    struct carrying c = {.to = to, .err = err};
    const char *loader = NULL;
    dl_iterate_phdr(take_loader, &loader);
    copy_file(&c, "/proc/self/exe", "bin", "twinrun");
    dl_iterate_phdr(take_object, &c);
    if (loader)
        copy_file(&c, loader, "lib", tw_base_name(loader));
    copy_parts(&c);
    return c.rc ? c.rc : tw_carry_words(to, argv, err);
}
