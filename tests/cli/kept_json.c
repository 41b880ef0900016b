/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands before twinrun in the PATH of the command line cases, so that each object that --json
 * prints can be held against its schema, also where the case gives it to another program. Such a
 * command prints into a file of the folder $JSON_KEPT, which is then copied to stdout; all others,
 * and those whose stdout is a terminal, a device or closed, become twinrun at once.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t twinrun;

/* Who signals us means twinrun. */
static void pass_on(int signal)
{
    if (twinrun > 0)
        kill(twinrun, signal);
}

/* record and run name a file after --json: the runner finds that one in the case's folder. */
static bool prints_json(char **argv)
{
    if (!argv[0] || !argv[1] || strcmp(argv[1], "record") == 0 || strcmp(argv[1], "run") == 0)
        return false;
    for (size_t i = 2; argv[i] && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

static bool stdout_takes_a_copy(void)
{
    struct stat st;
    return fstat(STDOUT_FILENO, &st) == 0 && (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode));
}

static bool copy_to_stdout(int from)
{
    char buffer[65536];
    ssize_t n;
    lseek(from, 0, SEEK_SET);
    while ((n = read(from, buffer, sizeof buffer)) > 0) {
        for (ssize_t done = 0, wrote; done < n; done += wrote) {
            if ((wrote = write(STDOUT_FILENO, buffer + done, (size_t)(n - done))) < 0)
                return false;
        }
    }
    return n == 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    char program[PATH_MAX], kept[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 32);
    if (n < 0)
        return 2;
    program[n] = '\0';
    strcpy(strstr(program, "/tests/cli/kept_json"), "/cmd/twinrun");
    const char *folder = getenv("JSON_KEPT");
    int fd = -1;
    if (folder && prints_json(argv) && stdout_takes_a_copy()) {
        snprintf(kept, sizeof kept, "%s/XXXXXX.json", folder);
        fd = mkostemps(kept, 5, O_CLOEXEC);
    }
    if (fd < 0) {
        execv(program, argv);
        return 2;
    }
    struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t blocked, before;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&blocked, signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    twinrun = fork();
    if (twinrun == 0) {
        dup2(fd, STDOUT_FILENO);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execv(program, argv);
        _exit(2);
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &forward, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int status;
    if (twinrun < 0 || waitpid(twinrun, &status, 0) != twinrun || !copy_to_stdout(fd))
        return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
