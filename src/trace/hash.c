/* SPDX-License-Identifier: Apache-2.0 */
/* The hashes of a trace: values of records, steps and prefixes of steps; the seal of a block; the
 * jump pointers. Used by the writer, by the reader's search for the first difference, and by
 * verify.c, which computes all of it again.
 *
 * Three levels. Each record gives 128 bits that depend on its key, its occurrence, its layout and
 * its digest; the records of a step are added up, so their order among threads does not matter. A
 * step's sums are mixed into one element modulo 2^127 - 1. Elements are the coefficients of a
 * polynomial at a fixed point: the prefix over n steps. Two traces agree in their first n steps
 * when their prefixes do, and a window of steps is had from two prefixes.
 *
 * The definitions are frozen, constants included: traces of different versions of twinrun are
 * compared. They find differences; they are not made to resist somebody who forges bytes. */
#include "format.h"

#include <string.h>

/* Seeds keep hashes of different things apart: a string never has the hash of a layout. */
#define SEED_STRING UINT64_C(0x7374722E74776E31)
#define SEED_KEY UINT64_C(0x6B65792E74776E31)
#define SEED_LAYOUT UINT64_C(0x6C61792E74776E31)
#define SEED_PAYLOAD UINT64_C(0x7061792E74776E31)
#define SEED_SEAL UINT64_C(0x7365616C2E746E31)
/* Odd constants with well mixed bits; UNOBSERVED stands for the digest of a record that has none.
 */
#define W0 UINT64_C(0x9E3779B97F4A7C15)
#define W1 UINT64_C(0xD1B54A32D192ED03)
#define UNOBSERVED UINT64_C(0xA24BAED4963EE407)
#define ORDER_START UINT64_C(0x9FB21C651E98DF25)
/* The polynomial's point: fixed, so that prefixes of any two traces can be compared. */
#define POINT_LO UINT64_C(0xD3C5B7A91F2E6D4B)
#define POINT_HI UINT64_C(0x5A1D7C3E9B2F4683)

typedef unsigned __int128 u128;
#define P127 ((((u128)1) << 127) - 1)

/* tw_mix64, here to be inlined: it is most of the work of a record. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

struct tw_hash128 tw_trace_string_hash(const void *bytes, size_t n)
{
    return tw_hash_bytes(bytes, n, SEED_STRING);
}

struct tw_hash128 tw_trace_key_hash(uint8_t phase, uint8_t kind, struct tw_hash128 name,
                                    struct tw_hash128 scope, struct tw_hash128 role)
{
    uint64_t w[7] = {
        (uint64_t)phase | (uint64_t)kind << 8, name.a, name.b, scope.a, scope.b, role.a, role.b};
    return tw_hash_bytes(w, sizeof w, SEED_KEY);
}

struct tw_hash128 tw_trace_layout_hash(uint8_t dtype, uint8_t ndim, const int64_t *shape)
{
    uint64_t w[1 + TWIN_MAX_NDIM] = {(uint64_t)dtype | (uint64_t)ndim << 8};
    if (ndim)
        memcpy(w + 1, shape, ndim * sizeof *shape);
    return tw_hash_bytes(w, (1 + (size_t)ndim) * sizeof *w, SEED_LAYOUT);
}

/* Word i of a payload goes into lane i mod 4: four chains of bijections that the processor runs
 * side by side. */
enum { LANES = 4 };

static inline uint64_t word_at(const char *payload, uint32_t i)
{
    uint64_t w;
    memcpy(&w, payload + 8 * (size_t)i, sizeof w);
    return w;
}

static void lanes_begin(uint64_t lane[LANES])
{
    for (uint64_t k = 0; k < LANES; k++)
        lane[k] = mix(SEED_PAYLOAD + k);
}

/* The words of a payload from number i on, which is a multiple of LANES, and what the lanes come
 * to. */
static struct tw_hash128 lanes_end(uint64_t lane[LANES], const char *payload, uint32_t i,
                                   uint32_t bytes)
{
    uint32_t words = bytes / 8;
    for (; i + LANES <= words; i += LANES)
        for (uint32_t k = 0; k < LANES; k++)
            lane[k] = mix(lane[k] ^ word_at(payload, i + k));
    for (; i < words; i++)
        lane[i % LANES] = mix(lane[i % LANES] ^ word_at(payload, i));
    uint64_t all[LANES + 1];
    memcpy(all, lane, LANES * sizeof *lane);
    all[LANES] = bytes;
    return tw_hash_bytes(all, sizeof all, SEED_PAYLOAD);
}

/* The hash of a payload, which goes into the seal. */
static struct tw_hash128 payload_hash(const char *payload, uint32_t bytes)
{
    uint64_t lane[LANES];
    lanes_begin(lane);
    return lanes_end(lane, payload, 0, bytes);
}

/* The lanes of several payloads over `words` words of each, a multiple of LANES: one payload's
 * chains leave most of the processor idle. The compiler makes vector instructions of it, where it
 * may. */
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

