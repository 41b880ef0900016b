/* SPDX-License-Identifier: Apache-2.0 */
/* The machine and its system: processors, memory, kernel, limits, container, compilers. Read from
 * where the kernel and the distribution say it; what a file does not say is left out, as what was
 * not known is no difference later. */
#include "provenance_inside.h"

#include "base.h"

#include <ctype.h>
#include <dirent.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Far above /proc/cpuinfo, the longest of the files that are read here. */
enum { FILE_MAX = 16 << 20 };

/* ---- processors */

/* The value of "key<tab>: value" of /proc/cpuinfo's first processor; NULL: none. A new
 * reference. */
static json_t *cpu_field(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *colon = line + strcspn(line, ":\n");
        if (*line == '\n')
            break; /* the second processor */
        if (strncmp(line, key, n) != 0 || *colon != ':' ||
            (line[n] != '\t' && line[n] != ':' && line[n] != ' '))
            continue;
        const char *value = colon + 1 + (colon[1] == ' ');
        return json_stringn(value, strcspn(value, "\n"));
    }
    return NULL;
}

/* The words of a text, each once and in order: kernels list flags as they please. Takes text over;
 * NULL: no text. jansson's sorted keys do the sorting. */
static json_t *sorted_words(json_t *text)
{
    char *copy = text ? tw_strdup(json_string_value(text)) : NULL, *save = NULL;
    json_t *set = json_object();
    for (char *w = copy ? strtok_r(copy, " ", &save) : NULL; w; w = strtok_r(NULL, " ", &save))
        tw_pv_put(set, w, json_true());
    char *keys = json_dumps(set, JSON_SORT_KEYS | JSON_COMPACT);
    struct tw_buf b = {0};
    /* "a":true,"b":true */
    for (char *p = keys ? strchr(keys, '"') : NULL; p; p = strchr(p + 1, '"')) {
        char *end = strchr(p + 1, '"');
        if (!end)
            break;
        tw_buf_printf(&b, "%s%.*s", b.len ? " " : "", (int)(end - p - 1), p + 1);
        p = end;
    }
    json_t *v = b.len ? json_string(b.data) : NULL;
    tw_buf_free(&b);
    free(keys);
    json_decref(set);
    json_decref(text);
    tw_free(copy);
    return v;
}

/* Intel's and AMD's names of fields, and ARM's. "usable" is what the scheduler lets us use, where
 * the kernel says it. */
