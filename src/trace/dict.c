/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace says besides its records: definitions (strings, series, layouts), notes, and gaps.
 * The file's DICT blocks are read once, at the first question, along their chain from the end of
 * the file; entries are then taken front to back. Everything is kept in memory until the trace is
 * closed, so the answers below are pointers into it.
 *
 * The first definition of an id counts. A malformed one is passed over and stays undefined:
 * undefined ids give "" or an empty struct, and twin_trace_described() tells whether a record has
 * all of its definitions. A later try after a lack of memory is not made. */
#include "reader.h"

#include <string.h>

/* Makes room for index id in an array that is found by id; new items are zero. False when out of
 * memory. */
static bool room_for(void **array, uint32_t *room, uint32_t id, size_t item)
{
    if (id < *room)
        return true;
    uint32_t n = *room ? *room : 64;
    while (n <= id)
        n *= 2;
    char *grown = tw_reallocarray(*array, n, item);
    if (!grown)
        return false;
    memset(grown + (size_t)*room * item, 0, (size_t)(n - *room) * item);
    *array = grown;
    *room = n;
    return true;
}

/* Makes room for one more item in a list that is appended to. False when out of memory. */
static bool more_room(void **array, size_t *room, size_t count, size_t item)
{
    if (count < *room)
        return true;
    size_t n = *room ? *room * 2 : 16;
    void *grown = tw_reallocarray(*array, n, item);
    if (!grown)
        return false;
    *array = grown;
    *room = n;
    return true;
}

/* The bytes with a NUL behind them. */
static char *copy_of(const char *bytes, size_t n)
{
    char *s = tw_malloc(n + 1);
    if (s) {
        memcpy(s, bytes, n);
        s[n] = '\0';
    }
    return s;
}

/* Each returns false only when out of memory; malformed or repeated definitions are passed over. */

static bool add_string(struct tw_dict *d, const char *at, const struct tw_entry *e)
{
    struct tw_string s;
    if (e->bytes < sizeof s)
        return true;
    memcpy(&s, at, sizeof s);
    if (s.id == 0 || s.id > TW_TABLE_MAX || s.bytes > e->bytes - sizeof s)
        return true;
    if (!room_for((void **)&d->strings, &d->string_room, s.id, sizeof *d->strings))
        return false;
    if (!d->strings[s.id].bytes)
        d->strings[s.id] = (struct tw_string_value){copy_of(at + sizeof s, s.bytes), s.bytes};
    return d->strings[s.id].bytes != NULL;
}

/* Its strings need not be defined: a hole may have taken them. */
static bool add_series(struct tw_dict *d, const char *at, const struct tw_entry *e)
{
    struct tw_series s;
    if (e->bytes < sizeof s)
        return true;
    memcpy(&s, at, sizeof s);
    if (s.id == 0 || s.id > TW_TABLE_MAX || s.phase >= TWIN_PHASE_COUNT)
        return true;
    if (!room_for((void **)&d->series, &d->series_room, s.id, sizeof *d->series))
        return false;
    if (!d->series[s.id] && (d->series[s.id] = tw_malloc(sizeof **d->series)))
        *d->series[s.id] = (struct twin_series){.phase = s.phase,
                                                .kind = s.kind,
                                                .name = s.name,
                                                .scope = s.scope,
                                                .role = s.role,
                                                .op = s.op,
                                                .site = s.site};
    return d->series[s.id] != NULL;
}

static bool add_layout(struct tw_dict *d, const char *at, const struct tw_entry *e)
{
    struct tw_layout l;
    if (e->bytes < sizeof l)
        return true;
    memcpy(&l, at, sizeof l);
    if (l.id == 0 || l.id > TW_TABLE_MAX || l.ndim > TWIN_MAX_NDIM ||
        e->bytes < sizeof l + 8u * l.ndim)
        return true;
    if (!room_for((void **)&d->layouts, &d->layout_room, l.id, sizeof *d->layouts))
        return false;
    if (!d->layouts[l.id] && (d->layouts[l.id] = tw_calloc(1, sizeof **d->layouts))) {
        d->layouts[l.id]->dtype = l.dtype;
        d->layouts[l.id]->ndim = l.ndim;
        memcpy(d->layouts[l.id]->shape, at + sizeof l, 8u * l.ndim);
    }
    return d->layouts[l.id] != NULL;
}

