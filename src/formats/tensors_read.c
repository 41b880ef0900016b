/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a file's tensors, in row-major order and this machine's byte order. */
#include "tensors_inside.h"

#include <string.h>
#include <sys/stat.h>

/* Turns the bytes of each element round; of a complex one, of each of its two parts. */
static void swap_bytes(unsigned char *p, uint64_t n, enum twin_dtype dtype)
{
    size_t part = twin_dtype_size(dtype);
    if (dtype == TWIN_C64 || dtype == TWIN_C128) {
        part /= 2;
        n *= 2;
    }
    for (uint64_t i = 0; i < n; i++, p += part)
        for (size_t a = 0, b = part - 1; a < b; a++, b--) {
            unsigned char t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
}

/* A file that has hardly any of its bytes on the disk: holes cost nothing there, and everything in
 * memory. */
static bool mostly_holes(const struct tw_source *s, uint64_t span)
{
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return false;
    return span > TW_LIST_FREE_BYTES + TW_UNPACKED_EACH * (uint64_t)st.st_blocks * 512;
}

/* Reads the span of tensor i into memory, because its elements lie apart; f->whole stays until
 * another such tensor is read. Refused where the span is out of all proportion to the bytes of the
 * file. */
static int hold_span(struct twin_tensors *f, size_t i, struct twin_error *err)
{
    const struct stored *s = &f->tensor[i];
    if (f->whole && f->whole_of == i)
        return 0;
    tw_free(f->whole);
    f->whole = NULL;
    if (s->span > MAX_WHOLE)
        return twin_error_set(err, TWIN_ELIMIT,
                              "%s: tensor %s lies in %llu bytes that are not in row-major order; "
                              "at most %llu are sorted",
                              f->source.name, s->entry.name, (unsigned long long)s->span,
                              (unsigned long long)MAX_WHOLE);
    if (!s->piece.deflated && mostly_holes(&f->source, s->span))
        return twin_error_set(
            err, TWIN_ELIMIT,
            "%s: tensor %s: %llu bytes would have to be sorted, and the file is nearly all holes",
            f->source.name, s->entry.name, (unsigned long long)s->span);
    if (s->piece.deflated && s->span > TW_LIST_FREE_BYTES + TW_UNPACKED_EACH * s->piece.packed)
        return twin_error_set(
            err, TWIN_ELIMIT,
            "%s: tensor %s: %llu packed bytes become %llu, which would have to be sorted: too many",
            f->source.name, s->entry.name, (unsigned long long)s->piece.packed,
            (unsigned long long)s->span);
    unsigned char *p = tw_malloc(s->span + 1);
    if (!p)
        return tw_no_memory(err, "for the %llu bytes of tensor %s of %s",
                            (unsigned long long)s->span, s->entry.name, f->source.name);
    int rc = tw_piece_read(&f->source, &f->unpack, &s->piece, s->offset, p, s->span, err);
    if (rc != 0) {
        tw_free(p);
        return rc;
    }
    f->whole = p;
    f->whole_of = i;
    return 0;
}

/* Copies n elements from number `first` on (row-major) out of the span. The index is counted up
 * like an odometer, the last dimension fastest. */
static void gather_elements(const struct stored *s, const unsigned char *from, uint64_t first,
                            uint64_t n, unsigned char *out)
{
    const struct twin_tensors_entry *e = &s->entry;
    const size_t size = twin_dtype_size(e->dtype);
    int64_t index[TWIN_MAX_NDIM];
    /* Where element `first` lies, in elements from the start of the span. */
    uint64_t at = 0;
    for (uint32_t d = e->ndim; d-- > 0;) {
        index[d] = (int64_t)(first % (uint64_t)e->shape[d]);
        first /= (uint64_t)e->shape[d];
        at += (uint64_t)(index[d] * s->strides[d]);
    }
    for (uint64_t i = 0; i < n; i++, out += size) {
        memcpy(out, from + at * size, size);
        for (uint32_t d = e->ndim; d-- > 0;) {
            at += (uint64_t)s->strides[d];
            if (++index[d] < e->shape[d])
                break;
            at -= (uint64_t)(e->shape[d] * s->strides[d]);
            index[d] = 0;
        }
    }
}

/* Then reading them changes nothing of f. */
bool twin_tensors_by_several(const struct twin_tensors *f, size_t i)
{
    const struct stored *s = i < f->count ? &f->tensor[i] : NULL;
    return s && !f->dcp && !f->folder && !f->bundle && !s->strides && !s->piece.deflated &&
           !s->entry.unreadable;
}

/* Elements are numbered in row-major order. They come out in this machine's byte order. */
int twin_tensors_read(struct twin_tensors *f, size_t i, uint64_t first, uint64_t n, void *out,
                      struct twin_error *err)
{
    int rc = 0;
    if (i >= f->count)
        return twin_error_set(err, TWIN_EINVAL, "%s has %zu tensors; number %zu was asked for",
                              f->source.name, f->count, i);
    const struct stored *s = &f->tensor[i];
    const struct twin_tensors_entry *e = &s->entry;
    if (e->unreadable)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "%s: tensor %s cannot be read: %s",
                              f->source.name, e->name, e->unreadable);
    if (first > e->count || n > e->count - first)
        return twin_error_set(err, TWIN_EINVAL, "%s: tensor %s has %llu elements", f->source.name,
                              e->name, (unsigned long long)e->count);
    if (n == 0)
        return 0;
    /* Folders have their own way to the elements, and their files swap bytes themselves. */
    if (f->dcp)
        return tw_dcp_read(f->dcp, e, i, first, n, out, err);
    if (f->folder)
        return tw_folder_read(f->folder, e, i, first, n, out, err);
    if (f->bundle)
        return tw_bundle_read(f->bundle, f->source.name, e, i, first, n, out, err);
    if (s->strides) {
        rc = hold_span(f, i, err);
        if (rc == 0)
            gather_elements(s, f->whole, first, n, out);
    } else {
        size_t size = twin_dtype_size(e->dtype);
        rc = tw_piece_read(&f->source, &f->unpack, &s->piece, s->offset + first * size, out,
                           n * size, err);
    }
    if (rc == 0 && s->swap)
        swap_bytes(out, n, e->dtype);
    return rc;
}
