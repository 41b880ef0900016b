/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a registry reads from others. The first byte says as what: an entry of the log,
 * the payload of one in an envelope that fits, or a promotion policy. What is taken is what it
 * says; all else is an error with a message. Built with libFuzzer (-Dfuzz=true), or with replay.c.
 */
#include "src/registry/registry.h"

#include "registry_inside.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

/* An entry that was taken can be written again, and says the same then. */
static void check_entry(const struct tw_entry *e)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_envelope again = {0};
    struct tw_entry second = {0};
    must(e->number >= 1 && e->number <= TW_REGISTRY_ENTRIES_MAX);
    must(e->kind < TW_ENTRY_KINDS && e->from < TW_STAGES && e->to < TW_STAGES);
    if (e->version)
        must(e->model && tw_model_name_ok(e->model));
    must(tw_entry_envelope(e, &again, &err) == 0);
    must(tw_entry_parse(&again, "again", &second, &err) == 0);
    must(second.number == e->number && second.kind == e->kind && second.version == e->version);
    must(strcmp(second.artifact, e->artifact) == 0 && strcmp(second.previous, e->previous) == 0);
    tw_entry_free(&second);
    twin_envelope_free(&again);
}

/* One that fits is applied, and the log's state stays one that can be asked. */
static void apply(struct tw_entry *e)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry r = {0};
    if (tw_registry_take(&r, e, &err) == 0)
        must(r.count == 1);
    else
        must(err.code < 0 && err.message[0] != '\0');
    tw_registry_close(&r);
}

static void parse_and_apply(const struct twin_envelope *env)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_entry e = {0};
    if (tw_entry_parse(env, "the entry", &e, &err) == 0) {
        check_entry(&e);
        apply(&e);
    } else {
        must(err.code < 0 && err.message[0] != '\0');
        tw_entry_free(&e);
    }
}

static void as_envelope(const char *text, size_t n)
{
    struct twin_envelope env = {0};
    if (twin_envelope_parse(text, n, "the entry", false, &env, NULL) == 0)
        parse_and_apply(&env);
    twin_envelope_free(&env);
}

static void as_payload(const char *text, size_t n)
{
    struct twin_envelope env = {0};
    must(twin_envelope_make(TWIN_PAYLOAD_INTOTO, text, n, &env, NULL) == 0);
    parse_and_apply(&env);
    twin_envelope_free(&env);
}

/* A policy that is taken has a table for the model and the stage: nothing is promoted by default.
 * There is no artifact, so what follows the reading is an error, too. */
static void as_policy(char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_registry r = {0};
    struct tw_promotion p;
    struct tw_version v = {.number = 1};
    const struct tw_model m = {.name = (char *)(uintptr_t) "vision/net", .version = &v, .count = 1};
    char folder[] = "/tmp/twinrun-fuzz-XXXXXX";
    static struct tw_store *store;
    memset(v.artifact, 'a', 64);
    if (!store) {
        must(mkdtemp(folder) != NULL && tw_store_open(folder, true, &store, NULL) == 0);
        tw_remove_tree(folder, NULL, NULL);
    }
    r.store = store;
    must(tw_promotion_judge(&r, &m, &v, TW_STAGE_CANARY, text, "policy", NULL, 0, &p, &err) < 0);
    must(err.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size);
    must(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'e')
        as_envelope(text, size - 1);
    else if (data[0] == 'p')
        as_payload(text, size - 1);
    else
        as_policy(text);
    free(text);
    return 0;
}