static bool add_note(struct tw_dict *d, const char *at, const struct tw_entry *e)
{
    struct tw_note n;
    if (e->bytes < sizeof n)
        return true;
    memcpy(&n, at, sizeof n);
    if ((uint64_t)n.key_bytes + n.value_bytes > e->bytes - sizeof n)
        return true;
    if (!more_room((void **)&d->notes, &d->note_room, d->note_count, sizeof *d->notes))
        return false;
    struct tw_note_item i = {copy_of(at + sizeof n, n.key_bytes),
                             copy_of(at + sizeof n + n.key_bytes, n.value_bytes)};
    if (!i.key || !i.value) {
        tw_free(i.key);
        tw_free(i.value);
        return false;
    }
    d->notes[d->note_count++] = i;
    return true;
}

static bool add_gap(struct tw_dict *d, uint32_t step, uint32_t dropped)
{
    if (!more_room((void **)&d->gaps, &d->gap_room, d->gap_count, sizeof *d->gaps))
        return false;
    d->gaps[d->gap_count++] = (struct tw_gap_item){step, dropped};
    return true;
}

static bool add_entry(struct tw_dict *d, const char *at, const struct tw_entry *e)
{
    struct tw_gap g;
    switch (e->type) {
    case TW_ENTRY_STRING: return add_string(d, at, e);
    case TW_ENTRY_SERIES: return add_series(d, at, e);
    case TW_ENTRY_LAYOUT: return add_layout(d, at, e);
    case TW_ENTRY_NOTE: return add_note(d, at, e);
    case TW_ENTRY_GAP:
        if (e->bytes < sizeof g)
            return true;
        memcpy(&g, at, sizeof g);
        return add_gap(d, g.step, g.dropped);
    /* unknown: a later version's, and not of a kind that must be understood */
    default: return true;
    }
}

/* Reads every good DICT block. `offsets` collects where they lie, last first. A damaged one becomes
 * a hole. */
static int load_blocks(struct twin_trace *t, struct tw_buf *offsets, struct twin_error *err)
{
    struct tw_block b, next;
    int look = tw_trace_last(t, TW_BLOCK_DICT, &b, err);
    for (; look == TW_GOOD; b = next) {
        if (tw_buf_append(offsets, &b.offset, sizeof b.offset) != 0)
            return TWIN_ENOMEM;
        look = tw_trace_before(t, &b, TW_BLOCK_DICT, &next, err);
    }
    for (size_t n = offsets->len / 8; look >= 0 && n > 0; n--) {
        uint64_t offset;
        struct tw_entry e;
        bool bad = false;
        memcpy(&offset, offsets->data + (n - 1) * 8, sizeof offset);
        look = tw_trace_header(t, offset, &b, err);
        if (look == TW_GOOD)
            look = tw_trace_payload(t, &b, err);
        if (look == TW_DAMAGED)
            tw_trace_bad_block(t, &b);
        if (look != TW_GOOD)
            continue;
        struct tw_cursor at = tw_cursor_over(t, &b);
        for (const char *p; (p = tw_cursor_next(&at, &e, &bad));)
            if (!add_entry(&t->dict, p, &e))
                return TWIN_ENOMEM;
    }
    return look < 0 ? look : 0;
}

/* Adds a gap at the first unfinished step for the dropped records that stand in no gap yet: a gap
 * is written when its step ends, and these steps did not. */
static bool add_open_gap(struct twin_trace *t)
{
    uint64_t left = t->info.dropped;
    for (size_t i = 0; i < t->dict.gap_count; i++)
        left -= t->dict.gaps[i].dropped < left ? t->dict.gaps[i].dropped : left;
    return left == 0 || add_gap(&t->dict, (uint32_t)t->info.steps,
                                left < UINT32_MAX ? (uint32_t)left : UINT32_MAX);
}

/*
 * "1 of 3": the process learned its rank after its first record. The last such note counts. Bytes
 * of a trace are foreign, so a note of another form says nothing.
 */
static void take_rank(struct twin_trace *t, const char *value)
{
    uint64_t rank, world;
    char number[16];
    const char *of = strstr(value, " of ");
    if (!of || of - value >= (ptrdiff_t)sizeof number || strlen(of + 4) >= sizeof number)
        return;
    memcpy(number, value, (size_t)(of - value));
    number[of - value] = '\0';
    if (tw_parse_u64(number, INT32_MAX - 1, &rank) != 0 ||
        tw_parse_u64(of + 4, INT32_MAX, &world) != 0 || world <= rank)
        return;
    t->info.rank = (int32_t)rank;
    t->info.world = (int32_t)world;
    memcpy(t->role, "main", 5);
}

static void take_notes(struct twin_trace *t)
{
    for (size_t i = 0; i < t->dict.note_count; i++)
        if (strcmp(t->dict.notes[i].key, TW_NOTE_RANK) == 0)
            take_rank(t, t->dict.notes[i].value);
}

