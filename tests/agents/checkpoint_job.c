/* SPDX-License-Identifier: Apache-2.0 */
/* Writes checkpoints to PATH until it is killed: version k is 20,000 + 37 k times the byte k. With
 * a number behind PATH: that version, once, and "abort" or "fail" instead of a commit. */
#include <twin/checkpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int save(const char *path, unsigned k, const char *how)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_checkpoint *c;
    char piece[1000];
    size_t left = 20000 + 37 * (size_t)k;
    memset(piece, (int)k, sizeof piece);
    if (twin_checkpoint_begin(path, &c, &err) != 0)
        goto fail;
    for (size_t n; left > 0; left -= n) {
        n = left < sizeof piece ? left : sizeof piece;
        if (twin_checkpoint_write(c, piece, n, &err) != 0)
            break;
    }
    if (how && strcmp(how, "abort") == 0)
        twin_checkpoint_abort(c);
    else if (twin_checkpoint_commit(c, &err) != 0)
        goto fail;
    return 0;
fail:
    fprintf(stderr, "%s\n", err.message);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return save(argv[1], (unsigned)atoi(argv[2]), argc > 3 ? argv[3] : NULL);
    for (unsigned k = 0;; k = (k + 1) % 251) {
        if (save(argv[1], k, NULL) != 0)
            return 1;
        if (k == 0) {
            puts("going");
            fflush(stdout);
        }
    }
}
