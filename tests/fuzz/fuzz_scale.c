/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as the study that `twinrun scale --from` gets from a stranger. What is accepted is drawn in every form, each figure lies within its interval,
 * and what is written of it reads back as the same. Built with libFuzzer (-Dfuzz=true), or with replay.c.
 */
#include "scale.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/page.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void within(const struct twin_estimate *e)
{
    must(isnan(e->interval.low) || (e->interval.low <= e->value * (1 + 1e-9) && e->interval.high >= e->value * (1 - 1e-9)));
}

/* The study's JSON, and all other forms beside it. NULL: a speed in it is no number, which was said. */
static char *draw(struct tw_scale *s)
{
    char *html = NULL;
    size_t bytes = 0;
    if (tw_scale_compute(s) >= 0)
        return NULL;
    for (size_t i = 0; i < s->counts; i++) {
        within(&s->point[i].rate);
        within(&s->point[i].efficiency);
        within(&s->point[i].cost);
    }
    char *csv = tw_scale_csv(s);
    size_t lines = 0;
    for (const char *at = csv; at && (at = strchr(at, '\n')); at++)
        lines++;
    must(!csv || lines == s->counts + 1);
    tw_free(csv);
    struct twin_page *p = tw_scale_draw(s);
    must(!p || twin_page_finish(p, &html, &bytes, NULL) == 0);
    must(!html || !strstr(html, "<script>alert"));
    twin_page_close(p);
    tw_free(html);
    must(tw_scale_text(s) == 0);
    json_t *j = tw_scale_json(s);
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    json_decref(j);
    return text;
}

static char *parse_and_draw(const char *data, size_t size, bool must_read)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_scale s = {.journal = {.fd = -1}};
    char *text = NULL;
    if (tw_scale_parse(&s, data, size, "study.json", &err) == 0)
        text = draw(&s);
    else
        must(!must_read && err.code < 0 && err.message[0] != '\0');
    tw_scale_free(&s);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    FILE *out = stdout, *said = stderr;
    if (!nowhere && !(nowhere = fopen("/dev/null", "w")))
        return 0;
    fflush(stdout);
    stdout = stderr = nowhere; /* what people see is made, too */
    char *one = parse_and_draw((const char *)data, size, false), *two = one ? parse_and_draw(one, strlen(one), true) : NULL;
    stdout = out;
    stderr = said;
    must(!one || (two && strcmp(one, two) == 0));
    free(one);
    free(two);
    return 0;
}
