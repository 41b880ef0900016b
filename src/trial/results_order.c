/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of results out of the files that processes of Python keep of them (src/trace/results.h).
 * Nothing in such a file is trusted. One that ends amid an entry is that of a process that was
 * killed: what stands before is its order, as far as it is known.
 */
#include "results_inside.h"

#include "base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES_MOST = 4096 };

/* A walk over one file. */
struct reading {
    struct tw_results_process *to;
    uint32_t *at; /* of a call's number: its place in to->call, plus 1 */
    uint32_t numbers;
    uint32_t room;
    struct twin_error *err;
};

/* CRC-32 as of zlib, four bits at a time; crc: of what stands before, 0 at the beginning. */
static uint32_t crc32_of(uint32_t crc, const void *data, size_t bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *p = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc = (crc >> 4) ^ table[(crc ^ p[i]) & 15];
        crc = (crc >> 4) ^ table[(crc ^ (unsigned)(p[i] >> 4)) & 15];
    }
    return ~crc;
}

static int damaged(struct reading *r, size_t at, const char *what)
{
    return twin_error_set(r->err, TWIN_EFORMAT, "%s at byte %zu", what, at);
}

int tw_results_by_line(const struct tw_results_call *a, const struct tw_results_call *b)
{
    return a->kind != b->kind ? a->kind - b->kind : strcmp(a->site, b->site);
}

