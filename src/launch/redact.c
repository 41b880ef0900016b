/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces secrets by keyed hashes. The key lies outside of every home, in the user's state folder
 * ($XDG_STATE_HOME, else ~/.local/state): a home is handed around, packed or committed by accident,
 * and with its key in it everybody could try guesses. A key that an older version left in a home is
 * moved there, and the home remembers its name.
 */
#include "src/launch/redact.h"

#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* SHOWN_BYTES: how much of a keyed hash is shown. */
enum { KEY_BYTES = 32, SHOWN_BYTES = 8 };
static const char name_of_key[] = "redaction.key", name_of_id[] = "redaction.id",
                  begin[] = "[redacted";

/* has_key false: there is no usable key, and secrets become "[redacted]" without a hash. id: a hash
 * of a fixed text under the key; it names the key without telling it. */
struct twin_redactor {
    bool has_key;
    unsigned char key[KEY_BYTES];
    char id[2 * SHOWN_BYTES + 1];
};

/* HMAC-SHA-256 of the data, cut to SHOWN_BYTES, as hex; "" without a key. */
static void digest(const struct twin_redactor *r, const void *data, size_t n,
                   char out[2 * SHOWN_BYTES + 1])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    out[0] = '\0';
    if (r->has_key && HMAC(EVP_sha256(), r->key, KEY_BYTES, data, n, mac, &length) &&
        length >= SHOWN_BYTES)
        tw_hex(mac, SHOWN_BYTES, out);
}

/* Reads a key and computes its id; true when there is a key now. A key that others may read, or
 * that another user owns, hides nothing from them: it is not used. */
static bool read_key(struct twin_redactor *r, const char *path)
{
    static const char about[] = "twinrun redaction key";
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool safe = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    safe = safe && (st.st_mode & 077) == 0 && st.st_uid == geteuid();
    r->has_key = safe && tw_pread_all(fd, r->key, KEY_BYTES, 0) == KEY_BYTES;
    if (fd >= 0)
        close(fd);
    digest(r, about, sizeof about - 1, r->id);
    r->has_key = r->id[0] != '\0';
    return r->has_key;
}

/* Complete under its name or not there: commands that start at the same time agree on one. */
static void write_key(const char *path, const unsigned char key[KEY_BYTES])
{
    char *temp = tw_printf("%s.%ld", path, (long)getpid());
    int fd = temp ? open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0) {
        bool written = tw_write_all(fd, key, KEY_BYTES) == 0 && fsync(fd) == 0;
        close(fd);
        if (written && link(temp, path) != 0 && errno != EEXIST && access(path, F_OK) != 0)
            rename(temp, path); /* a file system without links */
        unlink(temp);
    }
    tw_free(temp);
}

/* The folder of the user's keys, made and kept out of git; NULL: there is none, or no memory. */
static char *key_folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *user = getenv("HOME");
    const struct passwd *account = NULL;
    char *base = NULL;
    if (!user || user[0] != '/') {
        account = getpwuid(geteuid());
        user = account ? account->pw_dir : NULL;
    }
    if (state && state[0] == '/')
        base = tw_strdup(state);
    else if (user && user[0] == '/')
        base = tw_path_join(user, ".local/state");
    char *folder = base && tw_mkdirs(base, NULL) == 0 ? tw_path_join(base, "twinrun") : NULL;
    if (folder && mkdir(folder, 0700) != 0 && errno != EEXIST) {
        tw_free(folder);
        folder = NULL;
    }
    char *hidden = folder ? tw_path_join(folder, ".gitignore") : NULL;
    int fd = hidden ? open(hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0) {
        tw_write_all(fd, "*\n", 2);
        close(fd);
    }
    tw_free(hidden);
    tw_free(base);
    return folder;
}

/* The key that the home names: one that an older version had left in it. */
static bool read_named(struct twin_redactor *r, const char *home, const char *folder)
{
    char *marker = tw_path_join(home, name_of_id), *id = NULL;
    size_t n = 0;
    bool found = false;
    if (marker && tw_read_file(marker, 64, &id, &n, NULL) == 0) {
        id[strcspn(id, "\n")] = '\0';
        bool plain = tw_is_hex(id, 2 * SHOWN_BYTES);
        char *path = plain ? tw_printf("%s/redaction-%s.key", folder, id) : NULL;
        found = path && read_key(r, path) && strcmp(r->id, id) == 0;
        tw_free(path);
    }
    tw_free(id);
    tw_free(marker);
    return found;
}

/* Moves a key that an older version left in the home to the user's folder (NULL: stays where it
 * is). It is deleted in the home only when it can be read in its new place. True when the home has
 * a key, moved or not. */
static bool take_over(struct twin_redactor *r, const char *home, const char *folder)
{
    char *old = tw_path_join(home, name_of_key);
    bool found = old && read_key(r, old);
    if (found && folder) {
        struct twin_redactor copy = {0};
        char line[2 * SHOWN_BYTES + 2];
        char *path = tw_printf("%s/redaction-%s.key", folder, r->id);
        char *marker = tw_path_join(home, name_of_id);
        int length = snprintf(line, sizeof line, "%s\n", r->id);
        if (path)
            write_key(path, r->key);
        bool moved = path && marker && read_key(&copy, path) &&
                     memcmp(copy.key, r->key, KEY_BYTES) == 0;
        if (moved && tw_write_file_atomic(marker, line, (size_t)length, NULL) == 0)
            unlink(old);
        explicit_bzero(&copy, sizeof copy);
        tw_free(path);
        tw_free(marker);
    }
    tw_free(old);
    return found;
}

/* The key of the user, made when there is none. */
static void read_own(struct twin_redactor *r, const char *folder)
{
    char *path = tw_path_join(folder, name_of_key);
    if (path && !read_key(r, path) && access(path, F_OK) != 0) {
        unsigned char key[KEY_BYTES];
        if (getrandom(key, sizeof key, 0) == sizeof key)
            write_key(path, key);
        explicit_bzero(key, sizeof key);
        read_key(r, path);
    }
    tw_free(path);
}

/* In this order: the key that the home names, a key in the home itself, the user's own key. So
 * words of an old home keep their hashes. No key at all is no error. */
int twin_redactor_open(const char *home, struct twin_redactor **out, struct twin_error *err)
{
    struct twin_redactor *r = tw_calloc(1, sizeof *r);
    *out = r;
    if (!r)
        return tw_no_memory(err, "keeping secrets out of the record");
    char *folder = key_folder();
    bool found = folder && read_named(r, home, folder);
    found = found || take_over(r, home, folder);
    if (!found && folder)
        read_own(r, folder);
    tw_free(folder);
    return 0;
}

struct twin_redactor *twin_redactor_without_key(void)
{
    return tw_calloc(1, sizeof(struct twin_redactor));
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

/* Writes "[redacted:<hash>]", or "[redacted]" without a key. */
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

/* *pending: what the last word announced ("--password"), carried from word to word; NULL for a text
 * that stands alone. malloc'ed; NULL when out of memory. */
char *twin_redact(const struct twin_redactor *r, const char *s, int *pending)
{
    int alone = TW_SECRET_NONE;
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
    return tw_secret_variable_kept(name, strlen(name)) ? twin_redact(r, value, NULL)
                                                       : twin_redact_whole(r, value, strlen(value));
}

char **twin_redact_argv(const struct twin_redactor *r, char *const *argv, size_t argc)
{
    int pending = TW_SECRET_NONE;
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
