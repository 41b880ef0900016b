/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a run in a few names and values, taken from its provenance: what may change the last
 * bits of a sum, and what a person needs to understand why. `twinrun check` keeps it in a baseline,
 * and a gate holds another run's against it. The code is left out: that it changes is why there is
 * a gate.
 */
#include "world.h"

#include "base.h"

#include "src/provenance/provenance.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Who is told, and where an error of the caller goes. */
struct telling {
    tw_world_fn *each;
    void *user;
    struct twin_error *err;
};

/* Tells one value, if it is a text, an integer or a flag. 0, or what the caller returned. */
static int tell_value(const struct telling *t, const char *name, const json_t *v)
{
    char number[64];
    if (json_is_integer(v))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_boolean(v))
        snprintf(number, sizeof number, "%s", json_is_true(v) ? "true" : "false");
    else if (!json_is_string(v) || !json_string_length(v))
        return 0;
    return t->each(t->user, name, json_is_string(v) ? json_string_value(v) : number, t->err);
}

/* All values of an object; of environment variables not those that name places, or were masked. */
static int tell_all(const struct telling *t, json_t *object, bool variables)
{
    static const char *const places[] = {
        "PATH",       "PWD",         "HOME",   "LD_LIBRARY_PATH", "LD_PRELOAD",
        "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR", "HOSTNAME"};
    const char *key;
    json_t *v;
    int rc = 0;
    json_object_foreach (object, key, v) {
        bool skip = false;
        for (size_t i = 0; variables && i < sizeof places / sizeof places[0]; i++)
            /* where things lie says little about what they are */
            skip |= strcmp(key, places[i]) == 0;
        skip |= variables &&
                (strstr(key, "CACHE_DIR") ||
                 tw_starts(json_string_value(v) ? json_string_value(v) : "", "[redacted"));
        if (rc == 0 && !skip)
            rc = tell_value(t, key, v);
    }
    return rc;
}

static int processor(const struct telling *t, const json_t *cpu)
{
    const char *flags = json_string_value(json_object_get(cpu, "flags"));
    char model[96];
    int rc = tell_value(t, "processor", json_object_get(cpu, "name"));
    const char *family = json_string_value(json_object_get(cpu, "family"));
    const char *number = json_string_value(json_object_get(cpu, "model"));
    if (family && number) {
        snprintf(model, sizeof model, "family %.20s model %.20s", family, number);
        rc = rc ? rc : t->each(t->user, "processor model", model, t->err);
    }
    if (flags) { /* libraries choose their code by them; there are too many to list */
        struct tw_hash128 h = tw_hash_bytes(flags, strlen(flags), 1);
        snprintf(model, sizeof model, "%s%s%016llx", strstr(flags, "avx512f") ? "avx512 " : "",
                 strstr(flags, "avx2") ? "avx2 " : "", (unsigned long long)h.a);
        rc = rc ? rc : t->each(t->user, "processor flags", model, t->err);
    }
    return rc ? rc : tell_value(t, "processors", json_object_get(cpu, "online"));
}

static int gpus(const struct telling *t, const json_t *accelerators)
{
    const json_t *list = json_object_get(accelerators, "gpus");
    int rc = tell_value(t, "driver", json_object_get(accelerators, "driver"));
    for (size_t i = 0; rc == 0 && i < json_array_size(list) && i < 16; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu %zu", i);
        rc = tell_value(t, name, json_object_get(json_array_get(list, i), "name"));
    }
    return rc;
}

static int from_provenance(const struct telling *t, json_t *p)
{
    const json_t *environment = json_object_get(p, "environment");
    const json_t *rank = json_array_get(json_object_get(p, "ranks"), 0);
    int rc = processor(t, json_object_get(environment, "cpu"));
    rc = rc ? rc
            : tell_value(t, "architecture",
                         json_object_get(json_object_get(environment, "kernel"), "machine"));
    rc = rc ? rc : tell_value(t, "libc", json_object_get(environment, "libc"));
    rc = rc ? rc : gpus(t, json_object_get(p, "accelerators"));
    rc = rc ? rc : tell_all(t, json_object_get(rank, "versions"), false);
    rc = rc ? rc : tell_all(t, json_object_get(rank, "settings"), false);
    return rc ? rc : tell_all(t, json_object_get(rank, "variables"), true);
}

int tw_world_of(const struct twin_run *r, tw_world_fn *each, void *user, struct twin_error *err)
{
    struct telling t = {each, user, err};
    json_t *p = NULL;
    if (twin_provenance_load(r->dir, &p, NULL) != 0)
        return 0;
    int rc = from_provenance(&t, p);
    json_decref(p);
    return rc;
}
