/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a run said of themselves in the run folder's `factors`
 * (docs/format/run-folder.md). What it means is judged by whoever asks (src/isolate/effects.c,
 * src/drill/clock.c).
 */
#include "run.h"

#include "base.h"

#include <string.h>

/* 64 MiB: a file of a run folder is foreign bytes, and never that large. */
enum { FILE_BYTES_MAX = 64 << 20 };

/* "pid TAB rank TAB role TAB key TAB value": cuts the line in place. False for a line that is not
 * of this form, which is passed over: two in one, where the first was cut (cut_end). */
static bool split_line(char *text, struct twin_said_line *out)
{
    char *field[5] = {text};
    for (int i = 1; i < 5; i++) {
        field[i] = strchr(field[i - 1], '\t');
        if (!field[i])
            return false;
        *field[i]++ = '\0';
    }
    *out = (struct twin_said_line){field[0], field[3], field[4]};
    return strchr(field[4], '\t') == NULL;
}

/* A full disk, or a limit on the size of files, cuts the last line anywhere: what is left of its
 * value would be taken for another value. */
static void cut_end(char *text)
{
    char *last = text ? strrchr(text, '\n') : NULL;
    if (text)
        *(last ? last + 1 : text) = '\0';
}

int twin_said_lines(const struct twin_run *run, char **text, struct twin_said_line **line,
                    size_t *count, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    size_t n = 1, bytes = 0;
    char *path = tw_path_join(run->dir, "factors");
    int rc = path ? tw_read_file(path, FILE_BYTES_MAX, text, &bytes, &why) : TWIN_ENOMEM;
    tw_free(path);
    if (rc == TWIN_ENOMEM)
        return tw_no_memory(err, "reading what the agents said");
    if (rc != 0 && rc != TWIN_ENOENT) /* a file that is absent: nothing was said */
        return twin_error_set(err, rc, "%s", why.message);
    cut_end(*text);
    for (const char *p = *text; p && *p; p++)
        n += *p == '\n';
    *count = 0;
    *line = tw_calloc(n, sizeof **line);
    if (!*line)
        return tw_no_memory(err, "reading what the agents said");
    char *save = NULL;
    for (char *one = *text ? strtok_r(*text, "\n", &save) : NULL; one;
         one = strtok_r(NULL, "\n", &save))
        if (split_line(one, &(*line)[*count]))
            ++*count;
    return 0;
}
