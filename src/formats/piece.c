/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a piece of a file: as they are, or inflated by zlib. All readers of this room go through
 * here, so every read is checked against the file's size and the piece's. Going forward in a
 * deflated piece goes on where the last call ended; going back begins anew. Without zlib packed
 * pieces are refused in words. */
#include "internal.h"

#include <string.h>

/* The file may have become shorter since it was opened: then this is an error, and nothing is made
 * up. */
int tw_source_read(const struct tw_source *s, uint64_t at, void *out, size_t n,
                   struct twin_error *err)
{
    if (at > s->size || n > s->size - at)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: expected %zu bytes at offset %llu, but the file has %llu",
                              s->name, n, (unsigned long long)at, (unsigned long long)s->size);
    /* In memory. */
    if (s->fd < 0) {
        if (n)
            memcpy(out, s->memory + at, n);
        return 0;
    }
    ssize_t got = tw_pread_all(s->fd, out, n, s->base + at);
    if (got < 0)
        return twin_error_system(err, "%s: cannot read", s->name);
    if ((size_t)got != n)
        return twin_error_set(err, TWIN_EFORMAT, "%s: became shorter while it was read", s->name);
    return 0;
}

#ifdef TW_HAVE_ZLIB
#include <zlib.h>

/* Packed bytes that are read at once. */
enum { INPUT = 1 << 16 };

/* How far one deflated piece has been unpacked. crc: of the bytes given so far. */
struct tw_unpack {
    z_stream z;
    struct tw_piece piece;
    uint64_t taken, given; /* packed bytes read, bytes unpacked */
    uint32_t crc;
    unsigned char input[INPUT];
};

bool tw_can_inflate(void)
{
    return true;
}

void tw_unpack_free(struct tw_unpack *u)
{
    if (u)
        inflateEnd(&u->z);
    tw_free(u);
}

/* zlib allocates through us, so that tests can make it fail. */
static voidpf take_memory(voidpf unused, uInt n, uInt size)
{
    (void)unused;
    return tw_calloc(n, size);
}

static void give(voidpf unused, voidpf p)
{
    (void)unused;
    tw_free(p);
}

/* Starts anew at the beginning of a piece. *state is NULL after an error. */
static int begin_piece(struct tw_unpack **state, const struct tw_piece *p, struct twin_error *err)
{
    tw_unpack_free(*state);
    struct tw_unpack *u = *state = tw_calloc(1, sizeof *u);
    if (u) {
        u->z.zalloc = take_memory;
        u->z.zfree = give;
    }
    if (!u || inflateInit2(&u->z, -MAX_WBITS) != Z_OK) {
        tw_free(u);
        *state = NULL;
        return tw_no_memory(err, "unpacking");
    }
    u->piece = *p;
    return 0;
}

/* Unpacks the next n bytes. When the last byte of the piece comes out, its checksum is compared. */
static int unpack_forward(const struct tw_source *s, struct tw_unpack *u, unsigned char *out,
                          size_t n, struct twin_error *err)
{
    while (n > 0) {
        /* More packed bytes, when the last ones are used up. */
        if (u->z.avail_in == 0 && u->taken < u->piece.packed) {
            uint64_t left = u->piece.packed - u->taken;
            size_t part = left < INPUT ? (size_t)left : INPUT;
            int rc = tw_source_read(s, u->piece.at + u->taken, u->input, part, err);
            if (rc != 0)
                return rc;
            u->taken += part;
            u->z.next_in = u->input;
            u->z.avail_in = (uInt)part;
        }
        size_t want = n < 1u << 30 ? n : 1u << 30;
        u->z.next_out = out;
        u->z.avail_out = (uInt)want;
        int rc = inflate(&u->z, Z_NO_FLUSH);
        size_t got = want - u->z.avail_out;
        u->crc = (uint32_t)crc32_z(u->crc, out, got);
        u->given += got;
        out += got;
        n -= got;
        if (rc == Z_STREAM_END && n == 0)
            break;
        if (rc == Z_MEM_ERROR)
            return tw_no_memory(err, "unpacking %s", s->name);
        if (rc != Z_OK || (got == 0 && u->z.avail_in == 0 && u->taken == u->piece.packed))
            return twin_error_set(
                err, TWIN_EFORMAT,
                "%s: the compressed bytes at offset %llu are damaged (%s after %llu of %llu bytes)",
                s->name, (unsigned long long)u->piece.at,
                rc == Z_STREAM_END ? "they end" : "they make no sense",
                (unsigned long long)u->given, (unsigned long long)u->piece.bytes);
    }
    if (u->given == u->piece.bytes && u->piece.checked && u->crc != u->piece.crc)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: the checksum of the compressed bytes at offset %llu is wrong",
                              s->name, (unsigned long long)u->piece.at);
    return 0;
}

/* n bytes of the piece from unpacked byte `at` on; what lies before them is unpacked and thrown
 * away. */
static int unpack_piece(const struct tw_source *s, struct tw_unpack **state,
                        const struct tw_piece *p, uint64_t at, void *out, size_t n,
                        struct twin_error *err)
{
    unsigned char skipped[4096];
    int rc = 0;
    /* Another piece, or a step back: from the beginning. */
    if (!*state || (*state)->piece.at != p->at || (*state)->given > at)
        rc = begin_piece(state, p, err);
    while (rc == 0 && (*state)->given < at) {
        uint64_t left = at - (*state)->given;
        rc = unpack_forward(s, *state, skipped,
                            left < sizeof skipped ? (size_t)left : sizeof skipped, err);
    }
    if (rc == 0)
        rc = unpack_forward(s, *state, out, n, err);
    if (rc != 0) { /* where it stands is not known any more */
        tw_unpack_free(*state);
        *state = NULL;
    }
    return rc;
}
#else
bool tw_can_inflate(void)
{
    return false;
}

void tw_unpack_free(struct tw_unpack *u)
{
    (void)u;
}

static int unpack_piece(const struct tw_source *s, struct tw_unpack **state,
                        const struct tw_piece *p, uint64_t at, void *out, size_t n,
                        struct twin_error *err)
{
    (void)state, (void)p, (void)at, (void)out, (void)n;
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "%s: compressed, and this twinrun was built without zlib", s->name);
}
#endif

int tw_piece_read(const struct tw_source *s, struct tw_unpack **state, const struct tw_piece *p,
                  uint64_t at, void *out, size_t n, struct twin_error *err)
{
    if (at > p->bytes || n > p->bytes - at)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: expected %zu bytes at %llu of a part that has %llu", s->name, n,
                              (unsigned long long)at, (unsigned long long)p->bytes);
    if (p->deflated)
        return unpack_piece(s, state, p, at, out, n, err);
    return tw_source_read(s, p->at + at, out, n, err);
}
