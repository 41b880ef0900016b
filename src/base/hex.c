/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as hexadecimal digits, and back. Digests, ids and keys are written in small digits only, so
 * that two texts of one digest are equal byte by byte; capital ones are no digest of ours.
 */
#include "base.h"

#include <string.h>

int tw_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t tw_hex_span(const char *s)
{
    return strspn(s, "0123456789abcdef");
}

bool tw_is_hex(const char *s, size_t digits)
{
    return s && tw_hex_span(s) == digits && s[digits] == '\0';
}

bool tw_is_git_hash(const char *s)
{
    return tw_is_hex(s, 40) || tw_is_hex(s, 64);
}

void tw_hex(const void *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = '\0';
}

bool tw_unhex(const char *hex, size_t bytes, void *out)
{
    unsigned char *to = out;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t byte;
        if (!tw_hex_number(hex + 2 * i, 2, &byte))
            return false;
        to[i] = (unsigned char)byte;
    }
    return true;
}

/* Digit by digit, so that a text that ends too early is read up to its NUL and no further. */
bool tw_hex_number(const char *hex, unsigned digits, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++) {
        const int digit = tw_hex_digit(hex[i]);
        if (digit < 0 || (hex[i] >= 'A' && hex[i] <= 'F'))
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

char *tw_hex_128(uint64_t high, uint64_t low, char out[33])
{
    unsigned char bytes[16];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(high >> (56 - 8 * i));
        bytes[8 + i] = (unsigned char)(low >> (56 - 8 * i));
    }
    tw_hex(bytes, sizeof bytes, out);
    return out;
}
