/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: finds the command and runs it. commands.h is the one list of them. Before that, two
 * things are put right that a job's surroundings may have wrong: closed standard streams and a
 * limit on file sizes. After it, the exit code is made to say when an answer did not reach its
 * reader.
 */
#include "node_run.h"
#include "replay.h"
#include "pictures.h"
#include "options.h"
#include "terminal.h"
#include "say.h"

#include "base.h"

#include "src/report/schemas.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

const char *const tw_command_group_titles[TW_GROUPS] = {
    [TW_GROUP_FIND] = "Find where runs differ, and why",
    [TW_GROUP_FIX] = "Fix: hold still what varies",
    [TW_GROUP_PROVE] = "Prove what was run, to others",
    [TW_GROUP_LEARN] = "Learn how far numbers move",
    [TW_GROUP_KEEP] = "Keep runs",
};

#define COMMAND(group, name) {TW_GROUP_##group, &tw_command_##name},
static const struct {
    enum tw_command_group group;
    const struct tw_command *command;
} rows[] = {
#include "commands.h"
};
#undef COMMAND

enum { COMMANDS = sizeof rows / sizeof rows[0] };

const struct tw_command *tw_command_at(size_t i)
{
    return i < COMMANDS ? rows[i].command : NULL;
}

enum tw_command_group tw_command_group_at(size_t i)
{
    return rows[i].group;
}

/* A word that is near to a command is taken for a slip; any other one perhaps for a job. */
static int unknown_command(const char *name)
{
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = rows[i].command->name;
    const char *near = tw_nearest(name, names);
    if (near)
        return tw_bad_use(NULL, "unknown command \"%s\"; did you mean %s?", name, near);
    return tw_bad_use(NULL, "unknown command \"%s\"; to watch a job: twinrun check -- COMMAND",
                      name);
}

/* Help or man page: of one command, or of the whole where name is NULL. */
static int print_page(const char *name, void (*whole)(FILE *),
                      void (*one)(FILE *, const struct tw_command *))
{
    if (!name) {
        whole(stdout);
        return 0;
    }
    const struct tw_command *c = tw_command_find(name);
    if (!c)
        return unknown_command(name);
    one(stdout, c);
    return 0;
}

static int print_completion(const char *shell)
{
    if (shell && strcmp(shell, "bash") == 0)
        tw_complete_bash(stdout);
    else if (shell && strcmp(shell, "zsh") == 0)
        tw_complete_zsh(stdout);
    else if (shell && strcmp(shell, "fish") == 0)
        tw_complete_fish(stdout);
    else
        return tw_bad_use(NULL, "--completion: expected bash, zsh or fish, found %s",
                          shell ? shell : "nothing");
    return 0;
}

/* The JSON Schema of what a command prints with --json; without a name, the list of them. */
static int print_schema(const char *name)
{
    if (!name) {
        for (const struct tw_schema *s = tw_schemas; s->name; s++)
            tw_put("%-16s %s\n", s->name, s->printed_by);
        return 0;
    }
    const struct tw_schema *s = tw_schema_find(name);
    if (!s && tw_command_find(name))
        return tw_bad_use(
            NULL, "--schema: %s has no --json; twinrun --schema lists those that have", name);
    if (!s)
        return tw_bad_use(NULL,
                          "--schema: expected a command that has --json, found \"%s\"; twinrun "
                          "--schema lists them",
                          name);
    fputs(s->text, stdout); /* exact bytes: a file of ours, word for word */
    return 0;
}

/*
 * Options that are no command's come first; everything else belongs to the command. The exit code.
 */
static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL, *next = argc > 2 ? argv[2] : NULL;
    if (!word) {
        tw_help_main(stderr);
        return TW_EXIT_TROUBLE;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        tw_put("twinrun %s\n", TWINRUN_VERSION);
        return 0;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return print_page(next, tw_help_main, tw_help_command);
    if (strcmp(word, "--man") == 0)
        return print_page(next, tw_man_main, tw_man_command);
    if (strcmp(word, "--completion") == 0)
        return print_completion(next);
    if (strcmp(word, "--schema") == 0)
        return print_schema(next);
    if (strcmp(word, "--node-run") == 0 && next) /* an engine's, not a person's */
        return tw_node_run(next);
    if (strcmp(word, "--replay-inside") == 0 && next) /* replay's, in a container */
        return tw_replay_inside(next);
    if (strcmp(word, "--pictures") == 0) /* serve's, as the next */
        return tw_pictures(argc - 2, argv + 2);
    if (strcmp(word, "--postmortem") == 0)
        return tw_postmortem(argc - 2, argv + 2);
    if (word[0] == '-')
        return tw_bad_use(NULL, "expected a command, found \"%s\"", word);
    const struct tw_command *c = tw_command_find(word);
    return c ? c->run(argc - 1, argv + 1) : unknown_command(word);
}

/* A handler that does nothing makes the write fail with EFBIG, which is reported as any other
 * failed write. */
static void nothing(int signal)
{
    (void)signal;
}

/* A file of ours beyond the user's limit (ulimit -f) is a failed write, not our end. A handler,
 * since exec gives the job back what it would have had; ignored, the signal would be ignored by the
 * job, too. */
static void outlive_file_limits(void)
{
    struct sigaction now;
    if (sigaction(SIGXFSZ, NULL, &now) != 0 || now.sa_handler != SIG_DFL)
        return;
    now = (struct sigaction){.sa_handler = nothing, .sa_flags = SA_RESTART};
    sigaction(SIGXFSZ, &now, NULL);
}

/* A file of ours must not take the number of a stream that is closed: messages would be written
 * into it. Read only, so that writing fails as on a closed one; exec closes it for the job. */
static void hold_closed_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd < 3);
    if (fd >= 0)
        close(fd);
}

/* Is stdout a pipe whose reader has gone, as `| head -1` does? Who asked for one line wants no
 * complaint about the others. Comes here only where SIGPIPE is ignored. */
static bool reader_has_left(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR) != 0;
}

int main(int argc, char **argv)
{
    hold_closed_streams();
    outlive_file_limits();
    int rc = dispatch(argc, argv);
    tw_progress_clear();
    /* A verdict that did not reach its reader must not look like one that did. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        int why = errno;
        if (!reader_has_left())
            tw_say("cannot write to stdout: %s", strerror(why));
        return TW_EXIT_TROUBLE;
    }
    return rc;
}
