/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one check of paths that somebody else wrote: of a package, a run folder, a manifest, a JSON
 * file, a checkout. Whoever opens, makes or prints such a path asks here first; opening then
 * follows no link (tw_open_below), since what a path leads to is not in its text.
 */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a whole path: what Linux takes. */
enum { PATH_BYTES = 4096 };

/*
 * Characters that HFS+ leaves out when it compares names, in UTF-8: U+200C to U+200F, U+202A to
 * U+202E, U+206A to U+206F, U+FEFF. The number of bytes of one that begins at p, or 0.
 */
static size_t ignored_by_hfs(const unsigned char *p, size_t n)
{
    if (n < 3)
        return 0;
    bool zero_width = p[0] == 0xE2 && p[1] == 0x80 && p[2] >= 0x8C && p[2] <= 0x8F;
    bool direction = p[0] == 0xE2 && p[1] == 0x80 && p[2] >= 0xAA && p[2] <= 0xAE;
    bool old_format = p[0] == 0xE2 && p[1] == 0x81 && p[2] >= 0xAA && p[2] <= 0xAF;
    bool byte_order = p[0] == 0xEF && p[1] == 0xBB && p[2] == 0xBF;
    return zero_width || direction || old_format || byte_order ? 3 : 0;
}

/*
 * Would git, on some file system, take this name for its own folder? ".git" in any case, with what
 * Windows drops at the end (dots, blanks, a stream's name) or macOS leaves out, and its short name
 * "git~1".
 */
static bool is_git(const char *name, size_t n)
{
    char plain[16];
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < sizeof plain;) {
        size_t ignored = ignored_by_hfs((const unsigned char *)name + i, n - i);
        if (ignored == 0)
            plain[k++] = name[i++];
        else
            i += ignored;
    }
    plain[k] = '\0';
    if (strncasecmp(plain, "git~", 4) == 0)
        return plain[4] >= '0' && plain[4] <= '9';
    if (strncasecmp(plain, ".git", 4) != 0)
        return false;
    size_t end = 4 + strspn(plain + 4, ". ");
    return plain[end] == '\0' || plain[end] == ':';
}

/* What is wrong with one part of a path, between two slashes; NULL: nothing. */
static const char *part_fault(const char *part, size_t n, unsigned allow)
{
    if (n == 0)
        return "an empty part";
    if (n > TW_PATH_PART_BYTES)
        return "a name that is too long";
    if (n == 1 && part[0] == '.')
        return "a part \".\"";
    if (n == 2 && part[0] == '.' && part[1] == '.')
        return "a part \"..\"";
    if (!(allow & TW_PATH_GIT) && is_git(part, n))
        return "a name that git keeps for itself";
    if (!(allow & TW_PATH_ANY_NAME) && (part[n - 1] == '.' || part[n - 1] == ' '))
        return "a name that ends in a dot or a blank";
    return NULL;
}

/* Control characters, what is no UTF-8, and what other systems read as a separator or an escape. */
static bool is_plain(const char *path, size_t n)
{
    if (memchr(path, '%', n) || memchr(path, '\\', n))
        return false;
    char *safe = tw_printable(path, n);
    bool same = safe && strlen(safe) == n && memcmp(safe, path, n) == 0;
    tw_free(safe);
    return same;
}

/* Part by part, then the characters of the whole. */
const char *tw_path_fault(const char *path, size_t n, unsigned allow)
{
    if (n == 0)
        return "nothing";
    if (n > PATH_BYTES)
        return "a path that is too long";
    if (memchr(path, '\0', n))
        return "a NUL";
    if (path[0] == '/')
        return "an absolute path";
    for (size_t at = 0; at <= n;) {
        const char *slash = memchr(path + at, '/', n - at);
        size_t part = slash ? (size_t)(slash - path) - at : n - at;
        const char *fault = part_fault(path + at, part, allow);
        if (fault)
            return fault;
        at += part + 1;
    }
    if (!(allow & TW_PATH_ANY_NAME) && !is_plain(path, n))
        return "characters that are no plain text";
    return NULL;
}

bool tw_path_ok(const char *path)
{
    return path && tw_path_fault(path, strlen(path), 0) == NULL;
}

/* depth: how many folders the link lies below the root, so many "../" stay inside. */
bool tw_path_link_ok(const char *path, const char *target)
{
    size_t depth = 0;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    const char *rest = tw_starts(target, "./") ? target + 2 : target;
    while (strncmp(rest, "../", 3) == 0 && depth > 0) {
        rest += 3;
        depth--;
    }
    size_t n = strlen(rest);
    if (n > 1 && rest[n - 1] == '/')
        n--;
    if (n == 2 && memcmp(rest, "..", 2) == 0)
        return depth > 0;
    if (n == 1 && rest[0] == '.')
        return true;
    return tw_path_fault(rest, n, 0) == NULL;
}

bool tw_path_part(const char **path, char part[TW_PATH_PART_BYTES + 1])
{
    size_t n = strcspn(*path, "/");
    if (n == 0 || n > TW_PATH_PART_BYTES)
        return false;
    memcpy(part, *path, n);
    part[n] = '\0';
    *path += n;
    return true;
}

/* Opens folder by folder, so that no part can be a link, whenever it was put there. */
int tw_open_below(int root, const char *path, int flags)
{
    char part[TW_PATH_PART_BYTES + 1];
    int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
    while (at >= 0) {
        if (!tw_path_part(&path, part)) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        bool last = !*path;
        /* O_NONBLOCK: a pipe must not keep us waiting */
        int how = last ? flags | O_NONBLOCK : O_PATH | O_DIRECTORY;
        int next = openat(at, part, how | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0666);
        int saved = errno;
        close(at);
        errno = saved;
        if (last || next < 0)
            return next;
        at = next;
        path++;
    }
    return -1;
}

/* Goes down part by part with descriptors. mkdir and open are two steps, but O_NOFOLLOW refuses a
 * link that somebody puts there in between. */
int tw_folder_below(int root, const char *path)
{
    char part[TW_PATH_PART_BYTES + 1];
    int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
    while (at >= 0 && *path) {
        if (!tw_path_part(&path, part)) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        /* the parent is closed before the next part is looked at; errno is that of the part */
        int next = -1;
        if (mkdirat(at, part, 0777) == 0 || errno == EEXIST)
            next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
        path += *path == '/';
    }
    return at;
}
