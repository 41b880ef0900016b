/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus of log lines (tests/truth/lines): each part of a line is labelled as a result, as
 * noise, or stays. Every line is put through the shipped noise code as two runs print it. With only
 * its noise changed it must say the same; with one of its results changed it must not, with and
 * without its noise changed, too.
 *
 * A label is {n|as in run A|as in run B} or {r|as in run A|as in run B}; "@ name" begins the lines
 * of a project. usage: noise_lines FILE...   Prints what fails, and the counts; 0 when no result is
 * masked and at most 1% of the noise is reported.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "printed.h"

enum { LINE_BYTES = 4096, LABELS_MAX = 64 };

/* What the two runs of the corpus had: run A began at 12:46:10 on 22 November 2026 and took ten
 * minutes, run B 45 minutes later. */
static long ids_a[] = {8017, 8123}, ids_b[] = {16201, 16276};
static char *fresh_a[] = {(char *)"version_1"}, *fresh_b[] = {(char *)"version_0"};
static const struct tw_facts run_a = {
    .span = {{1795351570 - 86400, 1795351570 - 86400}, {1795351570 + 87000, 1795351570 + 87000}},
    .start = 1795351570,
    .end = 1795352170,
    .elapsed = 600,
    .id = ids_a,
    .id_count = 2,
    .id_low = 8017,
    .id_high = 8190,
    .dir = "/home/u/.twinrun/runs/a",
    .host = "vm",
    .fresh = fresh_a,
    .fresh_count = 1};
static const struct tw_facts run_b = {
    .span = {{1795354300 - 86400, 1795354300 - 86400}, {1795354300 + 87060, 1795354300 + 87060}},
    .start = 1795354300,
    .end = 1795354960,
    .elapsed = 660,
    .id = ids_b,
    .id_count = 2,
    .id_low = 16201,
    .id_high = 16390,
    .dir = "/home/u/.twinrun/runs/b",
    .host = "vm",
    .fresh = fresh_b,
    .fresh_count = 1};

struct counts {
    size_t lines, results, masked, noise, reported;
};

/* Writes a line as a run prints it: `noise` and `result` say for which labels the second reading is
 * taken; result -1: of none. Returns how many labels it has; kind[i] is 'n' or 'r'. */
static size_t render(const char *line, bool noise, int result, char kind[LABELS_MAX],
                     char out[LINE_BYTES])
{
    size_t labels = 0, n = 0;
    for (const char *p = line; *p && n + 1 < LINE_BYTES;) {
        bool label = p[0] == '{' && (p[1] == 'n' || p[1] == 'r') && p[2] == '|';
        if (!label) {
            out[n++] = *p++;
            continue;
        }
        const char *first = p + 3;
        const char *middle = strchr(first, '|');
        const char *end = middle ? strchr(middle + 1, '}') : NULL;
        if (!end || labels == LABELS_MAX) {
            fprintf(stderr, "a label is not closed: %s\n", line);
            exit(2);
        }
        bool second = p[1] == 'n' ? noise : (int)labels == result;
        const char *from = second ? middle + 1 : first;
        size_t length = (size_t)((second ? end : middle) - from);
        if (n + length >= LINE_BYTES)
            exit(2);
        memcpy(out + n, from, length);
        n += length;
        kind[labels++] = p[1];
        p = end + 1;
    }
    out[n] = '\0';
    return labels;
}

/* Do two runs say the same in these lines, as far as the noise code sees it? */
static bool same(const char *a, const char *b, const struct tw_facts *facts_b)
{
    char *x = tw_noise_mask(a, strlen(a), &run_a, TW_MASK_NOISE);
    char *y = tw_noise_mask(b, strlen(b), facts_b, TW_MASK_NOISE);
    bool equal = x && y && strcmp(x, y) == 0, open;
    free(x);
    free(y);
    return equal || tw_noise_equal(a, strlen(a), &run_a, b, strlen(b), facts_b, &open);
}

static void judge(const char *line, struct counts *c)
{
    char kind[LABELS_MAX], a[LINE_BYTES], b[LINE_BYTES];
    size_t labels = render(line, false, -1, kind, a), noise = 0;
    for (size_t i = 0; i < labels; i++)
        noise += kind[i] == 'n';
    c->lines++;
    c->noise += noise;
    render(line, true, -1, kind, b);
    if (noise > 0 && !same(a, b, &run_b)) {
        char *x = tw_noise_mask(a, strlen(a), &run_a, TW_MASK_NOISE);
        char *y = tw_noise_mask(b, strlen(b), &run_b, TW_MASK_NOISE);
        printf("noise is reported:\n  %s\n  %s\n  %s\n", a, x, y);
        free(x);
        free(y);
        c->reported++;
    }
    for (size_t i = 0; i < labels; i++) {
        if (kind[i] != 'r')
            continue;
        c->results++;
        bool hidden = false;
        for (int with_noise = 0; with_noise < 2; with_noise++) {
            render(line, with_noise, (int)i, kind, b);
            hidden |= same(a, b, with_noise ? &run_b : &run_a);
        }
        if (hidden) {
            printf("a result is masked:\n  %s\n  %s\n", a, b);
            c->masked++;
        }
    }
}

int main(int argc, char **argv)
{
    struct counts all = {0};
    for (int i = 1; i < argc; i++) {
        struct counts c = {0};
        char line[LINE_BYTES];
        FILE *f = fopen(argv[i], "r");
        if (!f) {
            perror(argv[i]);
            return 2;
        }
        while (fgets(line, sizeof line, f)) {
            line[strcspn(line, "\n")] = '\0';
            if (line[0] != '\0' && strncmp(line, "@ ", 2) != 0)
                judge(line, &c);
        }
        fclose(f);
        printf("%s: %zu lines, %zu of %zu results masked, %zu lines of %zu noisy parts reported\n",
               argv[i], c.lines, c.masked, c.results, c.reported, c.noise);
        all.lines += c.lines;
        all.masked += c.masked;
        all.reported += c.reported;
        all.noise += c.noise;
    }
    return all.lines == 0 || all.masked > 0 || all.reported * 100 > all.noise;
}
