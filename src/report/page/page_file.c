/* SPDX-License-Identifier: Apache-2.0 */
/* A page as a file of the user's: asks before the work whether the file could be written, and
 * writes it after. Commands with --html call both; HTML is made elsewhere (page.c). */
#include "page_file.h"

#include "base.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder that a path lies in. malloc'ed; NULL: no memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return tw_strdup(".");
    if (slash == path)
        return tw_strdup("/");
    return tw_strndup(path, (size_t)(slash - path));
}

bool tw_page_is_folder(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Only the folder is asked: the file itself is written beside its place and renamed, so it need not
 * exist, and an old one need not be writable. */
int tw_page_may_save(const char *path, struct twin_error *err)
{
    int rc = 0;
    if (!path)
        return 0;
    if (tw_page_is_folder(path))
        return twin_error_set(err, TWIN_EINVAL, "expected a file, found the folder %s", path);
    char *dir = folder_of(path);
    if (!dir)
        return tw_no_memory(err, "making a page");
    if (access(dir, W_OK) != 0)
        rc = twin_error_system(err, "cannot write into %s", dir);
    tw_free(dir);
    return rc;
}

int tw_pages_may_save(const char *path, struct twin_error *err)
{
    if (!tw_page_is_folder(path))
        return tw_page_may_save(path, err);
    return access(path, W_OK) == 0 ? 0 : twin_error_system(err, "cannot write into %s", path);
}

/* The page is closed before the file is written: from then on only its text is needed. */
int tw_page_save(struct twin_page *p, const char *path, struct twin_error *err)
{
    char *html = NULL;
    size_t bytes = 0;
    if (!p)
        return tw_no_memory(err, "making a page");
    int rc = twin_page_finish(p, &html, &bytes, err);
    twin_page_close(p);
    if (rc == 0)
        rc = tw_write_file_atomic(path, html, bytes, err);
    tw_free(html);
    return rc;
}
