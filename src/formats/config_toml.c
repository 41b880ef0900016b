/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TOML by Python's own tomllib (3.11 and later), in a process of its own. Debian has no TOML reader
 * for C; the two for C++ were tried, and one of them (toml++ 3.3.0) met assertions and unreachable
 * code within a minute of fuzzing. The text goes in and comes out through unnamed files, so nothing
 * waits for anything.
 */
#include "config_values.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What Python may take: a fixed part for itself, and so much for each byte of the text ("a.a.a"
 * costs its square). Bytes of address space; seconds of processor time. */
#define ADDRESS_FREE_BYTES ((rlim_t)256 << 20)
enum { ADDRESS_BYTES_EACH = 128, CPU_SECONDS_FREE = 8, BYTES_A_SECOND = 1 << 20 };
/* Exit codes: the first two are the program's own, the last one is what a shell says when there is
 * no such program. */
enum { REFUSED = 3, TOO_OLD = 4, NO_PYTHON = 127 };

/* Prints the values as JSON, with our tags for what it cannot say, or why not. */
static const char program[] =
    "import sys\n"
    "def refuse(why, code=3):\n"
    "    sys.stdout.write(why)\n"
    "    sys.stdout.flush()\n"
    "    sys.exit(code)\n"
    "if sys.version_info < (3, 11):\n"
    "    refuse('python3 is ' + sys.version.split()[0], 4)\n"
    "import json, math, tomllib\n"
    "def settle(v):\n"
    "    if isinstance(v, dict):\n"
    "        for k in v:\n"
    "            if k.startswith('" TW_TAG "') or '\\0' in k:\n"
    "                refuse('the key %r: keys with NUL, and those that begin with " TW_TAG
    ", are reserved' % k)\n"
    "        return {k: settle(x) for k, x in v.items()}\n"
    "    if isinstance(v, list):\n"
    "        return [settle(x) for x in v]\n"
    "    if isinstance(v, float) and not math.isfinite(v):\n"
    "        refuse('NaN and infinities have no canonical form')\n"
    "    if isinstance(v, int) and not -1 << 63 <= v < 1 << 63:\n"
    "        refuse('an integer that needs more than 64 bits')\n"
    "    if not isinstance(v, (str, bool, int, float)):\n"
    "        return {'" TW_TAG "time': v.isoformat()}\n"
    "    return v\n"
    "try:\n"
    "    text = json.dumps(settle(tomllib.loads(sys.stdin.buffer.read().decode())))\n"
    "except MemoryError:\n"
    "    refuse('it would need too much memory for its size')\n"
    "except RecursionError:\n"
    "    refuse('values nested too deep')\n"
    "except ValueError as e:\n"
    "    refuse(str(e))\n"
    "sys.stdout.write(text)\n";

/* An unnamed file with this in it, at its beginning; -1 with errno. */
static int unnamed(const char *data, size_t n)
{
    int fd = memfd_create("twinrun", MFD_CLOEXEC);
    if (fd >= 0 && (tw_write_all(fd, data, n) != 0 || lseek(fd, 0, SEEK_SET) != 0)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* Runs python3 on the text in descriptor `in`; its answer goes to `out`. Returns how it ended, as
 * waitpid says; -1 with errno. n: bytes of the text, for the limits. -I and -S keep the user's
 * packages and settings out. */
static int run(int in, int out, size_t n)
{
    int status, null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t pid = null < 0 ? -1 : fork();
    if (pid == 0) {
        const rlim_t seconds = CPU_SECONDS_FREE + n / BYTES_A_SECOND;
        const struct rlimit cpu = {seconds, seconds};
        const rlim_t most = ADDRESS_FREE_BYTES + (rlim_t)ADDRESS_BYTES_EACH * n;
        const struct rlimit room = {most, most};
        setrlimit(RLIMIT_CPU, &cpu);
        setrlimit(RLIMIT_AS, &room);
        /* Our own descriptors are closed by exec; the three that it needs are not. */
        if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(null, 2) == 2)
            execlp("python3", "python3", "-I", "-S", "-c", program, (char *)NULL);
        _exit(NO_PYTHON);
    }
    if (null >= 0)
        close(null);
    /* It reads a file and so waits for nobody, and its limits end it: this wait ends. */
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return pid > 0 ? status : -1;
}

/* What was written, with a NUL behind it (tw_free). */
static char *read_back(int fd, size_t *n)
{
    struct stat st;
    char *text = fstat(fd, &st) == 0 ? tw_malloc((size_t)st.st_size + 1) : NULL;
    ssize_t got = text ? tw_pread_all(fd, text, (size_t)st.st_size, 0) : -1;
    if (got >= 0) {
        text[got] = '\0';
        *n = (size_t)got;
        return text;
    }
    tw_free(text);
    return NULL;
}

static void too_old(const char *name, const char *why, struct twin_error *err)
{
    twin_error_set(err, TWIN_EUNSUPPORTED,
                   "%s: TOML is read by Python 3.11 or later: %s; convert the file to JSON", name,
                   why);
}

/* Makes a value of the answer, or an error of the exit code. A signal is mostly one of the limits.
 */
static json_t *judge_answer(int status, const char *text, size_t n, const char *name,
                            struct twin_error *err)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    char *why = tw_printable(text, strnlen(text, 400));
    json_t *value = NULL;
    if (code == 0)
        value = tw_config_from_python(text, n, name, err);
    else if (code == REFUSED)
        twin_error_set(err, TWIN_EFORMAT, "%s: %s", name, why ? why : "not TOML");
    else if (code == TOO_OLD)
        too_old(name, why ? why : "python3 is older", err);
    else if (code == NO_PYTHON)
        too_old(name, "there is no python3 in PATH", err);
    else if (code < 0)
        twin_error_set(err, TWIN_ELIMIT, "%s: Python's tomllib could not read it (signal %d)", name,
                       WTERMSIG(status));
    else
        twin_error_set(err, TWIN_ELIMIT, "%s: Python's tomllib could not read it (exit code %d)",
                       name, code);
    tw_free(why);
    return value;
}

/* Text in, values out, both through files in memory: neither side can wait for the other. */
json_t *tw_config_from_toml(const char *data, size_t n, const char *name, struct twin_error *err)
{
    int in = unnamed(data, n);
    int out = unnamed("", 0);
    int status = in >= 0 && out >= 0 ? run(in, out, n) : -1;
    size_t bytes = 0;
    char *text = NULL;
    json_t *value = NULL;
    if (status < 0)
        twin_error_system(err, "%s: cannot start python3 to read TOML", name);
    else if (!(text = read_back(out, &bytes)))
        tw_no_memory(err, "for the values of %s", name);
    else
        value = judge_answer(status, text, bytes, name, err);
    tw_free(text);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return value;
}
