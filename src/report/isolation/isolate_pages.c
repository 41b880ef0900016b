/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a search in the places where it is wanted: in the search's folder, and where the user
 * wants it. In a folder of the user's each run of the search has a page beside it. */
#include "isolate_result.h"

#include "page_file.h"
#include "page_inside.h"
#include "verdict_gather.h"

#include <string.h>

/* Most runs that get a page; the log of the search has all. */
enum { PAGES = 100 };

static int save(const struct twin_isolation *x, const char *folder, const char *name,
                struct twin_error *err)
{
    char *html = NULL, *path = folder ? tw_path_join(folder, name) : tw_strdup(name);
    int rc = path ? twin_isolation_html(x, &html, err) : tw_no_memory(err, "making a page");
    if (rc == 0)
        rc = tw_write_file_atomic(path, html, strlen(html), err);
    tw_free(html);
    tw_free(path);
    return rc;
}

/* The pages of the runs come first: what the page of the search leads to is there. */
static int save_folder(struct tw_isolate *c, const struct twin_isolation *x, const char *folder,
                       struct twin_error *err)
{
    struct twin_isolation linked = *x;
    uint32_t *number = tw_calloc(PAGES, sizeof *number);
    size_t count = 0;
    int rc = number ? 0 : tw_no_memory(err, "making pages");
    for (size_t i = 0; rc == 0 && i < c->log.count && count < PAGES; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct twin_run *run = tw_isolate_find(c, e->result.handle);
        if (!run)
            continue;
        rc = tw_run_save_page(run, e->number, "isolate", c->home, folder, err);
        number[count++] = e->number;
    }
    linked.linked = number;
    linked.linked_count = count;
    if (rc == 0)
        rc = save(&linked, folder, TW_RUNS_PAGE, err);
    tw_free(number);
    return rc;
}

int tw_isolate_save_pages(struct tw_isolate *c, const struct tw_isolate_result *found,
                          const char *html, struct twin_error *err)
{
    if (found->failed)
        return tw_no_memory(err, "making a page");
    int rc = save(&found->x, c->journal.folder, "report.html", err);
    if (rc == 0 && html)
        rc = tw_page_is_folder(html) ? save_folder(c, &found->x, html, err)
                                     : save(&found->x, NULL, html, err);
    return rc;
}
