/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the folder given in each way of <dirent.h>; a line for each way. Fails when seekdir,
 * rewinddir or errno are not right. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int hidden(const char *name)
{
    return name[0] == '.';
}

static int visible(const struct dirent *e)
{
    return !hidden(e->d_name);
}

int main(int argc, char **argv)
{
    struct dirent *e, room, **list;
    char second[256] = "";
    long at = 0;
    if (argc != 2)
        return 2;
    DIR *d = opendir(argv[1]), *other = opendir(argv[1]);
    printf("readdir");
    errno = 77;
    for (int i = 0; (e = readdir(d)); i++) {
        readdir(other); /* two directories at a time */
        if (!hidden(e->d_name))
            printf(" %s", e->d_name);
        if (i == 0)
            at = telldir(d);
        if (i == 1)
            strcpy(second, e->d_name);
    }
    if (errno != 77)
        return 3;
    closedir(other);
    seekdir(d, at);
    if (!(e = readdir(d)) || strcmp(e->d_name, second) != 0)
        return 4;
    rewinddir(d);
    printf("\nreaddir_r");
    while (readdir_r(d, &room, &e) == 0 && e)
        if (!hidden(e->d_name))
            printf(" %s", e->d_name);
    closedir(d);
    printf("\nscandir");
    int n = scandir(argv[1], &list, visible, NULL);
    for (int i = 0; i < n; free(list[i++]))
        printf(" %s", list[i]->d_name);
    free(list);
    printf("\nalphasort");
    n = scandir(argv[1], &list, visible, alphasort);
    for (int i = 0; i < n; free(list[i++]))
        printf(" %s", list[i]->d_name);
    free(list);
    printf("\n");
    /* removed while reading: what was seen is removed, nothing is skipped */
    d = opendir(argv[1]);
    int removed = 0, more = 0;
    chdir(argv[1]);
    while ((e = readdir(d)))
        if (!hidden(e->d_name) && unlink(e->d_name) == 0)
            removed++;
    rewinddir(d);
    while ((e = readdir(d)))
        more += !hidden(e->d_name);
    closedir(d);
    return removed == n && more == 0 ? 0 : 5;
}
