/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about one process: its state and times, its arguments, and why our agent is not
 * in it. tree.c calls this for the processes of the job. A process may end or exec at any moment,
 * so every answer may also be "not known now". */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "/libtwinrun.so"

/* Bytes that are read of a process's environment and of its list of mappings. */
enum { ENVIRON_MAX = 2 << 20, MAPS_MAX = 16 << 20 };

int tw_proc_read_small(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, out, room - 1);
    close(fd);
    if (n < 0)
        return -1;
    out[n] = '\0';
    return (int)n;
}

/* pid (comm) state ppid pgrp ... starttime is field 22, vsize field 23, arg_start field 48. The
 * name may hold anything, also ") S 1": take the last ')'. */
bool tw_proc_stat(pid_t pid, struct tw_proc *out)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (tw_proc_read_small(path, text, sizeof text) <= 0)
        return false;
    char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %c %d %d", &out->state, &out->ppid, &out->pgrp) != 3)
        return false;
    p++;
    out->cpu_ticks = out->threads = 0;
    for (int field = 2; field < 21 && p; field++) { /* p stands before field 3 */
        if (field == 13 || field == 14)             /* user and system time are 14 and 15 */
            out->cpu_ticks += strtoull(p + 1, NULL, 10);
        else if (field == 19)
            out->threads = (uint32_t)strtoul(p + 1, NULL, 10);
        p = strchr(p + 1, ' ');
    }
    out->pid = pid;
    char *size = NULL;
    out->start = p ? strtoull(p + 1, &size, 10) : 0;
    out->has_memory = size && strtoull(size, NULL, 10) > 0;
    for (int field = 22; field < 47 && p; field++)
        p = strchr(p + 1, ' ');
    out->image = p ? strtoull(p + 1, NULL, 10) : 0;
    out->mark = 0;
    return true;
}

uint64_t tw_process_start_ticks(pid_t pid)
{
    struct tw_proc line;
    return tw_proc_stat(pid, &line) ? line.start : 0;
}

/* argv joined by spaces, secrets masked; NULL when it has none (a zombie) or there is no memory. */
char *tw_proc_argv(pid_t pid)
{
    char path[40], text[TW_ARGV_MAX + 1], line[TW_ARGV_MAX + 1];
    size_t used = 0;
    int pending = TW_SECRET_NONE;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int n = tw_proc_read_small(path, text, sizeof text);
    while (n > 0 && text[n - 1] == '\0')
        n--;
    if (n <= 0)
        return NULL;
    for (const char *p = text; p < text + n; p += strlen(p) + 1) {
        if (p > text && used < sizeof line - 1)
            line[used++] = ' ';
        used += tw_secret_mask(&pending, p, strnlen(p, (size_t)(text + n - p)), line + used,
                               sizeof line - used);
    }
    for (size_t i = 0; i < used; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    return tw_strndup(line, used);
}

/* The file of /proc/PID as text, malloc'ed; NULL when it cannot be read. *n: its bytes. */
static char *read_of(pid_t pid, const char *name, size_t cap, size_t *n)
{
    char path[40], *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return tw_read_file(path, cap, &text, n, NULL) == 0 ? text : NULL;
}

/* What is wrong with the environment that the program was started with; NULL: nothing. */
static const char *environment_fault(pid_t pid, const char *environ_line, const char *preload_why)
{
    size_t n = 0;
    char *text = read_of(pid, "environ", ENVIRON_MAX, &n);
    if (!text)
        return "its environment cannot be read";
    bool passed_on = false, preload = false;
    for (const char *p = text; p < text + n; p += strlen(p) + 1) {
        passed_on |= strcmp(p, environ_line) == 0;
        preload |= tw_starts(p, "LD_PRELOAD=") && strstr(p, LIBRARY);
    }
    tw_free(text);
    if (!passed_on)
        return "environment not passed on";
    if (preload_why)
        return preload_why;
    return preload ? NULL : "LD_PRELOAD not passed on";
}

/* Is our agent's library mapped in the process? */
static bool maps_library(pid_t pid)
{
    size_t n = 0;
    char *text = read_of(pid, "maps", MAPS_MAX, &n);
    bool has = text && memmem(text, n, LIBRARY, strlen(LIBRARY));
    tw_free(text);
    return has;
}

static const char foreign[] = "another user's process: it cannot be looked into";

/* The properties of the program come before those of its environment: they would hold with a better
 * one too. */
static const char *why_unarmed(pid_t pid, const char *environ_line, const char *preload_why)
{
    struct tw_elf elf;
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (tw_elf_inspect(path, &elf) != 0)
        return errno == EACCES || errno == EPERM ? foreign : "its program cannot be opened";
    if (maps_library(pid))
        return NULL;
    if (elf.foreign)
        return "a program for another kind of machine";
    if (elf.is_elf && !elf.dynamic)
        return "static binary";
    if (tw_program_is_privileged(path))
        return "set-user-ID program";
    const char *why = environment_fault(pid, environ_line, preload_why);
    if (why)
        return why;
    return elf.sanitizer ? "built with a sanitizer" : "its loader did not load the agent library";
}

/* What is seen of a process counts only if it was one program, and whole, all the time: one that is
 * ending gives its program and arguments back first, and its state changes last; an exec puts the
 * program in place first, its arguments and environment last. */
bool tw_proc_why_unarmed(pid_t pid, uint64_t start, const char *environ_line,
                         const char *preload_why, const char **why)
{
    struct tw_proc first, again;
    if (!tw_proc_stat(pid, &first))
        return false;
    *why = why_unarmed(pid, environ_line, preload_why);
    return tw_proc_stat(pid, &again) && again.start == start && again.has_memory &&
           again.image == first.image && (again.image != 0 || *why == foreign);
}