static json_t *cpu(void)
{
    json_t *o = json_object();
    char *text = tw_pv_read("/proc/cpuinfo", FILE_MAX);
    static const char *const fields[][2] = {
        {"vendor_id", "vendor"},       {"cpu family", "family"}, {"model", "model"},
        {"model name", "name"},        {"stepping", "stepping"}, {"microcode", "microcode"},
        {"CPU implementer", "vendor"}, {"CPU part", "model"}};
    for (size_t i = 0; text && i < sizeof fields / sizeof fields[0]; i++)
        tw_pv_put(o, fields[i][1], cpu_field(text, fields[i][0]));
    if (text) {
        json_t *flags = cpu_field(text, "flags");
        tw_pv_put(o, "flags", sorted_words(flags ? flags : cpu_field(text, "Features")));
    }
    tw_pv_put(o, "online", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    tw_pv_put(o, "usable", tw_pv_line("/proc/self/cpuset"));
    tw_pv_put(o, "smt", tw_pv_line("/sys/devices/system/cpu/smt/control"));
    tw_pv_put(o, "governor", tw_pv_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    tw_pv_put(o, "driver", tw_pv_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"));
    tw_pv_put(o, "turbo_off", tw_pv_line("/sys/devices/system/cpu/intel_pstate/no_turbo"));
    tw_pv_put(o, "numa_nodes", tw_pv_line("/sys/devices/system/node/online"));
    tw_pv_put(o, "numa_balancing", tw_pv_line("/proc/sys/kernel/numa_balancing"));
    char *status = tw_pv_read("/proc/self/status", FILE_MAX);
    const char *allowed = status ? strstr(status, "Cpus_allowed_list:") : NULL;
    if (allowed) {
        allowed += strcspn(allowed, "\t ") + 1;
        tw_pv_put(o, "usable", json_stringn(allowed, strcspn(allowed, "\n")));
    }
    tw_free(status);
    tw_free(text);
    return o;
}

/* ---- memory, limits */

static json_t *memory_json(void)
{
    static const char *const keys[][2] = {{"MemTotal:", "total_kib"},
                                          {"SwapTotal:", "swap_kib"},
                                          {"HugePages_Total:", "hugepages"},
                                          {"Hugepagesize:", "hugepage_kib"}};
    json_t *o = json_object();
    char *text = tw_pv_read("/proc/meminfo", FILE_MAX);
    for (size_t i = 0; text && i < sizeof keys / sizeof keys[0]; i++) {
        const char *at = strstr(text, keys[i][0]);
        if (at)
            tw_pv_put(o, keys[i][1], json_integer(strtoll(at + strlen(keys[i][0]), NULL, 10)));
    }
    tw_pv_put(o, "transparent_hugepages",
              tw_pv_line("/sys/kernel/mm/transparent_hugepage/enabled"));
    tw_pv_put(o, "overcommit", tw_pv_line("/proc/sys/vm/overcommit_memory"));
    tw_free(text);
    return o;
}

/* The limits that the job inherits from us. */
static json_t *limits(void)
{
    static const struct {
        const char *name;
        int what;
    } all[] = {{"stack", RLIMIT_STACK},           {"memory", RLIMIT_AS},
               {"locked_memory", RLIMIT_MEMLOCK}, {"open_files", RLIMIT_NOFILE},
               {"processes", RLIMIT_NPROC},       {"core", RLIMIT_CORE},
               {"cpu_seconds", RLIMIT_CPU},       {"file_size", RLIMIT_FSIZE}};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct rlimit l;
        if (getrlimit((__rlimit_resource_t)all[i].what, &l) == 0)
            tw_pv_put(o, all[i].name,
                      l.rlim_cur == RLIM_INFINITY ? json_string("unlimited")
                                                  : json_integer((json_int_t)l.rlim_cur));
    }
    return o;
}

/* The control group's own limits, of both versions: the job may have less than the machine. */
static json_t *cgroup(void)
{
    static const char *const files[][2] = {
        {"cpu.max", "cpu_max"}, {"memory.max", "memory_max"}, {"cpuset.cpus.effective", "cpus"}};
    static const char *const old[][2] = {
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "cpu_quota_us"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "cpu_period_us"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "memory_max"},
        {"/sys/fs/cgroup/cpuset/cpuset.cpus", "cpus"}};
    json_t *o = json_object();
    char *text = tw_pv_read("/proc/self/cgroup", FILE_MAX);
    const char *at = text ? strstr(text, "0::") : NULL;
    for (size_t i = 0; at && i < sizeof files / sizeof files[0]; i++) {
        char *path = tw_printf("/sys/fs/cgroup%.*s/%s", (int)strcspn(at + 3, "\n"), at + 3,
                               files[i][0]);
        tw_pv_put(o, files[i][1], path ? tw_pv_line(path) : NULL);
        tw_free(path);
    }
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        if (!json_object_get(o, old[i][1]))
            tw_pv_put(o, old[i][1], tw_pv_line(old[i][0]));
    tw_free(text);
    return o;
}

/* ---- system */

static const char *kind_by_file(void)
{
    if (access("/.dockerenv", F_OK) == 0)
        return "docker";
    return access("/run/.containerenv", F_OK) == 0 ? "podman" : NULL;
}

/* By the names of control groups, as orchestrators make them. */
static const char *kind_by_groups(const char *groups)
{
    if (strstr(groups, "kubepods"))
        return "kubernetes";
    if (strstr(groups, "docker"))
        return "docker";
    return strstr(groups, "lxc") ? "lxc" : NULL;
}

/* What a container leaves to be seen of itself. Its image's digest is not visible from inside
 * unless somebody says it. */
static json_t *container(const struct tw_collector *c)
{
    static const char *const told[] = {"CONTAINER_IMAGE",
                                       "IMAGE_DIGEST",
                                       "CONTAINER_IMAGE_DIGEST",
                                       "SINGULARITY_CONTAINER",
                                       "APPTAINER_CONTAINER",
                                       "SINGULARITY_NAME",
                                       "container",
                                       "KUBERNETES_SERVICE_HOST"};
    json_t *o = json_object(), *hints = json_object();
    const char *kind = kind_by_file();
    char *groups = tw_pv_read("/proc/1/cgroup", FILE_MAX);
    char *known = tw_pv_read("/run/systemd/container", 4096);
    if (!kind && known && *known)
        kind = known;
    if (!kind && groups)
        kind = kind_by_groups(groups);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const char *value = tw_pv_variable(c->env, told[i]);
        if (value)
            tw_pv_put(hints, told[i],
                      strcmp(told[i], "KUBERNETES_SERVICE_HOST") == 0 ? json_string("set")
                                                                      : tw_pv_text(c, value));
    }
    if (!kind && json_object_size(hints))
        kind = "unknown";
    tw_pv_put(o, "kind", tw_json_bytes(kind));
    tw_pv_put(o, "hints", hints);
    char *image = tw_pv_read("/run/.containerenv", 65536);
    char *at = image ? strstr(image, "imageid=\"") : NULL;
    if (at)
        tw_pv_put(o, "image", json_stringn(at + 9, strcspn(at + 9, "\"\n")));
    tw_free(image);
    tw_free(known);
    tw_free(groups);
    return o;
}

