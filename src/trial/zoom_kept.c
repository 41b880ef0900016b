/* SPDX-License-Identifier: Apache-2.0 */
/* The values that the first rerun of a zoom kept; written by python/twinrun/_agent/reruns.py. */
#include "zoom_kept.h"

#include "base.h"

#include "twin/fingerprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of either file that are read. */
#define FILE_CAP ((size_t)256 << 20)
#define NOT_KEPT UINT64_MAX

/* One output, as the agent writes it. */
struct row {
    uint64_t call; /* digest of the call's text */
    uint64_t digest, place, bytes;
    uint32_t number, outputs; /* of so many that the call has */
};
_Static_assert(sizeof(struct row) == 40, "the agent writes rows of 40 bytes");

/* As tw_agent_quick_digest makes it. */
static uint64_t digest_of(const char *text)
{
    struct twin_digest d = twin_digest_bytes(text, strlen(text), 0);
    return d.a ^ (d.b << 32 | d.b >> 32);
}

/* "<rank>.<pid>.calls" of the only process of this rank; NULL: none, several, or no memory. */
static char *only_process(const char *folder, int32_t rank)
{
    char begin[24], *found = NULL;
    bool several = false;
    snprintf(begin, sizeof begin, "%d.", (int)rank);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (tw_starts(e->d_name, begin) && tw_ends(e->d_name, ".calls")) {
            several |= found != NULL;
            tw_free(found);
            found = tw_path_join(folder, e->d_name);
        }
    if (d)
        closedir(d);
    if (!several)
        return found;
    tw_free(found);
    return NULL;
}

/* The rows and the values of one process; both malloc'ed. */
struct kept {
    char *rows, *values;
    size_t row_bytes, value_bytes;
};

static bool load_kept(const char *folder, int32_t rank, struct kept *k)
{
    char *calls = only_process(folder, rank), *values = NULL;
    if (calls)
        values = tw_printf("%.*s.kept", (int)(strlen(calls) - strlen(".calls")), calls);
    bool ok = values && tw_read_file(calls, FILE_CAP, &k->rows, &k->row_bytes, NULL) == 0 &&
              tw_read_file(values, FILE_CAP, &k->values, &k->value_bytes, NULL) == 0 &&
              k->row_bytes % sizeof(struct row) == 0;
    tw_free(calls);
    tw_free(values);
    return ok;
}

/* Writes one output as a file of its own. */
static bool write_output(const char *folder, int32_t rank, const char *call, const struct kept *k,
                         const struct row *r)
{
    unsigned step, occurrence;
    if (r->place > k->value_bytes || r->bytes > k->value_bytes - r->place ||
        sscanf(call, "%u:%u:", &step, &occurrence) != 2)
        return false;
    char *path = tw_printf("%s/%d.s%u.o%u.out%u.raw", folder, (int)rank, step, occurrence,
                           r->number);
    bool ok = path && tw_write_file_atomic(path, k->values + r->place, r->bytes, NULL) == 0;
    tw_free(path);
    return ok;
}

bool tw_zoom_kept_take(const char *run_dir, int32_t rank, const char *call, uint64_t room)
{
    struct kept k = {0};
    char *folder = tw_path_join(run_dir, "values");
    uint32_t found = 0, outputs = 0;
    bool ok = folder && load_kept(folder, rank, &k);
    uint64_t wanted = digest_of(call);
    for (size_t at = 0; ok && at < k.row_bytes; at += sizeof(struct row)) {
        struct row r;
        memcpy(&r, k.rows + at, sizeof r);
        if (r.call != wanted)
            continue;
        ok = r.number == found;
        outputs = r.outputs;
        found++;
        if (r.place != NOT_KEPT)
            ok = ok && write_output(folder, rank, call, &k, &r);
        else
            ok = ok && r.bytes > room;
    }
    tw_free(k.rows);
    tw_free(k.values);
    tw_free(folder);
    return ok && found > 0 && found == outputs;
}

void tw_zoom_kept_drop(const char *run_dir)
{
    char *folder = tw_path_join(run_dir, "values");
    DIR *d = folder ? opendir(folder) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (tw_ends(e->d_name, ".calls") || tw_ends(e->d_name, ".kept"))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    tw_free(folder);
}
