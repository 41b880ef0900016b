/* SPDX-License-Identifier: Apache-2.0 */
#include <twin/redact.h>

#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 32, SHOWN_BYTES = 8 };
static const char name_of_key[] = "redaction.key", begin[] = "[redacted";

struct twin_redactor {
    bool has_key;
    unsigned char key[KEY_BYTES];
    char id[2 * SHOWN_BYTES + 1];
};

static int no_memory(struct twin_error *err)
{
    return twin_error_set(err, TWIN_ENOMEM, "out of memory keeping secrets out of the record");
}

/* A key that others may read hides nothing from them: it is not used. */
static bool read_key(struct twin_redactor *r, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) == 0 && tw_pread_all(fd, r->key, KEY_BYTES, 0) == KEY_BYTES;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Complete under its name or not there: runs that start at the same time agree on one. */
static void make_key(const char *home, const char *path)
{
    unsigned char key[KEY_BYTES];
    char *temp = tw_printf("%s/.%s.%ld", home, name_of_key, (long)getpid());
    int fd = temp && getrandom(key, sizeof key, 0) == sizeof key ? open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0) {
        bool written = tw_write_all(fd, key, sizeof key) == 0 && fsync(fd) == 0;
        close(fd);
        if (written && link(temp, path) != 0 && errno != EEXIST && access(path, F_OK) != 0)
            written = rename(temp, path) == 0; /* a file system without links */
        unlink(temp);
    }
    explicit_bzero(key, sizeof key);
    tw_free(temp);
}

static void digest(const struct twin_redactor *r, const void *data, size_t n, char out[2 * SHOWN_BYTES + 1])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    out[0] = '\0';
    if (r->has_key && HMAC(EVP_sha256(), r->key, KEY_BYTES, data, n, mac, &length) && length >= SHOWN_BYTES)
        tw_hex(mac, SHOWN_BYTES, out);
}

int twin_redactor_open(const char *home, struct twin_redactor **out, struct twin_error *err)
{
    static const char about[] = "twinrun redaction key";
    struct twin_redactor *r = tw_calloc(1, sizeof *r);
    char *path = tw_path_join(home, name_of_key);
    *out = r;
    if (!r || !path) {
        tw_free(r);
        tw_free(path);
        *out = NULL;
        return no_memory(err);
    }
    if (!(r->has_key = read_key(r, path)) && access(path, F_OK) != 0) {
        make_key(home, path);
        r->has_key = read_key(r, path);
    }
    digest(r, about, sizeof about - 1, r->id);
    r->has_key = r->id[0] != '\0';
    tw_free(path);
    return 0;
}

void twin_redactor_close(struct twin_redactor *r)
{
    if (r)
        explicit_bzero(r->key, sizeof r->key);
    tw_free(r);
}

const char *twin_redactor_key_id(const struct twin_redactor *r)
{
    return r->id;
}

static void put_redacted(const struct twin_redactor *r, struct tw_buf *b, const char *s, size_t n)
{
    char hex[2 * SHOWN_BYTES + 1];
    digest(r, s, n, hex);
    tw_buf_printf(b, "%s%s%s]", begin, *hex ? ":" : "", hex);
}

char *twin_redact_whole(const struct twin_redactor *r, const char *s, size_t n)
{
    struct tw_buf b = {0};
    put_redacted(r, &b, s, n);
    return tw_buf_steal(&b);
}

char *twin_redact(const struct twin_redactor *r, const char *s, bool *pending)
{
    bool alone = false;
    size_t n = strlen(s), at = 0, done = 0, from, to;
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    while (tw_secret_next(pending ? pending : &alone, s, n, &at, &from, &to)) {
        tw_buf_append(&b, s + done, from - done);
        put_redacted(r, &b, s + from, to - from);
        done = to;
    }
    tw_buf_append(&b, s + done, n - done);
    return tw_buf_steal(&b);
}

char *twin_redact_variable(const struct twin_redactor *r, const char *name, const char *value)
{
    return tw_secret_variable_kept(name, strlen(name)) ? twin_redact(r, value, NULL) : twin_redact_whole(r, value, strlen(value));
}

char **twin_redact_argv(const struct twin_redactor *r, char *const *argv, size_t argc)
{
    bool pending = false;
    char **out = tw_calloc(argc + 1, sizeof *out);
    for (size_t i = 0; out && i < argc; i++)
        if (!(out[i] = twin_redact(r, argv[i], &pending))) {
            tw_strings_free(out);
            return NULL;
        }
    return out;
}

void twin_redact_free(char **argv)
{
    tw_strings_free(argv);
}

bool twin_redacted(const char *s)
{
    const char *at = strstr(s, begin);
    return at && (at[sizeof begin - 1] == ':' || at[sizeof begin - 1] == ']');
}