/* Three lines of /etc/os-release, under their names in small letters. */
static json_t *os_release(void)
{
    static const char *const keys[] = {"PRETTY_NAME=", "ID=", "VERSION_ID="};
    json_t *o = json_object();
    char *text = tw_pv_read("/etc/os-release", 65536), *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save))
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (tw_starts(line, keys[i])) {
                char *value = line + strlen(keys[i]);
                value += *value == '"';
                value[strcspn(value, "\"")] = '\0';
                line[strlen(keys[i]) - 1] = '\0';
                for (char *p = line; *p; p++)
                    *p = (char)tolower((unsigned char)*p);
                tw_pv_put(o, line, tw_json_bytes(value));
            }
    tw_free(text);
    return o;
}

static json_t *kernel(const struct tw_collector *c)
{
    struct utsname u;
    json_t *o = json_object();
    if (uname(&u) == 0) {
        tw_pv_put(o, "release", tw_json_bytes(u.release));
        tw_pv_put(o, "version", tw_json_bytes(u.version));
        tw_pv_put(o, "machine", tw_json_bytes(u.machine));
    }
    char *line = tw_pv_read("/proc/cmdline", 65536);
    if (line)
        tw_pv_put(o, "command_line", tw_pv_text(c, line));
    tw_free(line);
    tw_pv_put(o, "address_layout", tw_pv_line("/proc/sys/kernel/randomize_va_space"));
    return o;
}

/* The locale as setlocale would choose it. */
static json_t *locale(const struct tw_collector *c)
{
    static const char *const order[] = {"LC_ALL", "LC_NUMERIC", "LANG"};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const char *value = tw_pv_variable(c->env, order[i]);
        if (value && *value)
            return tw_json_bytes(value);
    }
    return json_string("C");
}

/* What just-in-time compilers call, and the option by which each says its version. */
static const char *const compilers[][3] = {{"gcc", "-dumpfullversion", NULL},
                                           {"clang", "--version", NULL},
                                           {"nvcc", "--version", NULL},
                                           {"ld", "--version", NULL}};
enum { COMPILERS = sizeof compilers / sizeof compilers[0], ANSWER_S = 5 };

/* Which files the compilers are, with their times: changes when one is replaced, and costs nothing
 * to find out. */
static json_t *compiler_stamp(const char *path)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < COMPILERS; i++) {
        struct stat st;
        char *file = tw_program_find(compilers[i][0], path, NULL);
        if (file && stat(file, &st) == 0)
            tw_buf_printf(&b, "%s%s=%lld.%09ld", b.len ? " " : "", file,
                          (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        tw_free(file);
    }
    json_t *v = b.len ? tw_json_bytes(b.data) : json_null();
    tw_buf_free(&b);
    return v;
}

/* Starts each and takes the first line of its answer; nvcc's version is further down. */
static json_t *ask_compilers(void)
{
    json_t *o = json_object();
    for (size_t i = 0; i < COMPILERS; i++) {
        struct tw_ask a = {.argv = compilers[i], .limit_s = ANSWER_S, .cap = 65536};
        if (tw_ask(&a)) {
            const char *release = strstr(a.out, "release ");
            const char *text = i == 2 && release ? release : a.out;
            tw_pv_put(o, compilers[i][0], json_stringn(text, strcspn(text, "\n")));
        } else if (!a.missing) {
            /* it is there, and gave no answer in time: not known */
            tw_pv_put(o, compilers[i][0], json_null());
        }
        tw_free(a.out);
    }
    return o;
}

/* Asking takes some tenths of a second, so the answer of the run before counts while the files are
 * the same. */
void tw_pv_compilers(struct tw_collector *c)
{
    json_t *o = json_object_get(c->root, "environment");
    json_t *old = json_object_get(c->before, "environment");
    const char *path = tw_pv_variable(c->env, "PATH");
    if (path)
        setenv("PATH", path, 1); /* the ones the job would find: just-in-time compilers call them */
    json_t *now = compiler_stamp(path);
    bool same = !json_is_null(now) && json_equal(json_object_get(old, "compilers_stamp"), now);
    tw_pv_put(o, "compilers",
              same ? json_incref(json_object_get(old, "compilers")) : ask_compilers());
    tw_pv_put(o, "compilers_stamp", now);
}

json_t *tw_pv_environment(struct tw_collector *c)
{
    json_t *o = json_object();
    tw_pv_put(o, "system", os_release());
    tw_pv_put(o, "kernel", kernel(c));
    tw_pv_put(o, "libc", json_string(gnu_get_libc_version()));
    tw_pv_put(o, "cpu", cpu());
    tw_pv_put(o, "memory", memory_json());
    tw_pv_put(o, "limits", limits());
    tw_pv_put(o, "cgroup", cgroup());
    tw_pv_put(o, "container", container(c));
    tw_pv_put(o, "locale", locale(c));
    tw_pv_put(o, "topology", tw_pv_topology(c));
    return o;
}
