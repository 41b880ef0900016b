/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's result files are overwritten by the next run, and two checkpoints of equal tensors seldom
 * have equal bytes. So when a run ends, what is in its files is listed: a line with a digest for
 * each tensor, a line for each other value. The comparison then sees which tensor differs, and that
 * a saved time of day is none of the results.
 */
#include "written.h"

#include "src/snapshot/content.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((uint64_t)1 << 30) /* larger files are not read again */
#define EVENT_BYTES_MAX ((size_t)32 << 20)
#define LISTING_MAX ((size_t)7 << 20) /* less than the comparison reads of one file */

/* A line for each tensor: name, type, shape, digest. */
static void put_tensors(const struct twin_content *c, struct tw_buf *out)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct twin_tensors_entry *e = c->tensor[i].entry;
        tw_buf_printf(out, "tensor %s %s [", e->name, e->stored_as);
        for (uint32_t d = 0; d < e->ndim; d++)
            tw_buf_printf(out, "%s%lld", d ? ", " : "", (long long)e->shape[d]);
        tw_buf_printf(out, "] sha256 %s\n", c->tensor[i].sha256);
    }
}

/* A line for what is no tensor, as Python would show it. */
static void put_value(const struct twin_tensors_value *v, struct tw_buf *out)
{
    char *text = NULL;
    tw_buf_printf(out, "%s: ", v->name);
    switch (v->kind) {
    case TWIN_VALUE_NONE: tw_buf_puts(out, "None"); break;
    case TWIN_VALUE_TRUTH: tw_buf_puts(out, v->number ? "True" : "False"); break;
    case TWIN_VALUE_INT: tw_buf_printf(out, "%lld", (long long)v->number); break;
    case TWIN_VALUE_FLOAT: tw_buf_printf(out, "%.17g", v->real); break;
    case TWIN_VALUE_TEXT:
    case TWIN_VALUE_BYTES:
        text = tw_printable(v->text, v->text_bytes);
        tw_buf_puts(out, text ? text : "");
        break;
    default: tw_buf_puts(out, v->text ? v->text : ""); break;
    }
    tw_buf_puts(out, "\n");
    tw_free(text);
}

/* A file of tensors: false when it is none, or holds something that was passed over (then equal
 * lists would prove nothing). */
static bool list_tensors(const char *path, struct tw_buf *out)
{
    struct twin_content c;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_content_read_tensors(path, &c, &err) != 0)
        return false;
    bool whole = twin_tensors_skipped_count(c.tensors) == 0;
    for (size_t i = 0; i < c.count && whole; i++)
        whole = c.tensor[i].entry->unreadable == NULL;
    if (whole) {
        put_tensors(&c, out);
        for (size_t i = 0; i < c.value_count; i++)
            put_value(c.value[i], out);
        tw_buf_printf(out, "%zu tensors\n", c.count);
    }
    twin_content_free(&c);
    return whole;
}

static bool list_events(const char *path, struct tw_buf *out)
{
    char *data = NULL;
    size_t n = 0;
    bool ok = tw_read_file(path, EVENT_BYTES_MAX, &data, &n, NULL) == 0 &&
              tw_written_events((const unsigned char *)data, n, out);
    tw_free(data);
    return ok;
}

/* Writes the list into the run folder, without secrets. O_EXCL: nothing that is there is
 * replaced. */
static bool store_list(const struct twin_run *run, const char *name, const struct tw_buf *text)
{
    int pending = TW_SECRET_IN_FILE;
    bool ok = false;
    char *folder = tw_path_join(run->dir, "files"), *path = tw_path_join(run->dir, name);
    size_t room = text->len + text->len / 2 + 256;
    char *safe = tw_malloc(room);
    if (folder && path && safe) {
        mkdir(folder, 0700); /* it may be there */
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        size_t n = fd >= 0 ? tw_secret_mask(&pending, text->data, text->len, safe, room) : 0;
        ok = fd >= 0 && tw_write_all(fd, safe, n) == 0;
        if (fd >= 0)
            close(fd);
    }
    tw_free(safe);
    tw_free(path);
    tw_free(folder);
    return ok;
}

/* TensorBoard's files are known by their names, as readers know them; all others are tried. */
void tw_written_list(const struct twin_run *run, struct twin_run_file *f)
{
    struct tw_buf text = {.cap = LISTING_MAX};
    /* equal arrays have equal bytes */
    if (f->kept || f->bytes == 0 || f->bytes > FILE_BYTES_MAX || tw_ends(f->path, ".npy"))
        return;
    char *path = tw_path_join(run->cwd, f->path), *name = tw_printf("files/%zu", run->file_count);
    tw_buf_puts(&text, "");
    bool listed = path && name &&
                  (strstr(f->path, "tfevents") ? list_events(path, &text)
                                               : list_tensors(path, &text));
    if (listed && !text.failed && store_list(run, name, &text)) {
        f->kept = name;
        f->listing = true;
        name = NULL;
    }
    tw_buf_free(&text);
    tw_free(name);
    tw_free(path);
}
