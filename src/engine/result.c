/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node answers: who took the ticket, and how the run ended. Both are written in one step and
 * carry the ticket's number, which is another one for each attempt: half a file, or one that an
 * earlier attempt left, is as good as none.
 */
#include "order.h"

#include "base.h"
#include "json_load.h"
#include "json_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A result is some lines; a run.json may have many files and processes. */
enum { ANSWER_MAX = 1 << 20, RUN_JSON_MAX = 64 << 20 };

static char *text_of(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? tw_strdup(s) : NULL;
}

static int write_json(const char *path, json_t *j, struct twin_error *err)
{
    char *text = j ? json_dumps(j, JSON_INDENT(1) | JSON_ENSURE_ASCII) : NULL;
    int rc = text ? tw_write_file_atomic(path, text, strlen(text), err)
                  : tw_no_memory(err, "for an answer");
    free(text);
    json_decref(j);
    return rc;
}

/* The file as an object of this very ticket and attempt; NULL: there is none. */
static json_t *read_json(const struct tw_ticket *t, const char *name)
{
    char *path = tw_path_join(t->folder, name), *data = NULL;
    size_t n = 0;
    json_t *j = NULL;
    if (path && tw_read_file(path, ANSWER_MAX, &data, &n, NULL) == 0)
        j = tw_json_load(data, n, JSON_REJECT_DUPLICATES, NULL);
    const char *number = json_string_value(json_object_get(j, "ticket"));
    if (j && (!number || strcmp(number, t->number) != 0)) {
        json_decref(j);
        j = NULL;
    }
    tw_free(data);
    tw_free(path);
    return j;
}

/* ---- the claim */

/* A mark that somebody came when the ticket was taken already. */
static void leave_mark(const char *folder, const struct tw_claim *c)
{
    char *path = tw_printf("%s/again.%lld.%s", folder, (long long)c->pid, c->host);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
    tw_free(path);
}

/* A link is made or not made, on file systems of clusters too; and what it leads to is whole. */
int tw_claim_make(const char *folder, const char *ticket, const struct tw_claim *c,
                  struct twin_error *err)
{
    char *draft = tw_printf("%s/.claim.%lld.%s", folder, (long long)c->pid, c->host);
    char *path = tw_path_join(folder, "claim.json");
    int rc = draft && path ? 0 : tw_no_memory(err, "for a claim");
    if (rc == 0)
        rc = write_json(draft,
                        json_pack("{s:s, s:o, s:o, s:I}", "ticket", ticket, "node",
                                  tw_json_text(c->node), "host", tw_json_text(c->host), "pid",
                                  (json_int_t)c->pid),
                        err);
    if (rc == 0 && link(draft, path) != 0) {
        if (errno == EEXIST) {
            leave_mark(folder, c);
            rc = twin_error_set(err, TWIN_EINVAL, "%s is there: somebody has taken this run", path);
        } else {
            rc = twin_error_system(err, "cannot write %s", path);
        }
    }
    if (draft)
        unlink(draft);
    tw_free(draft);
    tw_free(path);
    return rc;
}

bool tw_claim_read(const struct tw_ticket *t, struct tw_claim *out)
{
    json_t *j = read_json(t, "claim.json");
    *out = (struct tw_claim){.node = text_of(j, "node"),
                             .host = text_of(j, "host"),
                             .pid = json_integer_value(json_object_get(j, "pid"))};
    json_decref(j);
    if (out->node && out->host)
        return true;
    tw_claim_free(out);
    return false;
}

void tw_claim_free(struct tw_claim *c)
{
    tw_free(c->node);
    tw_free(c->host);
    *c = (struct tw_claim){.node = NULL};
}

size_t tw_claim_again(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += tw_starts(e->d_name, "again.");
    if (d)
        closedir(d);
    return n;
}

/* ---- the result */

int tw_run_digest(const struct twin_run *run, char out[33], struct twin_error *err)
{
    struct tw_buf b = {0};
    char *path = tw_path_join(run->dir, "run.json"), *data = NULL;
    size_t n = 0;
    int rc = path ? tw_read_file(path, RUN_JSON_MAX, &data, &n, err)
                  : tw_no_memory(err, "for a run's digest");
    if (rc == 0)
        tw_buf_append(&b, data, n);
    for (size_t i = 0; rc == 0 && i < run->trace_count; i++) {
        struct stat st;
        if (stat(run->traces[i], &st) != 0)
            rc = twin_error_system(err, "%s", run->traces[i]);
        else
            tw_buf_printf(&b, "%s %lld\n", tw_base_name(run->traces[i]), (long long)st.st_size);
    }
    if (rc == 0 && b.failed)
        rc = tw_no_memory(err, "for a run's digest");
    struct tw_hash128 h = tw_hash_bytes(b.data ? b.data : "", b.len, 0);
    tw_hex_128(h.a, h.b, out);
    tw_buf_free(&b);
    tw_free(data);
    tw_free(path);
    return rc;
}

int tw_result_write(const char *folder, const struct tw_order *order, const struct tw_result *r,
                    struct twin_error *err)
{
    char *path = tw_path_join(folder, "result.json");
    int rc = path ? 0 : tw_no_memory(err, "for a result");
    if (rc == 0)
        rc = write_json(path,
                        json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:b, s:i, s:s}",
                                  "schema", "twinrun.result/1", "ticket", order->ticket, "attempt",
                                  (int)order->attempt, "rc", r->rc, "message",
                                  tw_json_text(r->message ? r->message : ""), "dir",
                                  tw_json_text(r->dir ? r->dir : ""), "node", tw_json_text(r->node),
                                  "host", tw_json_text(r->host), "interrupted", (int)r->interrupted,
                                  "exit_code", r->exit_code, "digest", r->digest),
                        err);
    tw_free(path);
    return rc;
}

bool tw_result_read(const struct tw_ticket *t, struct tw_result *out)
{
    json_t *j = read_json(t, "result.json");
    const char *schema = json_string_value(json_object_get(j, "schema"));
    const char *digest = json_string_value(json_object_get(j, "digest"));
    *out = (struct tw_result){.dir = text_of(j, "dir"),
                              .node = text_of(j, "node"),
                              .host = text_of(j, "host"),
                              .message = text_of(j, "message")};
    bool good = schema && strcmp(schema, "twinrun.result/1") == 0 && digest &&
                strlen(digest) < sizeof out->digest && out->dir && out->node && out->host &&
                out->message && json_is_integer(json_object_get(j, "rc")) &&
                json_integer_value(json_object_get(j, "attempt")) == (json_int_t)t->attempt;
    if (good) {
        out->rc = (int)json_integer_value(json_object_get(j, "rc"));
        out->interrupted = json_is_true(json_object_get(j, "interrupted"));
        out->exit_code = (int)json_integer_value(json_object_get(j, "exit_code"));
        snprintf(out->digest, sizeof out->digest, "%s", digest);
    } else {
        tw_result_free(out);
    }
    json_decref(j);
    return good;
}

void tw_result_free(struct tw_result *r)
{
    tw_free(r->dir);
    tw_free(r->node);
    tw_free(r->host);
    tw_free(r->message);
    *r = (struct tw_result){.rc = 0};
}
