/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which factors there are on this machine: the rows of factor_rows.c and those of a factor file,
 * and why some cannot be set here. A factor that cannot be set stays in the list with its reason,
 * so that a report can name it; nothing is passed over in silence.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

const struct tw_spec *tw_spec_of(const struct twin_factor *f)
{
    for (size_t i = 0; i < tw_spec_count; i++)
        if (strcmp(tw_specs[i].factor.id, f->id) == 0)
            return &tw_specs[i];
    return NULL;
}

enum tw_channel tw_factor_channel(const struct twin_factor *f)
{
    const struct tw_spec *spec = f->edits ? NULL : tw_spec_of(f);
    if (spec)
        return spec->channel;
    return f->edits ? TW_BY_EDITS : TW_BY_NOBODY;
}

/* ---- what is to be had here */

/* What was found of what factors need: our libraries and Python half beside the program, a kernel
 * that lets the layout of memory be fixed, a driver of a GPU. */
struct here {
    bool agent, hot, python, layout, gpu;
};

/* Can address space randomization be switched off? Tried on ourselves and taken back, since a
 * container's filter may refuse it. 0xffffffff asks for the present setting without changing it. */
static bool layout_can_be_fixed(void)
{
    int old = personality(0xffffffff);
    if (old < 0 || personality((unsigned long)old | ADDR_NO_RANDOMIZE) < 0)
        return false;
    personality((unsigned long)old);
    return true;
}

/* Looks for what drivers leave in the file system: NVIDIA's, NVIDIA's under WSL (dxg), AMD's
 * (kfd). */
static bool gpu_driver(void)
{
    static const char *const signs[] = {
        "/proc/driver/nvidia/version",
        "/dev/nvidiactl",
        "/dev/dxg",
        "/dev/kfd",
    };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (access(signs[i], F_OK) == 0)
            return true;
    return false;
}

/* Fills h. Only the search for our own parts can fail. */
static int look_around(struct here *h, struct twin_error *err)
{
    struct twin_parts parts;
    int rc = twin_parts_find(&parts, err);
    if (rc != 0)
        return rc;
    *h = (struct here){
        .agent = parts.agent_library != NULL,
        .hot = parts.hot_library != NULL,
        .python = parts.site_dir != NULL,
        .layout = layout_can_be_fixed(),
        .gpu = gpu_driver(),
    };
    twin_parts_free(&parts);
    return 0;
}

/* Why this row cannot be set here, as a text that lives as long as the program; NULL: it can. */
static const char *why_not(const struct tw_spec *spec, const struct here *h)
{
    if (spec->factor.unavailable)
        return spec->factor.unavailable;
    if (spec->channel == TW_BY_RECORDING)
        return "it needs a recorded run: run --replay-order RUN, or isolate";
    if (spec->channel == TW_BY_ENGINE)
        return "only an engine has nodes: isolate --on";
    if (spec->gpu_only && !h->gpu)
        return "no GPU driver here";
    if (spec->channel == TW_BY_LIBC && !h->agent)
        return "libtwinrun.so was not found";
    if (spec->hot != TW_HOT_UNUSED && !h->hot)
        return "libtwinrun_hot.so was not found";
    if (spec->channel == TW_BY_PYTHON && !h->python)
        return "the Python half of twinrun was not found";
    if (spec->channel == TW_BY_LAYOUT && !h->layout)
        return "the kernel refuses personality(ADDR_NO_RANDOMIZE) here";
    return NULL;
}

/* The rows are copied, so that what is said of them can be changed to what this machine has. */
int twin_factors_load(const char *file, struct twin_factors *out, struct twin_error *err)
{
    struct here h;
    *out = (struct twin_factors){0};
    int rc = look_around(&h, err);
    if (rc != 0)
        return rc;
    out->factor = tw_calloc(tw_spec_count, sizeof *out->factor);
    if (!out->factor)
        return tw_no_memory(err, "for the table of factors");
    for (; out->count < tw_spec_count; out->count++) {
        struct twin_factor *f = &out->factor[out->count];
        *f = tw_specs[out->count].factor;
        f->unavailable = why_not(&tw_specs[out->count], &h);
        if (tw_specs[out->count].adapt)
            tw_specs[out->count].adapt(f);
    }
    if (file)
        rc = tw_factor_file_load(file, out, err);
    if (rc != 0)
        twin_factors_free(out);
    return rc;
}

/* Only factors of a file have edits, which own their texts; built-in texts live as long as the
 * program. */
void twin_factors_free(struct twin_factors *f)
{
    for (size_t i = 0; i < f->count; i++)
        tw_factor_edits_free((struct tw_factor_edits *)(uintptr_t)f->factor[i].edits);
    tw_free(f->factor);
    *f = (struct twin_factors){0};
}

const struct twin_factor *twin_factor_find(const struct twin_factors *f, const char *id)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->factor[i].id, id) == 0)
            return &f->factor[i];
    return NULL;
}

void twin_factors_with_recording(struct twin_factors *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (tw_factor_channel(&f->factor[i]) == TW_BY_RECORDING)
            f->factor[i].unavailable = NULL;
}

void twin_factors_with_nodes(struct twin_factors *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (tw_factor_channel(&f->factor[i]) == TW_BY_ENGINE)
            f->factor[i].unavailable = NULL;
}

void twin_factors_on_trial(struct twin_factors *f)
{
    f->on_trial = true;
}

bool twin_factor_is_counted(const struct twin_factor *f)
{
    return f && f->asked_as && tw_factor_channel(f) == TW_BY_LIBC;
}
