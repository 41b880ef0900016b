/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bearer token: read from a file, since arguments and the environment are seen by others. Kept
 * and compared as a digest, whose length says nothing, in constant time.
 */
#include "http.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

enum { TOKEN_LEAST = 16, TOKEN_MOST = 4096 };

static bool digest_of(const char *s, size_t n, unsigned char digest[32])
{
    unsigned bytes = 32;
    return EVP_Digest(s, n, digest, &bytes, EVP_sha256(), NULL) == 1 && bytes == 32;
}

int serve_token_read(const char *path, unsigned char digest[32], struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    struct stat st;
    if (stat(path, &st) != 0)
        return twin_error_system(err, "cannot read the token in %s", path);
    if (st.st_mode & S_IROTH)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected a file that not everybody may read (chmod o-r), since "
                              "the token is in it",
                              path);
    int rc = tw_read_file(path, TOKEN_MOST, &text, &n, err);
    if (rc != 0)
        return rc;
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            rc = twin_error_set(err, TWIN_EINVAL,
                                "%s: expected one line of ASCII without blanks as the token", path);
    if (rc == 0 && n < TOKEN_LEAST)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: expected a token of at least %d characters (openssl rand -hex 32)",
                            path, TOKEN_LEAST);
    if (rc == 0 && !digest_of(text, n, digest))
        rc = twin_error_set(err, TWIN_EUNSUPPORTED, "libcrypto has no SHA-256");
    OPENSSL_cleanse(text, n);
    tw_free(text);
    return rc;
}

bool serve_token_is(const struct server *s, const char *authorization)
{
    unsigned char digest[32];
    static const char scheme[] = "Bearer ";
    const size_t n = sizeof scheme - 1;
    if (!authorization || strncasecmp(authorization, scheme, n) != 0)
        return false;
    return digest_of(authorization + n, strlen(authorization + n), digest) &&
           CRYPTO_memcmp(digest, s->token, sizeof digest) == 0;
}
