/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as two run folders: run.json, what run 1 and run 2 printed, and a tolerance file,
 * parted by lines "%%". They are loaded, compared and reported in every form. Built with libFuzzer
 * (-Dfuzz=true), or with replay.c to run files. */
#include "src/compare/compare.h"
#include "src/report/report.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTS = 4 };
static const char separator[] = "\n%%\n";
static char root[64], folder[2][80], json[2][96], output[2][96], tolerance[80];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        abort();
}

static void clean_up(void)
{
    for (int i = 0; i < 2; i++) {
        unlink(json[i]);
        unlink(output[i]);
        rmdir(folder[i]);
    }
    unlink(tolerance);
    rmdir(root);
}

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%.40s/fuzz-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        abort();
    snprintf(tolerance, sizeof tolerance, "%s/tolerance", root);
    for (int i = 0; i < 2; i++) {
        snprintf(folder[i], sizeof folder[i], "%s/%d", root, i);
        snprintf(json[i], sizeof json[i], "%s/run.json", folder[i]);
        snprintf(output[i], sizeof output[i], "%s/stdout", folder[i]);
        if (mkdir(folder[i], 0700) != 0)
            abort();
    }
    atexit(clean_up);
}

static void report(const struct twin_verdict *v, const struct twin_run *const *runs)
{
    int (*const form[])(const struct twin_report *, char **, struct twin_error *) = {
        twin_report_text, twin_report_json, twin_report_junit, twin_report_github};
    struct twin_report r = {.verdict = v,
                            .runs = runs,
                            .run_count = 2,
                            .verb = "check",
                            .width = 100,
                            .can_zoom = true};
    for (size_t i = 0; i < sizeof form / sizeof form[0]; i++) {
        char *text = NULL;
        if (form[i](&r, &text, NULL) != 0 || !text)
            abort();
        for (const char *p = text; *p; p++)
            /* what a job printed must not steer a terminal */
            if ((unsigned char)*p < ' ' && *p != '\n')
                abort();
        free(text);
    }
}

static void compare(bool tolerant)
{
    struct twin_run *runs[2] = {NULL, NULL};
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_compare_options o = {.tolerance_file = tolerant ? tolerance : NULL};
    bool loaded = twin_run_load(folder[0], &runs[0], &err) == 0 &&
                  twin_run_load(folder[1], &runs[1], &err) == 0;
    const struct twin_run *const pair[2] = {runs[0], runs[1]};
    if (loaded && twin_compare(pair, 2, &o, &v, &err) == 0)
        report(v, pair);
    else if (err.message[0] == '\0')
        abort(); /* a refusal says why */
    twin_verdict_free(v);
    twin_run_free(runs[0]);
    twin_run_free(runs[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *part[PARTS] = {data, data, data, data};
    size_t bytes[PARTS] = {0};
    if (!root[0])
        set_up();
    for (int i = 0; i < PARTS; i++) {
        const uint8_t *end = i + 1 < PARTS ? memmem(data, size, separator, sizeof separator - 1)
                                           : NULL;
        part[i] = data;
        bytes[i] = end ? (size_t)(end - data) : size;
        data += end ? bytes[i] + sizeof separator - 1 : size;
        size -= end ? bytes[i] + sizeof separator - 1 : size;
    }
    for (int i = 0; i < 2; i++) {
        write_file(json[i], part[0], bytes[0]);
        write_file(output[i], part[1 + i], bytes[1 + i]);
    }
    write_file(tolerance, part[3], bytes[3]);
    compare(bytes[3] > 0);
    return 0;
}
