/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "base.h"

#include <jansson.h>
#include <stdlib.h>

enum { RUN_JSON_MAX = 64 << 20 };

static int one(const json_t *object, const char *key, const char *name, tw_world_fn *each, void *user, struct twin_error *err)
{
    const json_t *v = json_object_get(object, key);
    char number[32];
    if (json_is_integer(v)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        return each(user, name, number, err);
    }
    return json_is_string(v) && json_string_length(v) ? each(user, name, json_string_value(v), err) : 0;
}

int tw_world_of(const struct twin_run *r, tw_world_fn *each, void *user, struct twin_error *err)
{
    static const char *const variables[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "CUDA_VISIBLE_DEVICES"};
    char *path = tw_path_join(r->dir, "run.json"), *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    if (path && tw_read_file(path, RUN_JSON_MAX, &text, &bytes, NULL) == 0)
        root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *machine = json_object_get(root, "machine"), *env = json_object_get(root, "env");
    int rc = one(machine, "cpu", "processor", each, user, err);
    if (rc == 0)
        rc = one(machine, "machine", "architecture", each, user, err);
    if (rc == 0)
        rc = one(machine, "cpus", "processors", each, user, err);
    for (size_t i = 0; rc == 0 && i < sizeof variables / sizeof variables[0]; i++)
        rc = one(env, variables[i], variables[i], each, user, err);
    json_decref(root);
    tw_free(text);
    tw_free(path);
    return rc;
}
