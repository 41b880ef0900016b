/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line on the pins. Settings are gathered by what became of them, pins before shaken ones, in
 * an order in which what was achieved comes first and what failed cannot be overlooked.
 */
#include "effects_line.h"

#include "base.h"

#include <string.h>

/* What became of a setting. */
enum fate { IN_FORCE, FAILED, UNKNOWN, SET_BY_JOB, NOT_USED };

static enum fate fate_of(const struct twin_world_effect *e)
{
    switch (e->effect) {
    case TWIN_EFFECT_IN_FORCE: return IN_FORCE;
    case TWIN_EFFECT_FAILED: return FAILED;
    case TWIN_EFFECT_UNKNOWN: return UNKNOWN;
    case TWIN_EFFECT_NOT_USED: break;
    }
    /* a setting that the job overrides is no failure of ours, and no proof that it went unused */
    return e->text && tw_starts(e->text, "overridden:") ? SET_BY_JOB : NOT_USED;
}

/* The parts of the line, in their order. */
static const struct part {
    enum fate fate;
    enum twin_factor_mode mode;
    const char *heading;
    bool with_why; /* each with the reason in brackets */
    bool also_when_quiet;
} parts[] = {
    {IN_FORCE, TWIN_PIN, "pinned: ", false, false},
    {IN_FORCE, TWIN_VARY, "shaken: ", false, false},
    {FAILED, TWIN_PIN, "NOT pinned: ", true, true},
    {FAILED, TWIN_VARY, "NOT shaken: ", true, true},
    {UNKNOWN, TWIN_PIN, "not known whether pinned: ", true, false},
    {UNKNOWN, TWIN_VARY, "not known whether shaken: ", true, false},
    {SET_BY_JOB, TWIN_PIN, "set by the job itself: ", false, false},
    {SET_BY_JOB, TWIN_VARY, "set by the job itself, though shaken: ", false, false},
    {NOT_USED, TWIN_PIN, "not used by the job: ", false, false},
    {NOT_USED, TWIN_VARY, "not used by the job, though shaken: ", false, false},
};

/* Appends "HEADINGa, b (why)" with the settings of one part; nothing where there are none. */
static void add_part(struct tw_buf *b, const struct part *part, const struct twin_world *w,
                     const struct twin_world_effect *e)
{
    bool any = false;
    for (size_t i = 0; i < w->count; i++) {
        const struct twin_setting *s = &w->setting[i];
        if (s->mode != part->mode || fate_of(&e[i]) != part->fate)
            continue;
        if (any)
            tw_buf_printf(b, ", %s", s->factor->id);
        else
            tw_buf_printf(b, "%s%s%s", b->len ? "; " : "", part->heading, s->factor->id);
        if (part->with_why && e[i].text) {
            char *why = tw_printable(e[i].text, strlen(e[i].text));
            tw_buf_printf(b, " (%s)", why ? why : "");
            tw_free(why);
        }
        any = true;
    }
}

char *tw_effects_line(const struct twin_world *w, const struct twin_world_effect *effect,
                      const char *left_out, const char *dir, bool quiet)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!quiet || parts[i].also_when_quiet)
            add_part(&b, &parts[i], w, effect);
    if (!quiet && left_out)
        tw_buf_printf(&b, "%sleft out: %s", b.len ? "; " : "", left_out);
    if (!quiet)
        tw_buf_printf(&b, "; run in %s", dir);
    return tw_buf_steal(&b);
}
