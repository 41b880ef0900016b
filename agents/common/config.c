/* SPDX-License-Identifier: Apache-2.0 */
/* The environment protocol of docs/format/run-folder.md, agent's side. Values that make no sense
 * count as absent. */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include "src/base/base.h"

static bool read_number(const char *name, uint64_t max, uint64_t *out)
{
    const char *s = getenv(name);
    return s && tw_parse_u64(s, max, out) == 0;
}

static bool parse_id(const char *hex, uint8_t id[16])
{
    if (!hex || strlen(hex) != 32)
        return false;
    for (int i = 0; i < 32; i++) {
        int v = tw_hex_digit(hex[i]);
        if (v < 0)
            return false;
        id[i / 2] = (uint8_t)(i % 2 ? id[i / 2] | v : v << 4);
    }
    return true;
}

static int parse_level(const char *s)
{
    static const char *const names[] = {"steps", "tensors", "modules", "ops"};
    for (int i = 0; s && i < 4; i++)
        if (strcmp(s, names[i]) == 0)
            return i;
    return TW_LEVEL_TENSORS;
}

static bool parse_window(const char *s, uint32_t *first, uint32_t *last)
{
    char left[16];
    uint64_t a, b;
    const char *colon = s ? strchr(s, ':') : NULL;
    if (!colon || colon - s >= (ptrdiff_t)sizeof left)
        return false;
    memcpy(left, s, (size_t)(colon - s));
    left[colon - s] = '\0';
    if (tw_parse_u64(left, UINT32_MAX, &a) != 0 || tw_parse_u64(colon + 1, UINT32_MAX, &b) != 0 ||
        a > b)
        return false;
    *first = (uint32_t)a;
    *last = (uint32_t)b;
    return true;
}

void tw_config_rank(int32_t *rank, int32_t *world)
{
    /* The order is from the most to the least specific: a torchrun inside mpirun inside srun is
     * torchrun's rank. */
    static const char *const names[][2] = {
        {"RANK", "WORLD_SIZE"},           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},         {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
    };
    *rank = 0;
    *world = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint64_t r, w;
        if (!read_number(names[i][0], INT32_MAX - 1, &r))
            continue;
        if (!read_number(names[i][1], INT32_MAX, &w) || w <= r)
            w = r + 1;
        *rank = (int32_t)r;
        *world = (int32_t)w;
        return;
    }
}

static uint32_t ranks_here(void)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS"};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (read_number(names[i], INT32_MAX, &n))
            return (uint32_t)n;
    return 0;
}

bool tw_config_read(struct tw_agent_config *c)
{
    uint64_t v;
    const char *dir = getenv("TWINRUN_RUN_DIR");
    /* Room for the longest name we put behind it. */
    if (!dir || dir[0] != '/' || strlen(dir) >= sizeof c->run_dir - 64)
        return false;
    memcpy(c->run_dir, dir, strlen(dir) + 1);
    if (!parse_id(getenv("TWINRUN_RUN_ID"), c->run_id))
        memset(c->run_id, 0, sizeof c->run_id);
    c->level = parse_level(getenv("TWINRUN_LEVEL"));
    c->window = parse_window(getenv("TWINRUN_WINDOW"), &c->window_first, &c->window_last);
    c->max_steps = read_number("TWINRUN_STEPS", UINT32_MAX, &v) ? (uint32_t)v : 0;
    c->hold = read_number("TWINRUN_STEPS_HOLD", 1, &v) && v == 1;
    c->sketch_every = read_number("TWINRUN_SKETCH_EVERY", UINT32_MAX, &v) ? (uint32_t)v : 10;
    c->lossless = read_number("TWINRUN_LOSSLESS", 1, &v) && v == 1;
    c->telemetry = !(read_number("TWINRUN_TELEMETRY", 0, &v));
    tw_config_rank(&c->rank, &c->world);
    c->ranks_here = ranks_here();
    memcpy(c->role, "main", 5);
    c->kind = 1;
    return true;
}
