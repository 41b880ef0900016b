/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include "say.h"

#include "base.h"

#include <string.h>
#include <unistd.h>

int tw_page_check(const char *verb, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!path)
        return 0;
    char *dir = slash ? tw_strndup(path, (size_t)(slash - path) + (slash == path)) : tw_strdup(".");
    int rc = !dir ? twin_error_set(&err, TWIN_ENOMEM, "out of memory") : access(dir, W_OK) == 0 ? 0 : twin_error_system(&err, "cannot write into %s", dir);
    tw_free(dir);
    return rc == 0 ? 0 : tw_trouble(&err, "%s: --html", verb);
}

int tw_page_write(const char *verb, struct twin_page *p, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *html = NULL;
    size_t bytes = 0;
    int rc = p ? twin_page_finish(p, &html, &bytes, &err) : twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    twin_page_close(p);
    if (rc == 0)
        rc = tw_write_file_atomic(path, html, bytes, &err);
    tw_free(html);
    return rc == 0 ? 0 : tw_trouble(&err, "%s: the report is not written as a page", verb);
}
