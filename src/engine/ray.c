/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ray: a template (command.c) of our own, `python3 -m twinrun.ray_run ... --node {host} {script}`,
 * and the hosts that Ray names. Ray is imported by that module alone, in a process of its own for
 * each run; nothing here knows what it is.
 */
#include "engine_inside.h"

#include "base.h"

#include "src/launch/capture.h"
#include "src/launch/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* A head that is busy answers late; one that is away, after Ray's own patience. */
enum { ANSWER_S = 90 };

/* The module's command, with the user's words (behind `ray:`, separated by blanks) quoted. The
 * module is found though only PATH's Python is known, which need not have it installed. malloc'ed.
 */
static char *module_command(const char *words, struct twin_error *err)
{
    struct tw_buf b = {0};
    struct twin_parts parts = {0};
    int rc = twin_parts_find(&parts, err);
    char *folder = rc == 0 && parts.python_dir ? tw_shell_word(parts.python_dir) : NULL;
    char *found = rc == 0 ? tw_find_python(NULL) : NULL;
    char *python = found ? tw_shell_word(found) : NULL;
    if (rc == 0 && !folder)
        rc = twin_error_set(err, TWIN_ENOENT, "--on ray: twinrun's Python modules are not there");
    if (rc == 0 && python) {
        tw_buf_printf(&b, "PYTHONPATH=%s${PYTHONPATH:+:$PYTHONPATH} exec %s -m twinrun.ray_run",
                      folder, python);
        tw_engine_add_words(&b, words);
    }
    twin_parts_free(&parts);
    tw_free(folder);
    tw_free(found);
    tw_free(python);
    if (rc != 0 || !python) {
        tw_buf_free(&b);
        return NULL;
    }
    return tw_buf_steal(&b);
}

/* "node NAME TYPE" with tabs; other lines are Ray's own words. */
static int read_nodes(struct tw_engine *e, char *out, char last[300], struct twin_error *err)
{
    char *save = NULL;
    int rc = 0;
    for (char *line = strtok_r(out, "\n", &save); rc == 0 && line;
         line = strtok_r(NULL, "\n", &save)) {
        char *name = tw_starts(line, "node\t") ? line + 5 : NULL;
        char *type = name ? strchr(name, '\t') : NULL;
        if (!type) {
            snprintf(last, 300, "%s", line);
            continue;
        }
        *type = '\0';
        if (!tw_engine_node(e, name) && !strchr(name, ','))
            rc = tw_engine_add_node(e, name, type + 1, true, err);
    }
    return rc;
}

static int list_nodes(struct tw_engine *e, const char *command, struct twin_error *err)
{
    char *argv[4], *out = NULL, last[300] = "it named no node";
    char *line = tw_printf("%s --list 2>&1", command);
    struct twin_error why = TWIN_ERROR_INIT; /* the first message of an error stays */
    int status = 0;
    if (!line)
        return tw_no_memory(err, "for a command");
    tw_shell_argv(line, argv);
    int rc = tw_capture(argv, ANSWER_S, &out, &status, &why);
    if (rc == 0)
        rc = read_nodes(e, out, last, err);
    bool failed = rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !e->node_count);
    tw_free(line);
    tw_free(out);
    if (rc == TWIN_ELIMIT || failed)
        return twin_error_set(err, failed ? TWIN_EIO : rc,
                              "--on ray: %s; try ray status: is a cluster of this Ray up, and "
                              "python3 of PATH the Python that has Ray?",
                              failed ? last : "no answer");
    return rc ? twin_error_set(err, rc, "%s", why.message) : 0;
}

/* Braces in the user's words would be placeholders of the template. */
int tw_ray_probe(struct tw_engine *e, struct twin_error *err)
{
    if (e->own) /* the template is made, and the nodes are those that were there then */
        return 0;
    if (e->node_count)
        return twin_error_set(err, TWIN_EINVAL, "--hosts is for --on cmd: Ray knows its nodes");
    if (strchr(e->words, '{'))
        return twin_error_set(err, TWIN_EINVAL,
                              "--on ray: expected options (--address, --num-cpus, --num-gpus, "
                              "--resource NAME=AMOUNT), found \"%s\"",
                              e->words);
    char *command = module_command(e->words, err);
    int rc = command ? list_nodes(e, command, err) : tw_no_memory(err, "for a command");
    char *all = rc == 0 ? tw_printf("%s --node {host} {script}", command) : NULL;
    if (rc == 0 && !all)
        rc = tw_no_memory(err, "for a command");
    tw_free(command);
    if (rc != 0)
        return rc;
    tw_free(e->words);
    e->words = all;
    e->own = all;
    return 0;
}
