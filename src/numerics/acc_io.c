/* SPDX-License-Identifier: Apache-2.0 */
/* The accumulator as bytes (docs/format/accumulator.md), so that partial sums can be stored or sent
 * and merged elsewhere. Little endian, with a checksum. Reading takes nothing that no sum could
 * have left: flags and magnitude must fit the count, so that later additions cannot overflow. */
#include <string.h>
#include "base.h"
#include "exact_inside.h"

#define VERSION 1
/* Where each field begins, in bytes. */
enum {
    MAGIC_AT = 0,
    VERSION_AT = 4,
    FLAGS_AT = 6,
    COUNT_AT = 8,
    LIMBS_AT = 16,
    CRC_AT = LIMBS_AT + 8 * TWIN_ACC_LIMBS
};
_Static_assert(CRC_AT + 8 == TWIN_ACC_BYTES, "header, limbs, checksum and its padding");
static const char magic[4] = {'T', 'W', 'A', 'C'};

/* `bytes` bytes of v, little end first; get_little() is the way back. */
static void put_little(unsigned char *p, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get_little(const unsigned char *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

void twin_acc_write(const struct twin_acc *acc, unsigned char out[TWIN_ACC_BYTES])
{
    memcpy(out + MAGIC_AT, magic, sizeof magic);
    put_little(out + VERSION_AT, VERSION, 2);
    put_little(out + FLAGS_AT, acc->flags, 2);
    put_little(out + COUNT_AT, acc->count, 8);
    for (size_t i = 0; i < TWIN_ACC_LIMBS; i++)
        put_little(out + LIMBS_AT + 8 * i, acc->limb[i], 8);
    put_little(out + CRC_AT, tw_crc32c(0, out, CRC_AT), 8);
}

/* Whether `count` numbers, each below 2^TW_ACC_HIGH, can have a sum of this magnitude: then it is
 * below count * 2^TW_ACC_HIGH. The bound is closed under adding and merging, so what is read once
 * stays readable, and no later sum overflows: see TWIN_ACC_LIMBS. */
static bool possible(const uint64_t magnitude[TWIN_ACC_LIMBS], int bits, uint64_t count)
{
    enum { UNITS = TW_ACC_HIGH - TW_ACC_LOW, LIMB = UNITS / 64, SHIFT = UNITS % 64 };
    _Static_assert(SHIFT > 0 && LIMB + 2 == TWIN_ACC_LIMBS,
                   "the quotient lies in the two highest limbs");
    return bits == 0 || (bits <= UNITS + 64 &&
                         (magnitude[LIMB] >> SHIFT | magnitude[LIMB + 1] << (64 - SHIFT)) < count);
}

/* What is wrong with the contents, or 0. */
static int check_contents(const struct twin_acc *a, struct twin_error *err)
{
    uint64_t magnitude[TWIN_ACC_LIMBS];
    int bits;
    tw_acc_magnitude(a, magnitude, &bits);
    if (a->flags & ~(uint32_t)TW_ACC_FLAGS)
        return twin_error_set(err, TWIN_EFORMAT,
                              "accumulator, offset %d: expected flags of %#x, found %#x", FLAGS_AT,
                              TW_ACC_FLAGS, a->flags);
    if (a->flags && (!a->count || !(a->flags & TW_ACC_NOT_MINUS_ZERO)))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "accumulator, offset %d: flags %#x contradict a sum of %llu numbers or each other",
            FLAGS_AT, a->flags, (unsigned long long)a->count);
    if (bits && !(a->flags & TW_ACC_NOT_MINUS_ZERO))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "accumulator, offset %d: flags say that every number was -0, but the sum is not zero",
            FLAGS_AT);
    if (!possible(magnitude, bits, a->count))
        return twin_error_set(err, TWIN_EFORMAT,
                              "accumulator, offset %d: expected the sum of %llu numbers, found one "
                              "of %d bits: too large for so few",
                              LIMBS_AT, (unsigned long long)a->count, bits);
    return 0;
}

/* *acc is set on success only. */
int twin_acc_read(struct twin_acc *acc, const void *data, size_t bytes, struct twin_error *err)
{
    const unsigned char *p = data;
    if (bytes != TWIN_ACC_BYTES || !data)
        return twin_error_set(err, TWIN_EFORMAT, "accumulator: expected %d bytes, found %zu",
                              TWIN_ACC_BYTES, bytes);
    if (memcmp(p + MAGIC_AT, magic, sizeof magic))
        return twin_error_set(err, TWIN_EFORMAT,
                              "accumulator, offset 0: expected \"TWAC\", found %02x %02x %02x %02x",
                              p[0], p[1], p[2], p[3]);
    const unsigned version = (unsigned)get_little(p + VERSION_AT, 2);
    if (version != VERSION)
        return twin_error_set(err, TWIN_EVERSION, "accumulator: version %u, this program reads %d",
                              version, VERSION);
    const uint64_t stored = get_little(p + CRC_AT, 8), crc = tw_crc32c(0, p, CRC_AT);
    if (stored != crc)
        return twin_error_set(err, TWIN_EFORMAT,
                              "accumulator, offset %d: expected checksum %#llx, found %#llx",
                              CRC_AT, (unsigned long long)crc, (unsigned long long)stored);
    struct twin_acc a;
    twin_acc_init(&a);
    a.flags = (uint32_t)get_little(p + FLAGS_AT, 2);
    a.count = get_little(p + COUNT_AT, 8);
    for (size_t i = 0; i < TWIN_ACC_LIMBS; i++)
        a.limb[i] = get_little(p + LIMBS_AT + 8 * i, 8);
    const int rc = check_contents(&a, err);
    if (rc == 0)
        *acc = a;
    return rc;
}