static inline __attribute__((always_inline)) void
side_by_side(const char *const payload[TW_SIDES], uint32_t words, uint64_t lane[TW_SIDES][LANES])
{
    lanes x[TW_SIDES];
    memcpy(x, lane, sizeof x);
    for (uint32_t i = 0; i < words; i += LANES)
        for (int n = 0; n < TW_SIDES; n++) {
            lanes w;
            memcpy(&w, payload[n] + 8 * (size_t)i, sizeof w);
            w ^= x[n];
            w = (w ^ (w >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
            w = (w ^ (w >> 27)) * UINT64_C(0x94D049BB133111EB);
            x[n] = w ^ (w >> 31);
        }
    memcpy(lane, x, sizeof x);
}

static void sides_portable(const char *const payload[TW_SIDES], uint32_t words,
                           uint64_t lane[TW_SIDES][LANES])
{
    side_by_side(payload, words, lane);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
sides_avx2(const char *const payload[TW_SIDES], uint32_t words, uint64_t lane[TW_SIDES][LANES])
{
    side_by_side(payload, words, lane);
}

__attribute__((target("avx512vl,avx512dq"))) static void
sides_avx512(const char *const payload[TW_SIDES], uint32_t words, uint64_t lane[TW_SIDES][LANES])
{
    side_by_side(payload, words, lane);
}
#endif

unsigned tw_trace_vector_bits = 512;

typedef void sides_fn(const char *const payload[TW_SIDES], uint32_t words,
                      uint64_t lane[TW_SIDES][LANES]);

/* The fastest that this processor has. */
static sides_fn *sides(void)
{
#if defined(__x86_64__)
    if (tw_trace_vector_bits >= 512 && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return sides_avx512;
    if (tw_trace_vector_bits >= 256 && __builtin_cpu_supports("avx2"))
        return sides_avx2;
#endif
    return sides_portable;
}

void tw_trace_payload_hashes(const char *const payload[TW_SIDES], const uint32_t bytes[TW_SIDES],
                             struct tw_hash128 hash[TW_SIDES])
{
    uint64_t lane[TW_SIDES][LANES];
    uint32_t all = bytes[0];
    for (int n = 0; n < TW_SIDES; n++) {
        lanes_begin(lane[n]);
        all = bytes[n] < all ? bytes[n] : all;
    }
    all = all / 8 / LANES * LANES;
    sides()(payload, all, lane);
    for (int n = 0; n < TW_SIDES; n++)
        hash[n] = lanes_end(lane[n], payload[n], all, bytes[n]);
}

/* The seal covers the header up to itself, the payload, and by the header's previous_seal all
 * blocks before: changing one block changes the seals of all later ones. */
struct tw_hash128 tw_trace_seal_of(const struct tw_block *b, struct tw_hash128 body)
{
    uint8_t sealed[TW_SEALED_BYTES + sizeof(struct tw_hash128)];
    memcpy(sealed, b, TW_SEALED_BYTES); /* holds the previous seal */
    memcpy(sealed + TW_SEALED_BYTES, &body, sizeof body);
    return tw_hash_bytes(sealed, sizeof sealed, SEED_SEAL);
}

struct tw_hash128 tw_trace_seal(const struct tw_block *b, const void *payload)
{
    return tw_trace_seal_of(b, payload_hash(payload, b->payload_bytes));
}

/* Myers' rule: when the last two jumps were equally long, the new one spans both; else it goes to
 * the block before. The chain keeps only the blocks that later jumps can reach, some log n of them.
 */
uint64_t tw_jump_next(struct tw_jump_chain *c, uint64_t offset, uint64_t number)
{
    uint32_t n = c->length, drop = 0;
    uint64_t jump = 0;
    if (n > 0) {
        /* the first block is its own jump ancestor */
        uint32_t second = n > 1 ? 1 : n - 1;
        uint32_t third = n > 2 ? 2 : n - 1;
        if (c->at[0].number - c->at[second].number == c->at[second].number - c->at[third].number)
            drop = third;
        jump = c->at[drop].offset;
    }
    memmove(&c->at[1], &c->at[drop], (n - drop) * sizeof c->at[0]);
    c->at[0].offset = offset;
    c->at[0].number = number;
    c->length = n - drop + 1;
    return jump;
}

bool tw_trace_is_le(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

/* mix is a bijection: with all but one input fixed, each lane of a value is a bijection of that
 * input. */
struct tw_value_start tw_value_start(struct tw_hash128 key, uint32_t occurrence,
                                     struct tw_hash128 layout)
{
    uint64_t n = (uint64_t)occurrence + 1;
    struct tw_value_start v = {.key_a = mix(key.a + n * W0), .key_b = mix(key.b ^ n * W1)};
    v.a = mix(v.key_a ^ layout.a);
    v.b = mix(v.key_b + layout.b);
    return v;
}

/* Adds one record to a step. Sums are modulo 2^64, in two lanes; the order hash chains the keys
 * instead, so it does depend on the order. */
void tw_step_sums_put(struct tw_step_sums *s, uint8_t phase, const struct tw_value_start *v,
                      bool unobserved, bool ordered, struct twin_digest digest)
{
    if (unobserved) {
        s->phase[phase].lo += mix(v->key_a ^ UNOBSERVED);
        s->phase[phase].hi += mix(v->key_b + UNOBSERVED);
    } else {
        s->phase[phase].lo += mix(mix(v->a + digest.a) ^ digest.b);
        s->phase[phase].hi += mix(mix(v->b ^ digest.b) + digest.a);
    }
    s->phase_mask |= 1u << phase;
    s->records++;
    if (ordered)
        /* never 0: that means empty */
        s->order = mix((s->order ? s->order : ORDER_START) * W0 + v->key_a) | 1;
}

void tw_step_sums_add(struct tw_step_sums *s, uint8_t phase, struct tw_hash128 key,
                      uint32_t occurrence, bool unobserved, bool ordered, struct tw_hash128 layout,
                      struct twin_digest digest)
{
    const struct tw_value_start v = tw_value_start(key, occurrence, layout);
    tw_step_sums_put(s, phase, &v, unobserved, ordered, digest);
}

/* Sums add up. The order hash of a thread is finished by one more mix before it is added: a sum of
 * raw states would not tell one thread's order from another's. */
void tw_step_sums_merge(struct tw_step_sums *total, const struct tw_step_sums *thread)
{
    for (int p = 0; p < TWIN_PHASE_COUNT; p++) {
        total->phase[p].lo += thread->phase[p].lo;
        total->phase[p].hi += thread->phase[p].hi;
    }
    total->phase_mask |= thread->phase_mask;
    total->records += thread->records;
    total->dropped += thread->dropped;
    if (thread->order)
        total->order += mix(thread->order + W1);
}

static u128 load_hash(struct twin_value_hash h)
{
    return (u128)h.hi << 64 | h.lo;
}

static struct twin_value_hash store_hash(u128 x)
{
    return (struct twin_value_hash){(uint64_t)x, (uint64_t)(x >> 64)};
}

/* x + y modulo 2^127 - 1: the carry above bit 127 is worth 1. */
static u128 add_mod(u128 x, u128 y) /* both below 2^127 */
{
    u128 s = x + y;
    s = (s & P127) + (s >> 127);
    return s >= P127 ? s - P127 : s;
}

/* x * y modulo 2^127 - 1, by four products of 64-bit halves. */
static u128 mul_mod(u128 x, u128 y)
{
    uint64_t xl = (uint64_t)x, xh = (uint64_t)(x >> 64), yl = (uint64_t)y, yh = (uint64_t)(y >> 64);
    u128 low = (u128)xl * yl, middle = (u128)xl * yh + (u128)xh * yl, high = (u128)xh * yh;
    /* 2^127 = 1: low + middle * 2^64 + high * 2^128 */
    u128 r = add_mod(low & P127, low >> 127);
    r = add_mod(r, (middle & ((((u128)1) << 63) - 1)) << 64);
    r = add_mod(r, middle >> 63);
    return add_mod(r, high << 1);
}

/* 128 bits as a value modulo 2^127 - 1; the top bit is dropped. */
static u128 reduce_mod(uint64_t a, uint64_t b)
{
    u128 x = ((u128)b << 64 | a) & P127;
    return x == P127 ? 0 : x;
}

/* Phases in ascending order; one without records counts for nothing, whatever its sum. */
struct twin_value_hash tw_step_element(const struct tw_step_sums *total)
{
    uint64_t a = mix(W0 + total->records), b = mix(W1 ^ total->records);
    for (unsigned p = 0; p < TWIN_PHASE_COUNT; p++) {
        if (!(total->phase_mask >> p & 1))
            continue;
        a = mix(a ^ mix(total->phase[p].lo + (p + 1) * W0));
        b = mix(b + mix(total->phase[p].hi ^ (p + 1) * W1)) ^ (a >> 32);
    }
    return store_hash(reduce_mod(a, b));
}

struct twin_value_hash tw_order_element(const struct tw_step_sums *total)
{
    return store_hash(reduce_mod(mix(total->order + W0), mix(total->order ^ W1)));
}

struct twin_value_hash tw_prefix_push(struct twin_value_hash prefix, struct twin_value_hash element)
{
    return store_hash(
        add_mod(mul_mod(load_hash(prefix), (u128)POINT_HI << 64 | POINT_LO), load_hash(element)));
}

/* last - before * R^steps: what the first steps added to the polynomial is taken out. */
struct twin_value_hash tw_prefix_window(struct twin_value_hash last, struct twin_value_hash before,
                                        uint64_t steps)
{
    u128 power = 1, base = (u128)POINT_HI << 64 | POINT_LO;
    for (; steps; steps >>= 1) {
        if (steps & 1)
            power = mul_mod(power, base);
        base = mul_mod(base, base);
    }
    u128 gone = mul_mod(load_hash(before), power);
    return store_hash(add_mod(load_hash(last), gone ? P127 - gone : 0));
}
