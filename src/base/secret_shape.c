/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that are known by how they look: tokens of services (secret_shapes.h), and random texts
 * that look like nothing else. Digests, commits, UUIDs and run ids are hex: they name things and
 * stay readable.
 */
#include "base.h"

#include "secret_shapes.h"

#include <ctype.h>
#include <string.h>

/* See secret_shapes.h. */
enum alphabet { WORD, DOTTED, HEX, UPPER, BASE64 };

/* A row of secret_shapes.h without its test vector. */
struct shape {
    const char *begin;
    enum alphabet alphabet;
    size_t least;
};

static bool is_in(enum alphabet alphabet, char c)
{
    unsigned char u = (unsigned char)c;
    switch (alphabet) {
    case WORD: return isalnum(u) || c == '_' || c == '-';
    case DOTTED: return isalnum(u) || c == '_' || c == '-' || c == '.';
    case HEX: return isxdigit(u) != 0;
    case UPPER: return isupper(u) || isdigit(u);
    case BASE64: return isalnum(u) || (c && strchr("_-+/=", c));
    }
    return false;
}

/* How many bytes of s are a token of some service; 0: none begins here. */
size_t tw_secret_shape(const char *s, size_t n)
{
#define TW_SHAPE(service, begin, alphabet, least, vector) {begin, alphabet, least},
    static const struct shape shapes[] = {TW_SECRET_SHAPES};
#undef TW_SHAPE
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *k = &shapes[i];
        size_t head = strlen(k->begin), at = head, upper = 0, lower = 0, digit = 0;
        if (n < head || memcmp(s, k->begin, head) != 0)
            continue;
        for (; at < n && is_in(k->alphabet, s[at]); at++) {
            upper += isupper((unsigned char)s[at]) != 0;
            lower += islower((unsigned char)s[at]) != 0;
            digit += isdigit((unsigned char)s[at]) != 0;
        }
        /* A name that only begins like a token (sk-learn-intelex-patch) is a word in one case
         * without digits. */
        bool mixed = upper ? lower || digit : lower && digit;
        if (at - head >= k->least && mixed)
            return at;
    }
    return 0;
}

/* ---- random texts */

/* Bytes of a random text at least, and lower-case letters in a row at most: longer runs are words.
 */
enum { RANDOM_LEAST = 32, WORD_MOST = 9 };

enum class { NO_CLASS, LOWER_CASE, UPPER_CASE, DIGIT };

static enum class class_of(char c) {
    unsigned char u = (unsigned char)c; if (isdigit(u)) return DIGIT;
    if (isupper(u)) return UPPER_CASE;
    return islower(u) ? LOWER_CASE : NO_CLASS;
}

/*
 * Is this run of characters as mixed as random ones? Names and paths are made of words: long runs
 * of one class of characters. In random base 62 the class changes at 62 of 100 places, in random
 * base 36 at 40.
 */
static bool is_mixed(const char *s, size_t n)
{
    size_t seen[4] = {0}, changes = 0, longest = 0, run = 0;
    bool only_hex = true;
    for (size_t i = 0; i < n; i++) {
        enum class class = class_of(s[i]);
        bool goes_on = i > 0 && class == class_of(s[i - 1]);
        seen[class]++;
        changes += i > 0 && !goes_on;
        run = goes_on ? run + 1 : 1;
        if (class == LOWER_CASE && run > longest)
            longest = run;
        only_hex &= isxdigit((unsigned char)s[i]) || s[i] == '-';
    }
    if (only_hex || longest > WORD_MOST || seen[DIGIT] < 3 || seen[NO_CLASS] > n / 8)
        return false;
    if (seen[UPPER_CASE] >= 4 && seen[LOWER_CASE] >= 4)
        return changes * 100 >= n * 42;
    return seen[NO_CLASS] == 0 && seen[DIGIT] >= 6 && changes * 100 >= n * 30;
}

/* How many bytes of s are a random text; 0: none begins here. */
size_t tw_secret_random(const char *s, size_t n)
{
    /* What these announce is a digest, which names something. */
    static const char *const digests[] = {"sha1",   "sha256", "sha384", "sha512",
                                          "SHA256", "SHA512", "md5",    "blake3"};
    size_t end = 0;
    for (size_t i = 0; i < sizeof digests / sizeof digests[0]; i++)
        if (n > strlen(digests[i]) && memcmp(s, digests[i], strlen(digests[i])) == 0)
            return 0;
    while (end < n && is_in(BASE64, s[end]) && s[end] != '=')
        end++;
    if (end < RANDOM_LEAST || s[0] == '/' || memmem(s, end, "//", 2))
        return 0;
    return is_mixed(s, end) ? end : 0;
}
