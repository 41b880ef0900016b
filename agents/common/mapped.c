/* SPDX-License-Identifier: Apache-2.0 */
#include "mapped.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct walk {
    void (*file)(const char *path, void *user);
    void *user;
    char last[1024]; /* a file has several mappings, one behind the other */
};

/* One line of maps: "from-to rights offset device inode   path". */
static void look_at(struct walk *w, char *text)
{
    char *path = strchr(text, '/'), *rights = strchr(text, ' ');
    if (!path || !rights || path < rights + 5 || rights[3] != 'x' || strcmp(path, w->last) == 0)
        return;
    snprintf(w->last, sizeof w->last, "%s", path);
    w->file(path, w->user);
}

void tw_each_mapped(void (*file)(const char *path, void *user), void *user)
{
    struct walk w = {.file = file, .user = user, .last = ""};
    char text[4096 + 1];
    size_t have = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0;) {
        char *from = text, *end;
        have += (size_t)n;
        text[have] = '\0';
        while ((end = strchr(from, '\n'))) {
            *end = '\0';
            look_at(&w, from);
            from = end + 1;
        }
        have -= (size_t)(from - text);
        memmove(text, from, have);
        if (have == sizeof text - 1) /* longer than any path: dropped */
            have = 0;
    }
    if (fd >= 0)
        close(fd);
}
