/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libcupti. Called once a process, from the driver's start; never from a callback. */
#include "cupti.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the major number of CUDA. */
static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"};
static const char *const runtimes[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
enum { NAMES = sizeof names / sizeof names[0] };

/* Where a job that has a runtime of one CUDA looks first. */
static size_t name_of_runtime(void)
{
    for (size_t i = 0; i < NAMES; i++) {
        void *library = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            dlclose(library);
            return i;
        }
    }
    return 0;
}

/* RTLD_LOCAL: the job's own symbols are looked up as before. */
static void *load(const char *folder, const char *behind, const char *name, int flags)
{
    char path[PATH_MAX];
    const int n = folder ? snprintf(path, sizeof path, "%s/%s/%s", folder, behind, name)
                         : snprintf(path, sizeof path, "%s", name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL | flags) : NULL;
}

static void *from_variable(const char *variable, const char *name)
{
    static const char *const behind[] = {"extras/CUPTI/lib64", "lib64", "lib"};
    const char *folder = getenv(variable);
    void *library = NULL;
    for (size_t i = 0; folder && *folder && !library && i < sizeof behind / sizeof behind[0]; i++)
        library = load(folder, behind[i], name, 0);
    return library;
}

/* CUDA's libraries of Python packages lie in site-packages/nvidia/PACKAGE/lib, those of CUDA 13 in
 * nvidia/cu13/lib, CUPTI among them: found by one that is loaded. */
struct packages {
    char folder[PATH_MAX]; /* up to "nvidia" */
};

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
    static const char mark[] = "/site-packages/nvidia/";
    struct packages *p = user;
    const char *at = info->dlpi_name ? strstr(info->dlpi_name, mark) : NULL;
    (void)size;
    if (!at)
        return 0;
    const size_t n = (size_t)(at - info->dlpi_name) + sizeof mark - 2;
    if (n >= sizeof p->folder)
        return 0;
    memcpy(p->folder, info->dlpi_name, n);
    p->folder[n] = '\0';
    return 1;
}

static void *from_packages(const struct packages *p, const char *name)
{
    void *library = NULL;
    if (p->folder[0])
        library = load(p->folder, "cuda_cupti/lib", name, 0);
    return library || !p->folder[0] ? library : load(p->folder, "cu13/lib", name, 0);
}

static void *find_library(void)
{
    struct packages packages = {.folder = ""};
    const size_t first = name_of_runtime();
    void *library = NULL;
    for (size_t i = 0; i < NAMES && !library; i++)
        library = load(NULL, NULL, names[i], RTLD_NOLOAD);
    if (!library)
        dl_iterate_phdr(look_at, &packages);
    for (size_t i = 0; i < NAMES && !library; i++) {
        const char *name = names[(first + i) % NAMES];
        library = from_variable("CUDA_HOME", name);
        library = library ? library : from_variable("CUDA_PATH", name);
        library = library ? library : from_packages(&packages, name);
        library = library ? library : load(NULL, NULL, name, 0);
    }
    return library;
}

bool tw_cupti_find(struct tw_cupti *c, char *why, size_t room)
{
    static const struct {
        const char *name;
        size_t place;
        bool needed;
    } wanted[] = {
        {"cuptiGetVersion", offsetof(struct tw_cupti, version), true},
        {"cuptiSubscribe", offsetof(struct tw_cupti, subscribe), true},
        {"cuptiUnsubscribe", offsetof(struct tw_cupti, unsubscribe), true},
        {"cuptiEnableCallback", offsetof(struct tw_cupti, enable), true},
        {"cuptiGetResultString", offsetof(struct tw_cupti, result_name), false},
    };
    void *library = find_library();
    if (!library) {
        snprintf(why, room,
                 "no %s, %s or %s is loaded, in CUDA_HOME or CUDA_PATH, beside CUDA's Python "
                 "packages, or where the loader looks; install nvidia-cuda-cupti, or set CUDA_HOME",
                 names[0], names[1], names[2]);
        return false;
    }
    *c = (struct tw_cupti){.version = NULL};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *at = dlsym(library, wanted[i].name);
        if (!at && wanted[i].needed) {
            snprintf(why, room, "the library libcupti has no %s", wanted[i].name);
            dlclose(library);
            return false;
        }
        memcpy((char *)c + wanted[i].place, &at, sizeof at);
    }
    return true; /* never given back: callbacks come from it */
}
