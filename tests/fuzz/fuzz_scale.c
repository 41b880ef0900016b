/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as the study that `twinrun scale --from` gets from a stranger. What is accepted is drawn
 * in every form, each figure lies within its interval, and what is written of it reads back as the
 * same. Built with libFuzzer (-Dfuzz=true), or with replay.c.
 */
#include "scale_report.h"

#include "base.h"

#include "src/report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void within(const struct twin_estimate *e)
{
    must(isnan(e->interval.low) ||
         (e->interval.low <= e->value * (1 + 1e-9) && e->interval.high >= e->value * (1 - 1e-9)));
}

/*
 * The study's JSON, and all other forms beside it, what people see to nowhere. NULL: a speed in it
 * is no number.
 */
static char *draw(struct tw_scale *s, FILE *nowhere)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *html = NULL;
    size_t bytes = 0;
    if (tw_scale_compute(s, &err) != 0) {
        must(err.code < 0 && err.message[0] != '\0');
        return NULL;
    }
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
    tw_scale_text(nowhere, s);
    json_t *j = tw_scale_json(s);
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    json_decref(j);
    return text;
}

static char *parse_and_draw(const char *data, size_t size, bool must_read, FILE *nowhere)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_scale s = {0};
    char *text = NULL;
    if (tw_scale_parse(&s, data, size, "study.json", &err) == 0)
        text = draw(&s, nowhere);
    else
        must(!must_read && err.code < 0 && err.message[0] != '\0');
    tw_scale_free(&s);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    if (!nowhere && !(nowhere = fopen("/dev/null", "w")))
        return 0;
    char *one = parse_and_draw((const char *)data, size, false, nowhere), *two = NULL;
    if (one)
        two = parse_and_draw(one, strlen(one), true, nowhere);
    must(!one || (two && strcmp(one, two) == 0));
    free(one);
    free(two);
    return 0;
}
