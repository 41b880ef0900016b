/* SPDX-License-Identifier: Apache-2.0 */
/* The table of factors, by layer. A factor takes up to four lines: who applies it and whether it
 * can be had; what it is; its pin; its variation. */
#include "factors_table.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include <stdio.h>
#include <string.h>

static size_t widest(const struct twin_factors *f, const char *(*text)(const struct twin_factor *))
{
    size_t width = 0;
    for (size_t i = 0; i < f->count; i++)
        width = strlen(text(&f->factor[i])) > width ? strlen(text(&f->factor[i])) : width;
    return width;
}

static const char *id_of(const struct twin_factor *f)
{
    return f->id;
}
static const char *how_of(const struct twin_factor *f)
{
    return f->how;
}

void tw_factors_text(FILE *out, const struct twin_factors *f, const struct tw_factor_job *j)
{
    int id = (int)widest(f, id_of), how = (int)widest(f, how_of);
    const char *layer = "";
    for (size_t i = 0; i < f->count; i++) {
        const struct twin_factor *x = &f->factor[i];
        char text[512];
        if (strcmp(layer, x->layer) != 0)
            tw_put_to(out, *layer ? "\n%s\n" : "%s\n", x->layer);
        layer = x->layer;
        tw_put_to(out, "  %-*s  %-*s  %s\n", id, x->id, how, x->how,
                  tw_factor_applies(x, j, text, sizeof text));
        tw_put_to(out, "  %-*s    %s\n", id, "", x->title);
        if (x->pin)
            tw_put_to(out, "  %-*s    pin   %s\n", id, "", x->pin);
        if (x->vary)
            tw_put_to(out, "  %-*s    vary  %s\n", id, "", x->vary);
    }
}

static json_t *put_row(const struct twin_factor *f, const struct tw_factor_job *j)
{
    char text[512];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o}", "id", f->id,
                          "layer", f->layer, "title", f->title, "how", f->how, "pin",
                          tw_json_text(f->pin), "vary", tw_json_text(f->vary), "unit",
                          f->unit == TWIN_UNIT_RUN ? "run" : "exposure", "fix", f->fix, "needs",
                          tw_json_text(f->needs), "unavailable", tw_json_text(f->unavailable));
    if (o && j->given)
        json_object_set_new(o, "applies", tw_json_text(tw_factor_applies(f, j, text, sizeof text)));
    return o;
}

json_t *tw_factors_json(const struct twin_factors *f, const struct tw_factor_job *j)
{
    json_t *list = json_array(), *o = json_pack("{s:s}", "schema", "twinrun.factors/1");
    for (size_t i = 0; i < f->count; i++)
        json_array_append_new(list, put_row(&f->factor[i], j));
    if (o && j->given)
        json_object_set_new(o, "job",
                            json_pack("{s:o, s:o, s:b, s:b, s:b, s:b, s:b}", "python",
                                      tw_json_text(j->python), "no_agent",
                                      tw_json_text(j->no_agent), "numpy", j->has.numpy, "torch",
                                      j->has.torch, "jax", j->has.jax, "tensorflow",
                                      j->has.tensorflow, "starter", j->starter));
    json_object_set_new(o, "factors", list);
    return o;
}
