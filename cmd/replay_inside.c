/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun --replay-inside FOLDER: what replay starts in a container, and nobody types. Code and
 * data lie in FOLDER already, at the path that it has outside. Here, where the image's Python and
 * packages are, they are held against the package's; the command is run and recorded. How that
 * ended goes into a file of FOLDER; the verdict is made outside.
 */
#include "replay.h"
#include "runs.h"
#include "say.h"

#include "base.h"
#include "json_load.h"

#include "src/image/image.h"

#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A list of texts of the order as an array that ends in NULL, which borrows the texts. */
static const char **texts_of(const json_t *order, const char *key)
{
    const json_t *list = json_object_get(order, key), *item;
    const char **out = tw_calloc(json_array_size(list) + 1, sizeof *out);
    size_t i, n = 0;
    json_array_foreach (list, i, item)
        if (out && json_string_value(item))
            out[n++] = json_string_value(item);
    return out;
}

/* The image's variables instead of the engine's, where the engine does not know the image's. */
static void set_variables(const json_t *order, const char *folder)
{
    const json_t *list = json_object_get(order, "environment"), *item;
    char *home = tw_path_join(folder, "home"), *parts = tw_path_join(folder, "twinrun/parts");
    const char *image = json_string_value(json_object_get(order, "image"));
    size_t i;
    if (json_is_array(list))
        clearenv();
    json_array_foreach (list, i, item) {
        char *name = json_string_value(item) ? tw_strdup(json_string_value(item)) : NULL;
        char *sign = name ? strchr(name, '=') : NULL;
        if (sign && sign > name) {
            *sign = '\0';
            setenv(name, sign + 1, 1);
        }
        tw_free(name);
    }
    /* docker was told empty ones, for it not to hand on this machine's */
    for (const char *const *p = tw_proxy_variables; *p; p++)
        if (getenv(*p) && !*getenv(*p))
            unsetenv(*p);
    if (!getenv("PATH"))
        setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    if (home)
        setenv("HOME", home, 1);
    if (parts)
        setenv("TWINRUN_LIBDIR", parts, 1);
    /* the run's record cannot see the image's digest from inside */
    if (image)
        setenv("CONTAINER_IMAGE_DIGEST", image, 1);
    tw_free(home);
    tw_free(parts);
}

/*
 * Gives up all rights of root, for good: chroot holds nobody back who keeps them. Where they were
 * given up before (or never held) there is nothing to do.
 */
static int drop_rights(struct twin_error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0)
            return twin_error_system(err, "cannot give up the rights of root (%lu)", cap);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_capset, &head, none) != 0)
        return twin_error_system(err, "cannot give up the rights of root");
    return 0;
}

/*
 * Is twinrun still there, which started this container? Where the container asks for its end with
 * twinrun's a moment after its start (chroot), twinrun holds the other end of a pipe. The job does
 * not get it.
 */
static int check_tie(struct twin_error *err)
{
    struct stat st;
    struct pollfd p = {.fd = TW_CONTAINER_TIE, .events = POLLIN};
    const bool is_pipe = fstat(TW_CONTAINER_TIE, &st) == 0 && S_ISFIFO(st.st_mode);
    const int said = is_pipe ? poll(&p, 1, 0) : -1;
    if (is_pipe)
        close(TW_CONTAINER_TIE);
    if (said < 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected a pipe of twinrun's at descriptor %d, found none: a "
                              "container is started by `twinrun replay --container` alone",
                              TW_CONTAINER_TIE);
    return said ? twin_error_set(err, TWIN_EIO, "twinrun, which started this container, has ended")
                : 0;
}

/* Says in FOLDER how it ended; run: NULL where none was started. */
static int write_end(const char *folder, int code, const struct twin_run *run,
                     const struct twin_unpacked *u, struct twin_error *err)
{
    char *path = tw_path_join(folder, TW_REPLAY_ENDED);
    const char *missing = u->missing;
    if (!run && json_array_size(u->differences))
        missing = "environment";
    json_t *o = json_pack("{s:i, s:o, s:o, s:s?, s:o}", "code", code, "run",
                          run ? tw_json_text(run->dir) : json_null(), "differences",
                          u->differences ? json_incref(u->differences) : json_array(), "missing",
                          missing, "message", run ? json_null() : tw_json_text(tw_said()));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    int rc = path && text ? tw_write_file_atomic(path, text, strlen(text), err)
                          : tw_no_memory(err, "replaying in a container");
    free(text);
    json_decref(o);
    tw_free(path);
    return rc;
}

/* Finds the command and runs it. -1: *run is there; else the exit code. */
static int run_order(const json_t *order, const char *folder, const char *copy,
                     struct twin_unpacked *u, struct twin_run **run)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const char *how = json_string_value(json_object_get(order, "how"));
    const char **data = texts_of(order, "data"), **pip = texts_of(order, "pip");
    const struct twin_bag_verdict verified = {0}; /* it was, outside */
    const struct twin_unpack_options o = {
        .part = TWIN_UNPACK_REST,
        .into = folder,
        .data = data,
        .python = json_string_value(json_object_get(order, "python")),
        .build = how && strcmp(how, "build") == 0,
        .pip = pip,
    };
    int rc = data && pip && how ? twin_unpack(copy, &verified, &o, u, &err)
                                : tw_no_memory(&err, "replaying in a container");
    tw_free(data);
    tw_free(pip);
    if (rc)
        return tw_trouble(&err, "replay: nothing was run");
    rc = tw_replay_say_differences(how, u);
    if (rc < 0)
        rc = tw_replay_launch(false, u, folder, run);
    return rc;
}

int tw_replay_inside(const char *folder)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_unpacked u = {0};
    struct twin_run *run = NULL;
    char *path = tw_path_join(folder, TW_REPLAY_ORDER), *copy = tw_path_join(folder, "verified");
    char *text = NULL;
    size_t n = 0;
    int rc = path && copy ? tw_read_file(path, 1 << 20, &text, &n, &err)
                          : tw_no_memory(&err, "replaying in a container");
    json_t *order = rc == 0 ? tw_json_load(text, n, 0, NULL) : NULL;
    int code = TW_EXIT_TROUBLE;
    if (!json_is_object(order)) {
        code = tw_trouble(&err, "replay: no order in %s", folder);
    } else {
        set_variables(order, folder);
        rc = json_is_true(json_object_get(order, "tied")) ? check_tie(&err) : 0;
        if (rc == 0 && json_is_true(json_object_get(order, "drop")))
            rc = drop_rights(&err);
        code = rc ? tw_trouble(&err, "replay: nothing was run")
                  : run_order(order, folder, copy, &u, &run);
        rc = write_end(folder, code < 0 ? 0 : code, run, &u, &err);
        if (rc)
            code = tw_trouble(&err, "replay: cannot say how it ended");
        else if (code < 0)
            code = 0;
    }
    twin_unpacked_free(&u);
    twin_run_free(run);
    json_decref(order);
    tw_free(text);
    tw_free(path);
    tw_free(copy);
    return code;
}
