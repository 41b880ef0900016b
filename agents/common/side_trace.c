/* SPDX-License-Identifier: Apache-2.0 */
/* Traces beside the rank's own. */
#include "side_trace.h"

#include "state.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pid comes twice in one run after exec, or when two containers count their own. */
static bool path_of_trace(char *path, size_t room, const char *folder)
{
    const struct tw_agent_config *c = &tw_agent_config;
    int n = snprintf(path, room, "%s/%s", c->run_dir, folder);
    if (n < 0 || (size_t)n >= room || (mkdir(path, 0777) != 0 && errno != EEXIST))
        return false;
    for (int again = 1; again <= 999; again++) {
        char suffix[8] = "";
        if (again > 1)
            snprintf(suffix, sizeof suffix, "-%d", again);
        n = snprintf(path, room, "%s/%s/%d.%ld%s.twt", c->run_dir, folder, (int)c->rank,
                     (long)getpid(), suffix);
        if (n < 0 || (size_t)n >= room)
            return false;
        if (access(path, F_OK) != 0)
            return true;
    }
    return false;
}

struct twin_writer *tw_side_trace_open(const char *folder, size_t ring_bytes, const char *what)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer *w = NULL;
    char path[PATH_MAX], text[160];
    snprintf(text, sizeof text, "%s are not recorded", what);
    if (!path_of_trace(path, sizeof path, folder)) {
        char why[160];
        snprintf(why, sizeof why, "the folder %s in the run's folder cannot be written", folder);
        tw_folder_fault(text, why);
        return NULL;
    }
    struct twin_writer_options o = {.path = path,
                                    .rank = tw_agent_config.rank,
                                    .world = tw_agent_config.world,
                                    .role = tw_agent_config.role,
                                    .ring_bytes = ring_bytes};
    memcpy(o.run_id, tw_agent_config.run_id, sizeof o.run_id);
    if (twin_writer_open(&o, &w, &err) != 0) {
        tw_folder_fault(text, err.message);
        return NULL;
    }
    return w;
}

void tw_side_trace_close(struct twin_writer *w, const char *lost_key, uint64_t lost)
{
    char text[24];
    if (!w)
        return;
    if (lost) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)lost);
        twin_writer_note(w, lost_key, text);
    }
    twin_writer_flush(w);
    if (twin_writer_counts(w).failed_errno != ETIMEDOUT)
        twin_writer_close(w);
}

void tw_side_trace_word(char *out, size_t room, const char *word)
{
    size_t n = 0;
    for (; word && word[n] && n + 1 < room; n++)
        out[n] = word[n] > ' ' && word[n] < 0x7F && word[n] != ',' && word[n] != '"' ? word[n]
                                                                                     : '_';
    if (n == 0 && room > 1)
        out[n++] = '-';
    out[n] = '\0';
}
