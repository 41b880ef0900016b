/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorBoard's event files: records of TFRecord (length, checksum, bytes, checksum), each an Event
 * of tensorflow/core/util/event.proto in protobuf's wire format. The time of an event is when it
 * was written, so it is left out; steps, tags and values are what the job said. Of what is neither
 * a number nor a text a hash stands for the bytes. Foreign bytes: every length is checked before it
 * is used.
 */
#include "written.h"

#include <string.h>

/* How protobuf writes a field's value. */
enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum {
    /* The fields of event.proto, summary.proto and tensor.proto that are looked at, by their
     * numbers. */
    EVENT_STEP = 2,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9
};
enum { TENSOR_CONTENT = 4, TENSOR_FLOAT = 5, TENSOR_DOUBLE = 6, TENSOR_STRING = 8 };

/* One field of a message, as far as the wire format tells. */
struct field {
    uint32_t number;
    enum wire wire;
    uint64_t value;            /* of VARINT, FIXED64, FIXED32 */
    const unsigned char *data; /* of BYTES */
    size_t n;
};

/* Seven bits a byte, the lowest first. False: the message ends within it, or it is longer than
 * any. */
static bool read_varint(const unsigned char **p, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
        unsigned char byte = *(*p)++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static uint64_t little_endian(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* The next field of a message; false at its end, or where it is damaged (*p < end then). */
static bool next_field(const unsigned char **p, const unsigned char *end, struct field *f)
{
    const unsigned char *q = *p;
    uint64_t key, n;
    if (q >= end || !read_varint(&q, end, &key))
        return false;
    *f = (struct field){.number = (uint32_t)(key >> 3), .wire = (enum wire)(key & 7)};
    switch (f->wire) {
    case VARINT:
        if (!read_varint(&q, end, &f->value))
            return false;
        break;
    case FIXED64:
    case FIXED32:
        n = f->wire == FIXED64 ? 8 : 4;
        if ((uint64_t)(end - q) < n)
            return false;
        f->value = little_endian(q, n);
        q += n;
        break;
    case BYTES:
        if (!read_varint(&q, end, &n) || n > (uint64_t)(end - q))
            return false;
        f->data = q;
        f->n = (size_t)n;
        q += n;
        break;
    default: return false;
    }
    *p = q;
    return true;
}

static double as_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static double as_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void put_hash(struct tw_buf *out, const void *data, size_t n)
{
    struct tw_hash128 h = tw_hash_bytes(data, n, 0);
    char hex[33];
    tw_buf_printf(out, " bytes %zu hash %s", n, tw_hex_128(h.a, h.b, hex));
}

static void put_text(struct tw_buf *out, const unsigned char *data, size_t n)
{
    char *text = tw_printable((const char *)data, n);
    tw_buf_printf(out, " %s", text ? text : "");
    tw_free(text);
}

/* A tensor's numbers up to 64 of them, its texts, and hashes of everything else. False: damaged. */
static bool put_tensor(struct tw_buf *out, const unsigned char *p, size_t n)
{
    const unsigned char *end = p + n;
    struct field f;
    while (next_field(&p, end, &f)) {
        bool packed = f.wire == BYTES;
        size_t width = f.number == TENSOR_FLOAT ? 4 : 8;
        if (f.number == TENSOR_STRING && packed) {
            put_text(out, f.data, f.n);
        } else if ((f.number == TENSOR_FLOAT || f.number == TENSOR_DOUBLE) && packed &&
                   f.n <= 64 * width) {
            for (size_t i = 0; i + width <= f.n; i += width)
                tw_buf_printf(out, " %.9g",
                              width == 4 ? as_float(little_endian(f.data + i, 4))
                                         : as_double(little_endian(f.data + i, 8)));
        } else if (f.number == TENSOR_FLOAT && f.wire == FIXED32) {
            tw_buf_printf(out, " %.9g", as_float(f.value));
        } else if (f.number == TENSOR_DOUBLE && f.wire == FIXED64) {
            tw_buf_printf(out, " %.17g", as_double(f.value));
        } else if (packed) {
            put_hash(out, f.data, f.n);
        } else {
            tw_buf_printf(out, " %llu", (unsigned long long)f.value);
        }
    }
    return p == end;
}

/* One value of a summary as a line. The tag is looked for first, as fields come in any order. */
static bool put_value(struct tw_buf *out, int64_t step, const unsigned char *p, size_t n)
{
    const unsigned char *end = p + n, *again = p;
    struct field f;
    tw_buf_printf(out, "step %lld ", (long long)step);
    /* of the plugin for hyperparameters, which stores when a session began */
    bool sessions = false;
    while (next_field(&again, end, &f))
        if (f.number == VALUE_TAG && f.wire == BYTES) {
            sessions = f.n > 9 && memcmp(f.data, "_hparams_", 9) == 0;
            put_text(out, f.data, f.n);
        }
    tw_buf_puts(out, ":");
    while (next_field(&p, end, &f)) {
        if (f.number == VALUE_TAG || (f.number == VALUE_METADATA && sessions))
            continue;
        if (f.number == VALUE_SIMPLE && f.wire == FIXED32)
            tw_buf_printf(out, " %.9g", as_float(f.value));
        else if (f.number == VALUE_TENSOR && f.wire == BYTES && !put_tensor(out, f.data, f.n))
            return false;
        else if (f.number != VALUE_TENSOR && f.wire == BYTES)
            put_hash(out, f.data, f.n);
    }
    tw_buf_puts(out, "\n");
    return p == end;
}

/* All values of an event, with its step. False: damaged. */
static bool put_event(struct tw_buf *out, const unsigned char *p, size_t n)
{
    const unsigned char *end = p + n, *again = p;
    struct field f;
    int64_t step = 0;
    while (next_field(&again, end, &f))
        if (f.number == EVENT_STEP && f.wire == VARINT)
            step = (int64_t)f.value;
    while (next_field(&p, end, &f)) {
        if (f.number != EVENT_SUMMARY || f.wire != BYTES)
            continue;
        const unsigned char *q = f.data, *stop = f.data + f.n;
        struct field value;
        while (next_field(&q, stop, &value))
            if (value.number == SUMMARY_VALUE && value.wire == BYTES &&
                !put_value(out, step, value.data, value.n))
                return false;
        if (q != stop)
            return false;
    }
    return p == end;
}

/* Checksums are not checked: what is damaged mostly cannot be read either, and a list of what a
 * file says is wanted, not of whether its disk is good. */
bool tw_written_events(const unsigned char *data, size_t n, struct tw_buf *out)
{
    enum { HEAD = 12, TAIL = 4 };
    size_t at = 0;
    while (at < n) {
        if (n - at < HEAD + TAIL)
            return false;
        uint64_t length = little_endian(data + at, 8);
        if (length > n - at - HEAD - TAIL)
            return false;
        if (!put_event(out, data + at + HEAD, (size_t)length))
            return false;
        at += HEAD + (size_t)length + TAIL;
    }
    return n > 0;
}
