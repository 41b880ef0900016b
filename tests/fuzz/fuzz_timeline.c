/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the journal of a search that twinrun serve shows: up to the first line that is empty
 * its search.json, behind that its log. Whatever it is, the answer is JSON within its bounds, each
 * line is counted once, and what is shown as pinned is a factor of the search.
 */
#include "answer.h"
#include "search.h"

#include "base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LISTED = 1000 };
static char home[64], folder[128];
static const char search[] = "2026-11-26T07-04-32Z-1";

static void must(bool yes)
{
    if (!yes)
        abort();
}

static void path_of(char path[160], const char *file)
{
    snprintf(path, 160, "%s/%s", folder, file);
}

static void remove_all(void)
{
    static const char *const files[] = {"search.json", "log.jsonl"};
    char path[160];
    for (size_t i = 0; i < 2; i++) {
        path_of(path, files[i]);
        unlink(path);
    }
    rmdir(folder);
    snprintf(path, sizeof path, "%s/searches", home);
    rmdir(path);
    rmdir(home);
}

/* In memory, where the machine has such a folder. */
static void make_home(void)
{
    snprintf(home, sizeof home, "%s/twinrun-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(home) != NULL);
    snprintf(folder, sizeof folder, "%s/searches", home);
    must(mkdir(folder, 0700) == 0);
    snprintf(folder, sizeof folder, "%s/searches/%s", home, search);
    must(mkdir(folder, 0700) == 0);
    must(atexit(remove_all) == 0);
}

static void put(const char *file, const uint8_t *data, size_t size)
{
    char path[160];
    path_of(path, file);
    FILE *f = fopen(path, "w");
    must(f != NULL);
    must(size == 0 || fwrite(data, 1, size, f) == size);
    must(fclose(f) == 0);
}

static bool is_in(const json_t *list, const json_t *wanted)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), wanted))
            return true;
    return false;
}

static void must_be_factors(const json_t *list, const json_t *factors)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        must(is_in(factors, json_array_get(list, i)));
}

/* lines: of the log, that have an end. */
static void look_at(const json_t *answer, size_t lines)
{
    const json_t *s = json_object_get(answer, "search");
    const json_t *tests = json_object_get(s, "tests"), *all = json_object_get(s, "hypotheses");
    const json_t *factors = json_object_get(s, "factors");
    const json_int_t known = json_integer_value(json_object_get(s, "tests_all"));
    const json_int_t unread = json_integer_value(json_object_get(s, "unread"));
    must(json_is_array(tests) && json_is_array(all) && json_is_array(factors));
    must(json_array_size(tests) <= LISTED && json_array_size(all) <= LISTED);
    must(known >= 0 && unread >= 0 && (size_t)(known + unread) == lines);
    must(json_array_size(tests) == (known < LISTED ? (size_t)known : LISTED));
    json_int_t counted = 0;
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *t = json_array_get(tests, i);
        must(tw_is_hex(json_string_value(json_object_get(t, "run")), 16));
        must_be_factors(json_object_get(t, "pinned"), factors);
    }
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *h = json_array_get(all, i);
        counted += json_integer_value(json_object_get(h, "tests"));
        must_be_factors(json_object_get(h, "pinned"), factors);
        must_be_factors(json_object_get(h, "free"), factors);
    }
    must(counted == known || (counted < known && json_array_size(all) == LISTED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct serve_query *q = calloc(1, sizeof *q);
    struct tw_buf b = {0};
    const char *why = "";
    struct twin_error err = TWIN_ERROR_INIT;
    const uint8_t *end = size ? memmem(data, size, "\n\n", 2) : NULL;
    const size_t head = end ? (size_t)(end - data) : size, at = end ? head + 2 : size;
    size_t lines = 0;
    must(q != NULL);
    if (!*home)
        make_home();
    put("search.json", data, head);
    put("log.jsonl", data + at, size - at);
    for (size_t i = at; i < size; i++)
        lines += data[i] == '\n';
    q->route = SERVE_SEARCH;
    snprintf(q->name, sizeof q->name, "%s", search);
    const int status = serve_search_answer(NULL, home, q, &b, &why, &err);
    must(status == 200 || (status == 404 && *why && b.len == 0));
    if (status == 200) {
        json_t *answer = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
        must(answer != NULL);
        look_at(answer, lines);
        json_decref(answer);
    }
    tw_buf_free(&b);
    free(q);
    return 0;
}