static int by_line_and_number(const void *x, const void *y)
{
    const struct tw_results_call *a = x, *b = y;
    const int order = tw_results_by_line(a, b);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

/* A call begins. */
static int add_call(struct reading *r, size_t at, const struct tw_results_entry *e,
                    const char *text)
{
    struct tw_results_process *to = r->to;
    if (e->kind == TW_RESULTS_OTHER) {
        to->other = true;
        return 0;
    }
    if (e->kind < TW_RESULTS_AS_COMPLETED || e->kind > TW_RESULTS_LOADER || e->call == 0 ||
        e->call > TW_RESULTS_CALLS_MOST)
        return damaged(r, at, "a call of an unknown kind");
    if (e->call > r->numbers) {
        const uint32_t count = e->call < 64 ? 64 : 2 * e->call;
        uint32_t *grown = tw_reallocarray(r->at, count, sizeof *grown);
        if (!grown)
            return tw_no_memory(r->err, "for an order of results");
        memset(grown + r->numbers, 0, (count - r->numbers) * sizeof *grown);
        r->at = grown;
        r->numbers = count;
    }
    if (r->at[e->call - 1])
        return damaged(r, at, "a call that was there before");
    if (to->calls == r->room) {
        const uint32_t room = r->room ? 2 * r->room : 64;
        struct tw_results_call *grown = tw_reallocarray(to->call, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(r->err, "for an order of results");
        to->call = grown;
        r->room = room;
    }
    char *site = tw_strndup(text, e->bytes); /* it ends at its first NUL */
    if (!site)
        return tw_no_memory(r->err, "for an order of results");
    to->call[to->calls++] = (struct tw_results_call){.kind = e->kind,
                                                     .site = site,
                                                     .number = e->call,
                                                     .count = e->value,
                                                     .rest = e->rest,
                                                     .thread = e->thread};
    r->at[e->call - 1] = to->calls;
    return 0;
}

static int add_result(struct reading *r, size_t at, const struct tw_results_entry *e)
{
    if (e->call == 0 || e->call > r->numbers || r->at[e->call - 1] == 0)
        return damaged(r, at, "a result of no call");
    struct tw_results_call *c = &r->to->call[r->at[e->call - 1] - 1];
    if ((c->places & (c->places - 1)) == 0) { /* a power of two: it is full */
        const size_t room = c->places ? 2 * (size_t)c->places : 1;
        uint32_t *grown = tw_reallocarray(c->place, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(r->err, "for an order of results");
        c->place = grown;
    }
    c->place[c->places++] = e->value;
    c->shared = c->shared || e->thread != c->thread;
    r->to->results++;
    return 0;
}

/* One entry that is sound. */
static int take(struct reading *r, size_t at, const struct tw_results_entry *e, const char *text)
{
    switch (e->what) {
    case TW_RESULTS_CALL: return add_call(r, at, e, text);
    case TW_RESULTS_RESULT: return add_result(r, at, e);
    case TW_RESULTS_GIVEN_UP:
        if (!r->to->gave_up)
            r->to->gave_up = tw_strndup(text, e->bytes);
        return 0;
    case TW_RESULTS_FULL: r->to->full = true; return 0;
    case TW_RESULTS_END: r->to->ended = true; return 0;
    default: return damaged(r, at, "an unknown entry");
    }
}

static int read_entries(struct reading *r)
{
    const struct tw_results_process *to = r->to;
    const uint32_t seed = ((const struct tw_results_head *)(const void *)to->file)->check;
    size_t at = sizeof(struct tw_results_head);
    int rc = 0;
    while (rc == 0 && to->bytes - at >= sizeof(struct tw_results_entry)) {
        struct tw_results_entry e;
        memcpy(&e, to->file + at, sizeof e);
        const char *text = to->file + at + sizeof e;
        if (e.bytes > to->bytes - at - sizeof e)
            break; /* the process was killed amid this one */
        const uint32_t check = crc32_of(seed, &e, offsetof(struct tw_results_entry, check));
        if (e.bytes > TW_RESULTS_TEXT_MOST || e.bytes % 4 ||
            crc32_of(check, text, e.bytes) != e.check)
            return damaged(r, at, "an entry whose check does not fit");
        rc = take(r, at, &e, text);
        at += sizeof e + e.bytes;
    }
    return rc;
}

/* Calls at lines at which several threads asked, or submitted, have no order. */
static void look_at_lines(struct tw_results_process *p)
{
    if (p->calls)
        qsort(p->call, p->calls, sizeof *p->call, by_line_and_number);
    for (uint32_t first = 0, next; first < p->calls; first = next) {
        bool shared = false;
        for (next = first; next < p->calls; next++) {
            if (tw_results_by_line(&p->call[first], &p->call[next]) != 0)
                break;
            p->call[next].before = next - first;
            shared |= p->call[next].shared || p->call[next].thread != p->call[first].thread;
        }
        for (uint32_t i = first; i < next; i++)
            p->call[i].shared = shared;
    }
}

static int read_process(const char *path, struct tw_results_process *to, struct twin_error *err)
{
    struct reading r = {.to = to, .err = err};
    int rc = tw_read_file(path, TW_RESULTS_BYTES_MOST, &to->file, &to->bytes, err);
    if (rc != 0)
        return rc;
    struct tw_results_head head;
    if (to->bytes < sizeof head)
        return twin_error_set(err, TWIN_EFORMAT, "it has no head");
    memcpy(&head, to->file, sizeof head);
    if (memcmp(head.magic, TW_RESULTS_MAGIC, sizeof head.magic) != 0 ||
        head.version != TW_RESULTS_VERSION || head.role[TW_RESULTS_ROLE - 1] ||
        crc32_of(0, &head, offsetof(struct tw_results_head, check)) != head.check)
        return twin_error_set(err, TWIN_EFORMAT, "its head is not sound");
    memcpy(to->role, head.role, sizeof to->role);
    to->role_check = crc32_of(0, to->role, strlen(to->role));
    rc = read_entries(&r);
    tw_free(r.at);
    if (rc == 0)
        look_at_lines(to);
    return rc;
}

static void free_process(struct tw_results_process *p)
{
    for (uint32_t i = 0; i < p->calls; i++) {
        tw_free(p->call[i].site);
        tw_free(p->call[i].place);
    }
    tw_free(p->call);
    tw_free(p->file);
    tw_free(p->gave_up);
    tw_free(p->damage);
    *p = (struct tw_results_process){.file = NULL};
}

static bool is_ours(const char *name)
{
    static const char start[] = "results.";
    return strncmp(name, start, sizeof start - 1) == 0 &&
           name[strspn(name + sizeof start - 1, "0123456789.") + sizeof start - 1] == '\0';
}

/* One more file. Room is there. */
static int add_file(const struct twin_run *run, const char *name, bool whole,
                    struct tw_results *out, struct twin_error *err)
{
    struct tw_results_process p = {.file = NULL};
    struct twin_error why = TWIN_ERROR_INIT;
    char *path = tw_path_join(run->dir, name);
    int rc = path ? read_process(path, &p, &why) : tw_no_memory(&why, "for an order of results");
    tw_free(path);
    if (rc == TWIN_ENOMEM || (rc != 0 && whole)) {
        free_process(&p);
        return twin_error_set(err, rc, "%s/%s cannot be read: %s", run->dir, name, why.message);
    }
    if (rc != 0)
        p.damage = tw_printf("%s of the new run cannot be read: %s", name, why.message);
    out->process[out->count++] = p;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int tw_results_read_run(const struct twin_run *run, bool whole, struct tw_results *out,
                        struct twin_error *err)
{
    char *name[PROCESSES_MOST];
    size_t names = 0;
    int rc = 0;
    DIR *dir = opendir(run->dir);
    for (struct dirent *e; rc == 0 && dir && (e = readdir(dir));) {
        if (!is_ours(e->d_name))
            continue;
        if (names == PROCESSES_MOST)
            rc = twin_error_set(err, TWIN_ELIMIT, "%s: more than %d processes told of results",
                                run->dir, PROCESSES_MOST);
        else if (!(name[names] = tw_strdup(e->d_name)))
            rc = tw_no_memory(err, "for an order of results");
        else
            names++;
    }
    if (dir)
        closedir(dir);
    if (names)
        qsort(name, names, sizeof *name, by_name);
    out->process = tw_calloc(names + 1, sizeof *out->process);
    if (rc == 0 && !out->process)
        rc = tw_no_memory(err, "for an order of results");
    for (size_t i = 0; i < names; i++) {
        if (rc == 0)
            rc = add_file(run, name[i], whole, out, err);
        tw_free(name[i]);
    }
    for (size_t i = 0; i < out->count; i++)
        for (size_t k = 0; k < i; k++)
            if (out->process[i].role_check == out->process[k].role_check)
                out->process[i].doubled = out->process[k].doubled = true;
    return rc;
}

int tw_results_read(const struct twin_run *recorded, uint32_t wait_ms, struct tw_results *out,
                    struct twin_error *err)
{
    *out = (struct tw_results){.recorded = recorded, .wait_ms = wait_ms};
    int rc = tw_results_read_run(recorded, true, out, err);
    uint64_t results = 0;
    for (size_t i = 0; i < out->count; i++)
        results += out->process[i].results;
    out->none = rc == 0 && results == 0;
    if (out->none)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "run %.8s recorded no results of executors or loaders that came in no "
                            "order of their own: there is no order to replay",
                            recorded->id);
    return rc;
}

void tw_results_free(struct tw_results *o)
{
    for (size_t i = 0; i < o->count; i++)
        free_process(&o->process[i]);
    tw_free(o->process);
    *o = (struct tw_results){.count = 0};
}

bool tw_results_of_loaders(const struct tw_results *o)
{
    for (size_t i = 0; i < o->count; i++)
        for (uint32_t k = 0; k < o->process[i].calls; k++)
            if (o->process[i].call[k].kind == TW_RESULTS_LOADER)
                return true;
    return false;
}

static int write_process(const struct tw_results *o, const struct tw_results_process *p,
                         const char *run_dir, struct twin_error *err)
{
    const struct tw_results_order_head head = {
        .magic = TW_RESULTS_ORDER_MAGIC, .version = TW_RESULTS_VERSION, .wait_ms = o->wait_ms};
    char *path = tw_printf(TW_RESULTS_ORDER_FILE, run_dir, p->role_check);
    char *all = tw_malloc(sizeof head + p->bytes);
    int rc = path && all ? 0 : tw_no_memory(err, "for an order of results");
    if (rc == 0) {
        memcpy(all, &head, sizeof head);
        memcpy(all + sizeof head, p->file, p->bytes);
        rc = tw_write_file_atomic(path, all, sizeof head + p->bytes, err);
    }
    tw_free(all);
    tw_free(path);
    return rc;
}

int tw_results_fill(const struct tw_results *o, const char *run_dir, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        if (!o->process[i].doubled && o->process[i].results)
            rc = write_process(o, &o->process[i], run_dir, err);
    return rc;
}
