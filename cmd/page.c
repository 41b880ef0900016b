/* SPDX-License-Identifier: Apache-2.0 */
/* --html of every command: says what keeps a page from being written (src/report/page/page_file.c
 * writes it). */
#include "page.h"

#include "page_file.h"
#include "say.h"

int tw_page_check(const char *verb, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    return tw_page_may_save(path, &err) == 0 ? 0 : tw_trouble(&err, "%s: --html", verb);
}

int tw_pages_check(const char *verb, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    return tw_pages_may_save(path, &err) == 0 ? 0 : tw_trouble(&err, "%s: --html", verb);
}

/* The page is ended here in any case, and freed. */
int tw_page_write(const char *verb, struct twin_page *p, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_page_save(p, path, &err) != 0)
        return tw_trouble(&err, "%s: the report is not written as a page", verb);
    return 0;
}
