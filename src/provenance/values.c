/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the record, and files as values. A value that could not be made is NULL and is left
 * out. */
#include "provenance_inside.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

json_t *tw_pv_text(const struct tw_collector *c, const char *s)
{
    char *safe = s ? twin_redact(c->redactor, s, NULL) : NULL;
    json_t *v = s && !safe ? NULL : tw_json_bytes(safe);
    tw_free(safe);
    return v;
}

void tw_pv_put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

void tw_pv_add(json_t *list, json_t *value)
{
    json_array_append_new(list, value);
}

/* Notes are sentences for people; what they quote is redacted like every other text. */
void tw_pv_note(struct tw_collector *c, const char *format, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    tw_pv_add(c->notes, tw_pv_text(c, text));
}

const char *tw_pv_variable(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

char *tw_pv_read(const char *path, size_t cap)
{
    char *text = NULL;
    size_t n = 0;
    if (tw_read_file(path, cap, &text, &n, NULL) != 0)
        return NULL;
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\0'))
        text[--n] = '\0';
    return text;
}

json_t *tw_pv_line(const char *path)
{
    char *text = tw_pv_read(path, 1 << 16);
    if (!text)
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    json_t *v = tw_json_bytes(text);
    tw_free(text);
    return v;
}

int tw_pv_sha256(const char *path, uint64_t cap, uint64_t deadline_ns, char hex[65],
                 uint64_t *bytes, const char **why)
{
    enum { ROOM = 1 << 20 };
    struct stat st;
    unsigned char digest[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *chunk = NULL;
    EVP_MD_CTX *ctx = NULL;
    uint64_t at = 0;
    hex[0] = '\0';
    *why = NULL;
    if (fd < 0 || fstat(fd, &st) != 0)
        *why = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        *why = "not a regular file";
    if (!*why && cap && (uint64_t)st.st_size > cap)
        *why = "too large";
    if (!*why && (!(chunk = tw_malloc(ROOM)) || !(ctx = EVP_MD_CTX_new()) ||
                  EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1))
        *why = "out of memory";
    while (!*why) {
        ssize_t n = tw_pread_all(fd, chunk, ROOM, at);
        if (n < 0)
            *why = strerror(errno);
        else if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            *why = "out of memory";
        else if (deadline_ns && tw_monotonic_ns() > deadline_ns)
            *why = "no time left to hash it";
        at += n > 0 ? (uint64_t)n : 0;
        /* one that grows while it is read ends somewhere */
        if (n < ROOM || at > (uint64_t)st.st_size + ROOM)
            break;
    }
    if (!*why && EVP_DigestFinal_ex(ctx, digest, NULL) == 1)
        tw_hex(digest, sizeof digest, hex);
    *bytes = at;
    EVP_MD_CTX_free(ctx);
    tw_free(chunk);
    if (fd >= 0)
        close(fd);
    return *why ? -1 : 0;
}