/* 0 when the definitions are there; only the first call reads. */
int tw_dict_load(struct twin_trace *t, struct twin_error *err)
{
    struct tw_buf offsets = {0};
    if (t->dict.loaded && !t->dict.failed)
        return 0;
    if (t->dict.loaded)
        return twin_error_set(err, TWIN_ENOMEM, "%s: its definitions could not be read", t->path);
    t->dict.loaded = true;
    int rc = load_blocks(t, &offsets, err);
    if (rc == 0 && !add_open_gap(t))
        rc = TWIN_ENOMEM;
    tw_buf_free(&offsets);
    t->dict.failed = rc != 0;
    if (rc == 0)
        take_notes(t);
    return rc ? twin_error_set(err, rc, "%s: its definitions cannot be read: %s", t->path,
                               twin_error_name(rc))
              : 0;
}

int twin_trace_definitions(struct twin_trace *t, struct twin_error *err)
{
    return tw_dict_load(t, err);
}

/* Leaves an empty dictionary. */
void tw_dict_free(struct tw_dict *d)
{
    for (uint32_t i = 0; i < d->string_room; i++)
        tw_free(d->strings[i].bytes);
    for (uint32_t i = 0; i < d->series_room; i++)
        tw_free(d->series[i]);
    for (uint32_t i = 0; i < d->layout_room; i++)
        tw_free(d->layouts[i]);
    for (size_t i = 0; i < d->note_count; i++) {
        tw_free(d->notes[i].key);
        tw_free(d->notes[i].value);
    }
    tw_free(d->strings);
    tw_free(d->series);
    tw_free(d->layouts);
    tw_free(d->notes);
    tw_free(d->gaps);
    *d = (struct tw_dict){0};
}

const char *twin_trace_string(struct twin_trace *t, uint32_t id)
{
    tw_dict_load(t, NULL);
    return id < t->dict.string_room && t->dict.strings[id].bytes ? t->dict.strings[id].bytes : "";
}

const struct twin_series *twin_trace_series(struct twin_trace *t, uint32_t id)
{
    static const struct twin_series none;
    tw_dict_load(t, NULL);
    return id < t->dict.series_room && t->dict.series[id] ? t->dict.series[id] : &none;
}

const struct twin_layout *twin_trace_layout(struct twin_trace *t, uint32_t id)
{
    static const struct twin_layout none;
    tw_dict_load(t, NULL);
    return id < t->dict.layout_room && t->dict.layouts[id] ? t->dict.layouts[id] : &none;
}

/* Id 0 is the empty string and needs no definition. */
static bool has_string(const struct tw_dict *d, uint32_t id)
{
    return id == 0 || (id < d->string_room && d->strings[id].bytes);
}

bool twin_trace_described(struct twin_trace *t, const struct twin_trace_record *r)
{
    const struct tw_dict *d = &t->dict;
    tw_dict_load(t, NULL);
    if (r->series >= d->series_room || !d->series[r->series])
        return false;
    const struct twin_series *s = d->series[r->series];
    bool layout = r->layout == 0 || (r->layout < d->layout_room && d->layouts[r->layout]);
    return layout && has_string(d, s->name) && has_string(d, s->scope) && has_string(d, s->role) &&
           has_string(d, s->op);
}

bool twin_trace_note(struct twin_trace *t, size_t index, const char **key, const char **value)
{
    tw_dict_load(t, NULL);
    if (index >= t->dict.note_count)
        return false;
    *key = t->dict.notes[index].key;
    *value = t->dict.notes[index].value;
    return true;
}

const char *twin_trace_note_of(struct twin_trace *t, const char *wanted)
{
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++)
        if (strcmp(key, wanted) == 0)
            return value;
    return NULL;
}

uint32_t twin_trace_attempt(struct twin_trace *t)
{
    uint64_t n;
    tw_dict_load(t, NULL);
    for (size_t i = 0; i < t->dict.note_count; i++)
        if (strcmp(t->dict.notes[i].key, TW_NOTE_ATTEMPT) == 0 &&
            tw_parse_u64(t->dict.notes[i].value, INT32_MAX, &n) == 0)
            return (uint32_t)n;
    return 0;
}

bool twin_trace_gap(struct twin_trace *t, size_t index, uint32_t *step, uint32_t *dropped)
{
    tw_dict_load(t, NULL);
    if (index >= t->dict.gap_count)
        return false;
    *step = t->dict.gaps[index].step;
    *dropped = t->dict.gaps[index].dropped;
    return true;
}
