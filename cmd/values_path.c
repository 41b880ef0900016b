/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file of numbers that an operand of spread means: a path, or the one file of tensors
 * that a run wrote.
 */
#include "values_path.h"

#include "runs.h"
#include "say.h"

#include "base.h"
#include "phrase.h"

#include "src/formats/tensors.h"
#include "src/launch/run.h"

#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 16 };

static bool is_the_runs(const char *path, const char *expected)
{
    unsigned char digest[EVP_MAX_MD_SIZE], buffer[CHUNK];
    unsigned length = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    FILE *f = fopen(path, "rbe");
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = f && md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
    for (size_t n; ok && (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        ok = EVP_DigestUpdate(md, buffer, n) == 1;
    ok = ok && !ferror(f) && EVP_DigestFinal_ex(md, digest, &length) == 1;
    if (ok)
        tw_hex(digest, length, hex);
    EVP_MD_CTX_free(md);
    if (f)
        fclose(f);
    return ok && strcmp(hex, expected) == 0;
}

static bool is_tensor_file(const char *path)
{
    struct twin_tensors *f;
    if (twin_tensors_open(path, &f, NULL) != 0)
        return false;
    twin_tensors_close(f);
    return true;
}

/* Of the files that the run wrote: those of tensors that are still as it left them. */
static char *file_of(const char *command, const struct twin_run *r)
{
    struct tw_buf list = {.cap = 2000};
    char *found = NULL;
    size_t count = 0, changed = 0;
    for (size_t i = 0; i < r->file_count; i++) {
        char *path = tw_path_join(r->cwd, r->files[i].path);
        if (path && is_tensor_file(path)) {
            if (!is_the_runs(path, r->files[i].sha256)) {
                changed++;
            } else {
                if (count++ == 0)
                    found = tw_strdup(path);
                char *safe = tw_printable(path, strlen(path));
                tw_buf_printf(&list, "    twinrun %s %s\n", command, safe ? safe : "?");
                tw_free(safe);
            }
        }
        tw_free(path);
    }
    if (count != 1) {
        tw_free(found);
        found = NULL;
    }
    if (count > 1) {
        tw_say("%s: the run wrote %zu files of tensors; one of them, or all in one command when "
               "each is one rank's gradient:",
               command, count);
        tw_put_lines(stderr, list.data ? list.data : "");
    } else if (count == 0 && changed) {
        tw_say("%s: the %zu file%s of tensors that the run wrote %s no longer as it left %s (a "
               "later run writes to the same place; see --fresh-dir)",
               command, changed, tw_plural_s(changed), changed == 1 ? "is" : "are",
               changed == 1 ? "it" : "them");
    } else if (count == 0) {
        tw_say("%s: a run keeps fingerprints, not values. Let the job write what is to be added "
               "up, for instance\n"
               "    torch.save({n: p.grad for n, p in model.named_parameters()}, "
               "f\"grads-{rank}.pt\")\n"
               "and give that file, or the run",
               command);
    }
    tw_buf_free(&list);
    return found;
}

char *tw_values_path(const char *command, const char *operand, const char *home)
{
    struct stat st;
    if (stat(operand, &st) == 0 && !S_ISDIR(st.st_mode))
        return tw_strdup(operand);
    const bool could_be_file = strchr(operand, '.') && stat(operand, &st) != 0;
    if (could_be_file) { /* a name with a dot that is not there is a file that is not there */
        tw_say("%s: %s: no such file", command, operand);
        return NULL;
    }
    char *named = tw_home(home), *path = NULL;
    struct twin_run *r = named ? tw_run_open(named, operand) : NULL;
    if (r)
        path = file_of(command, r);
    twin_run_free(r);
    tw_free(named);
    return path;
}
