/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a manifest, fetch.txt and bag-info.txt of a package. What is accepted has one form:
 * written again it is the same bytes. Built with libFuzzer
 * (-Dfuzz=true), or with replay.c. */
#include <stdlib.h>
#include <string.h>

#include "bag.h"
#include "base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static void same(struct tw_buf *again, const char *text, size_t n)
{
    must(!again->failed && again->len == n && memcmp(again->data, text, n) == 0);
    tw_buf_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_manifest m;
    struct tw_fetch f;
    struct tw_buf again = {0};
    uint64_t bytes, files;
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    tw_buf_puts(&again, "");
    if (tw_manifest_parse(text, size, "input", &m, &err) == 0) {
        for (size_t i = 0; i < m.count; i++) {
            must(tw_path_ok(m.item[i].path) && m.item[i].path[0] != '/' &&
                 strncmp(m.item[i].path, "../", 3) != 0 && !strstr(m.item[i].path, "/../") &&
                 tw_manifest_find(&m, m.item[i].path) == &m.item[i]);
            tw_buf_printf(&again, "%s  %s\n", m.item[i].sha256, m.item[i].path);
        }
        same(&again, text, size);
        tw_manifest_free(&m);
    } else {
        must(err.code < 0 && err.message[0]);
    }
    tw_buf_puts(&again, "");
    if (tw_fetch_parse(text, size, "input", &f, NULL) == 0) {
        for (size_t i = 0; i < f.count; i++) {
            must(tw_path_ok(f.item[i].path) && tw_starts(f.item[i].path, "data/data/") &&
                 f.item[i].url[0] != '-');
            tw_buf_printf(&again, "%s %llu %s\n", f.item[i].url,
                          (unsigned long long)f.item[i].bytes, f.item[i].path);
        }
        same(&again, text, size);
        tw_fetch_free(&f);
    }
    tw_buf_free(&again);
    (void)tw_bag_info_parse(text, size, "input", &bytes, &files, NULL);
    free(text);
    return 0;
}
