/* SPDX-License-Identifier: Apache-2.0 */
/* The stack machine of pickles (Python's pickletools.py, protocols 2 to 5), without anything that
 * runs. torch.c and dcp.c read their trees with it.
 *
 * A pickle is a list of operations that push values on a stack, make containers of what lies there,
 * and keep values by number to use them again. Where Python would import a function and call it,
 * the tree gets a node with the name of the function and its arguments (pickle.h). One node may
 * stand at several places of the tree, and a container may hold itself.
 *
 * Counts of values and items, the stack, and the numbers of kept values are bounded, and nothing is
 * taken from the text without looking at its end. */
#include "pickle.h"

#include <string.h>

/* Values and items of one heap; values in one block of memory. */
enum { MAX_NODES = 1 << 22, MAX_ITEMS = 1 << 24, NODES = 512 };

/* Nodes in blocks, and the arrays of their items. */
struct nodes {
    struct nodes *next;
    uint32_t used;
    struct tw_node node[NODES];
};
/* Names that were put together ("module.name"); they live as long as the trees. */
struct text_block {
    struct text_block *next;
    char data[];
};
/* The memory of trees. texts: names that are not in the pickle as they are. count, items: against
 * the bounds. */
struct tw_heap {
    struct nodes *nodes;
    struct text_block *texts;
    uint32_t count, items;
};

/* One pickle that is being read: the text with the place in it, the stack, and the memo (values
 * that were kept, by number). err is never NULL: it tells which error it was. */
struct machine {
    struct tw_heap *heap;
    const unsigned char *data;
    size_t bytes, at;
    const char *name;
    struct twin_error *err;
    struct tw_node **stack; /* NULL: a mark */
    size_t depth, stack_room;
    struct tw_node **memo;
    size_t memo_count, memo_room;
};

static int fail(struct machine *m, const char *what)
{
    return twin_error_set(m->err, TWIN_EFORMAT, "%s: damaged pickle: %s at byte %zu", m->name, what,
                          m->at);
}

static int too_much(struct machine *m)
{
    return twin_error_set(m->err, TWIN_ELIMIT, "%s: its pickle holds more than %d values", m->name,
                          MAX_NODES);
}

/* ---- values */

/* A new value; NULL with err set. Nodes never move. */
static struct tw_node *node(struct machine *m, enum tw_node_kind kind)
{
    struct tw_heap *h = m->heap;
    if (h->count == MAX_NODES) {
        too_much(m);
        return NULL;
    }
    if (!h->nodes || h->nodes->used == NODES) {
        struct nodes *b = tw_malloc(sizeof *b);
        if (!b) {
            tw_no_memory(m->err, "for the list of %s", m->name);
            return NULL;
        }
        b->next = h->nodes;
        b->used = 0;
        h->nodes = b;
    }
    h->count++;
    struct tw_node *n = &h->nodes->node[h->nodes->used++];
    *n = (struct tw_node){.kind = (unsigned char)kind};
    return n;
}

/* Appends an item to a container. */
static int add_item(struct machine *m, struct tw_node *to, struct tw_node *item)
{
    if (m->heap->items == MAX_ITEMS)
        return too_much(m);
    if (to->count == to->room) {
        uint32_t room = to->room ? 2 * to->room : 4;
        struct tw_node **grown = tw_reallocarray(to->item, room, sizeof(struct tw_node *));
        if (!grown)
            return tw_no_memory(m->err, "for the list of %s", m->name);
        to->item = grown;
        to->room = room;
    }
    m->heap->items++;
    to->item[to->count++] = item;
    return 0;
}

static int push_node(struct machine *m, struct tw_node *n)
{
    if (m->depth == m->stack_room) {
        if (m->depth >= MAX_NODES)
            return too_much(m);
        size_t room = m->stack_room ? 2 * m->stack_room : 64;
        struct tw_node **grown = tw_reallocarray(m->stack, room, sizeof(struct tw_node *));
        if (!grown)
            return tw_no_memory(m->err, "for the list of %s", m->name);
        m->stack = grown;
        m->stack_room = room;
    }
    m->stack[m->depth++] = n;
    return 0;
}

/* What went wrong when there is no node. */
static int no_node(const struct machine *m)
{
    return m->err ? m->err->code : TWIN_ENOMEM;
}

static int push_new(struct machine *m, enum tw_node_kind kind, struct tw_node **out)
{
    struct tw_node *n = node(m, kind);
    if (out)
        *out = n;
    return n ? push_node(m, n) : no_node(m);
}

/* The value on top, taken off; NULL when there is none, or a mark. */
static struct tw_node *pop(struct machine *m)
{
    if (m->depth == 0 || !m->stack[m->depth - 1]) {
        fail(m, "nothing on its stack");
        return NULL;
    }
    return m->stack[--m->depth];
}

static struct tw_node *top(struct machine *m)
{
    if (m->depth == 0 || !m->stack[m->depth - 1]) {
        fail(m, "nothing on its stack");
        return NULL;
    }
    return m->stack[m->depth - 1];
}

/* Index of the first value above the last mark; 0: there is no mark. */
static size_t above_mark(struct machine *m)
{
    size_t i = m->depth;
    while (i > 0 && m->stack[i - 1])
        i--;
    if (i == 0)
        fail(m, "no mark on its stack");
    return i;
}

/* ---- what containers take */

/* The list or dict of an object, made when it is first needed. */
static struct tw_node *part_of(struct machine *m, struct tw_node **slot, enum tw_node_kind kind)
{
    if (!*slot)
        *slot = node(m, kind);
    return *slot;
}

/* Puts the values from `from` on into a container, as items or as pairs of key and value. */
static int add_items(struct machine *m, struct tw_node *to, size_t from, bool pairs)
{
    if (to->kind == TW_OBJECT)
        to = pairs ? part_of(m, &to->dict, TW_DICT) : part_of(m, &to->list, TW_LIST);
    if (!to)
        return m->err ? m->err->code : TWIN_ENOMEM;
    if (pairs ? to->kind != TW_DICT : to->kind != TW_LIST && to->kind != TW_SET)
        return fail(m, "items for what holds none");
    if (pairs && (m->depth - from) % 2)
        return fail(m, "a key without its value");
    int rc = 0;
    for (size_t i = from; rc == 0 && i < m->depth; i++)
        rc = add_item(m, to, m->stack[i]);
    return rc;
}

/* APPENDS, ADDITEMS, SETITEMS: what stands above the mark goes into what stands below. */
static int take_marked(struct machine *m, bool pairs)
{
    size_t from = above_mark(m);
    if (from == 0)
        return TWIN_EFORMAT;
    if (from < 2 || !m->stack[from - 2])
        return fail(m, "items without their container");
    int rc = add_items(m, m->stack[from - 2], from, pairs);
    m->depth = from - 1;
    return rc;
}

/* APPEND (n = 1) and SETITEM (n = 2): the last n values go into what lies below them. */
static int take_last(struct machine *m, size_t n)
{
    if (m->depth <= n)
        return fail(m, "nothing on its stack");
    for (size_t i = m->depth - n - 1; i < m->depth; i++)
        if (!m->stack[i])
            return fail(m, "a mark where a value should be");
    int rc = add_items(m, m->stack[m->depth - n - 1], m->depth - n, n == 2);
    m->depth -= n;
    return rc;
}

/* The last n values (or those above the mark, which goes too) as one container. */
static int gather_items(struct machine *m, enum tw_node_kind kind, size_t from, size_t keep)
{
    struct tw_node *c = node(m, kind);
    int rc = c ? 0 : no_node(m);
    for (size_t i = from; rc == 0 && i < m->depth; i++)
        rc = m->stack[i] ? add_item(m, c, m->stack[i]) : fail(m, "a mark where a value should be");
    if (rc == 0 && kind == TW_DICT && c->count % 2)
        rc = fail(m, "a key without its value");
    /* The values leave the stack before the container is pushed. */
    m->depth = keep;
    return rc == 0 ? push_node(m, c) : rc;
}

static int gather_marked(struct machine *m, enum tw_node_kind kind)
{
    size_t from = above_mark(m);
    return from == 0 ? TWIN_EFORMAT : gather_items(m, kind, from, from - 1);
}

static int gather_last(struct machine *m, enum tw_node_kind kind, size_t n)
{
    return m->depth < n ? fail(m, "nothing on its stack")
                        : gather_items(m, kind, m->depth - n, m->depth - n);
}

/* ---- reading */

/* The next n bytes of the text; NULL with err set when it ends before. */
static const unsigned char *take_bytes(struct machine *m, uint64_t n)
{
    if (n > m->bytes - m->at) {
        fail(m, "it ends early");
        return NULL;
    }
    const unsigned char *p = m->data + m->at;
    m->at += n;
    return p;
}

/* A length of `width` bytes and as many bytes behind it. */
static int push_text(struct machine *m, enum tw_node_kind kind, unsigned width)
{
    const unsigned char *p = take_bytes(m, width);
    struct tw_node *n;
    if (!p)
        return TWIN_EFORMAT;
    uint64_t length = p[0];
    if (width != 1)
        length = width == 4 ? tw_le32(p) : tw_le64(p);
    /* Texts are not copied: the node points into the pickle. */
    if (length > UINT32_MAX || !(p = take_bytes(m, length)))
        return fail(m, "a text that is too long");
    int rc = push_new(m, kind, &n);
    if (rc == 0) {
        n->text = (const char *)p;
        n->count = (uint32_t)length;
    }
    return rc;
}

/* BININT1 and BININT2 have no sign, BININT has one. */
static int push_number(struct machine *m, unsigned width)
{
    const unsigned char *p = take_bytes(m, width);
    struct tw_node *n;
    if (!p)
        return TWIN_EFORMAT;
    int rc = push_new(m, TW_INT, &n);
    if (rc == 0 && width == 1)
        n->number = p[0];
    else if (rc == 0)
        n->number = width == 2 ? (int64_t)tw_le16(p) : (int32_t)tw_le32(p);
    return rc;
}

/* LONG1, LONG4: little-endian two's complement of any length. */
static int push_long(struct machine *m, unsigned width)
{
    const unsigned char *p = take_bytes(m, width);
    struct tw_node *n;
    if (!p)
        return TWIN_EFORMAT;
    uint32_t length = width == 1 ? p[0] : tw_le32(p);
    p = take_bytes(m, length);
    if (!p)
        return TWIN_EFORMAT;
    int rc = push_new(m, length > 8 ? TW_LARGE : TW_INT, &n);
    if (rc != 0 || length > 8)
        return rc;
    /* The sign is in the last byte; shorter numbers are filled up with it. */
    uint64_t v = length && p[length - 1] & 0x80 ? ~(uint64_t)0 : 0;
    for (uint32_t i = length; i-- > 0;)
        v = v << 8 | p[i];
    n->number = (int64_t)v;
    return 0;
}

/* Eight bytes, most significant first. */
static int push_float(struct machine *m)
{
    const unsigned char *p = take_bytes(m, 8);
    struct tw_node *n;
    uint64_t bits = 0;
    if (!p)
        return TWIN_EFORMAT;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    int rc = push_new(m, TW_FLOAT, &n);
    if (rc == 0)
        memcpy(&n->real, &bits, 8);
    return rc;
}

/* A function or class by name, "module.name". */
static int push_global(struct machine *m, const char *module, size_t a, const char *name, size_t b)
{
    struct tw_node *n;
    if (a + b > 1000)
        return fail(m, "the name of a class is too long");
    struct text_block *t = tw_malloc(sizeof *t + a + b + 2);
    if (!t)
        return tw_no_memory(m->err, "for the list of %s", m->name);
    t->next = m->heap->texts;
    m->heap->texts = t;
    memcpy(t->data, module, a);
    t->data[a] = '.';
    memcpy(t->data + a + 1, name, b);
    t->data[a + b + 1] = '\0';
    int rc = push_new(m, TW_GLOBAL, &n);
    if (rc == 0) {
        n->text = t->data;
        n->count = (uint32_t)(a + b + 1);
    }
    return rc;
}

/* GLOBAL: module and name, each up to a line break. */
static int read_global(struct machine *m)
{
    const char *start[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        const unsigned char *p = m->data + m->at, *end = memchr(p, '\n', m->bytes - m->at);
        if (!end)
            return fail(m, "the name of a class does not end");
        start[i] = (const char *)p;
        n[i] = (size_t)(end - p);
        m->at += n[i] + 1;
    }
    return push_global(m, start[0], n[0], start[1], n[1]);
}

/* STACK_GLOBAL: module and name are on the stack. */
static int stack_global(struct machine *m)
{
    struct tw_node *name = pop(m), *module = name ? pop(m) : NULL;
    if (!module)
        return TWIN_EFORMAT;
    if (name->kind != TW_TEXT || module->kind != TW_TEXT)
        return fail(m, "the name of a class is no text");
    return push_global(m, module->text, module->count, name->text, name->count);
}

/* ---- what would run */

/* What calling `function` would give. Containers of the standard library are what they hold;
 * anything else becomes TW_OBJECT. */
static int reduce_call(struct machine *m, struct tw_node *function, struct tw_node *arguments)
{
    struct tw_node *n;
    if (function->kind == TW_GLOBAL && arguments->kind == TW_TUPLE) {
        static const char *const dicts[] = {"collections.OrderedDict", "collections.defaultdict",
                                            "collections.Counter", "builtins.dict"};
        for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++)
            if (tw_node_is(function, TW_GLOBAL, dicts[i]) && (arguments->count == 0 || i == 1))
                return push_new(m, TW_DICT, NULL);
        static const char *const sets[] = {"builtins.set", "__builtin__.set", "builtins.frozenset",
                                           "__builtin__.frozenset"};
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
            if (tw_node_is(function, TW_GLOBAL, sets[i]) && arguments->count == 1 &&
                arguments->item[0]->kind == TW_LIST)
                return push_node(m, arguments->item[0]);
        if (tw_node_is(function, TW_GLOBAL, "torch.Size") && arguments->count == 1 &&
            arguments->item[0]->kind == TW_TUPLE)
            return push_node(m, arguments->item[0]);
    }
    int rc = push_new(m, TW_OBJECT, &n);
    if (rc == 0)
        rc = add_item(m, n, function);
    if (rc == 0)
        rc = add_item(m, n, arguments);
    return rc;
}

/* REDUCE and NEWOBJ: function (or class) and its arguments lie on the stack. */
static int call(struct machine *m)
{
    struct tw_node *arguments = pop(m), *function = arguments ? pop(m) : NULL;
    return function ? reduce_call(m, function, arguments) : TWIN_EFORMAT;
}

static int call_with_names(struct machine *m) /* NEWOBJ_EX: class, arguments, named arguments */
{
    struct tw_node *named = pop(m);
    struct tw_node *arguments = named ? pop(m) : NULL;
    struct tw_node *function = arguments ? pop(m) : NULL;
    if (!function)
        return TWIN_EFORMAT;
    int rc = reduce_call(m, function, arguments);
    return rc == 0 && m->stack[m->depth - 1]->kind == TW_OBJECT
               ? add_item(m, m->stack[m->depth - 1], named)
               : rc;
}

/* BUILD: gives the object on the stack its state. The attributes of a dict (a state_dict's
 * _metadata) hold no tensors and are dropped. */
static int build_object(struct machine *m)
{
    struct tw_node *state = pop(m), *of = state ? top(m) : NULL;
    if (!of)
        return TWIN_EFORMAT;
    if (of->kind == TW_OBJECT)
        of->state = state;
    return 0;
}

/* BINPERSID: something that lies outside of the pickle, such as a storage; its id is kept. */
static int persistent(struct machine *m)
{
    struct tw_node *id = pop(m), *n;
    if (!id)
        return TWIN_EFORMAT;
    int rc = push_new(m, TW_PERSISTENT, &n);
    return rc == 0 ? add_item(m, n, id) : rc;
}

/* ---- the memo */

/* Keeps the value on top of the stack under number i. */
static int put_memo(struct machine *m, uint64_t i)
{
    struct tw_node *n = top(m);
    if (!n)
        return TWIN_EFORMAT;
    if (i >= MAX_NODES)
        return too_much(m);
    if (i >= m->bytes) /* Python numbers them one by one, and each has an operation of its own */
        return fail(m, "a number for what is kept that is too large");
    if (i >= m->memo_room) {
        size_t room = m->memo_room ? m->memo_room : 64;
        while (room <= i)
            room *= 2;
        struct tw_node **grown = tw_reallocarray(m->memo, room, sizeof(struct tw_node *));
        if (!grown)
            return tw_no_memory(m->err, "for the list of %s", m->name);
        memset(grown + m->memo_room, 0, (room - m->memo_room) * sizeof(struct tw_node *));
        m->memo = grown;
        m->memo_room = room;
    }
    m->memo_count += !m->memo[i];
    m->memo[i] = n;
    return 0;
}

static int get_memo(struct machine *m, uint64_t i)
{
    return i < m->memo_room && m->memo[i] ? push_node(m, m->memo[i])
                                          : fail(m, "a value that was not kept");
}

static int with_index(struct machine *m, unsigned width, int (*f)(struct machine *, uint64_t))
{
    const unsigned char *p = take_bytes(m, width);
    if (!p)
        return TWIN_EFORMAT;
    return f(m, width == 1 ? p[0] : tw_le32(p));
}

/* ---- the machine */

static int push_truth(struct machine *m, bool yes)
{
    struct tw_node *n;
    int rc = push_new(m, TW_TRUTH, &n);
    if (rc == 0)
        n->number = yes;
    return rc;
}

/* One operation. Most operations of protocols 0 and 1, which are text, are not read. */
static int run_operation(struct machine *m, unsigned char op)
{
    switch (op) {
    case 0x80: return take_bytes(m, 1) ? 0 : TWIN_EFORMAT; /* PROTO */
    case 0x95:
        return take_bytes(m, 8) ? 0 : TWIN_EFORMAT; /* FRAME: only a hint for buffering */
    /* MARK. A mark on the stack is a NULL: whatever is gathered "to the mark" begins above it. */
    case '(': return push_node(m, NULL);
    /* POP: a value or a mark. */
    case '0':
        if (m->depth == 0)
            return fail(m, "nothing on its stack");
        m->depth--;
        return 0;
    /* POP_MARK: everything above the last mark, and the mark. */
    case '1': {
        size_t from = above_mark(m);
        m->depth = from ? from - 1 : 0;
        return from ? 0 : TWIN_EFORMAT;
    }
    /* DUP. */
    case '2': return top(m) ? push_node(m, top(m)) : TWIN_EFORMAT;
    /* NONE, NEWTRUE, NEWFALSE. */
    case 'N': return push_new(m, TW_NONE, NULL);
    case 0x88: return push_truth(m, true);
    case 0x89: return push_truth(m, false);
    /* BININT, BININT1, BININT2, LONG1, LONG4, BINFLOAT. */
    case 'J': return push_number(m, 4);
    case 'K': return push_number(m, 1);
    case 'M': return push_number(m, 2);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'G': return push_float(m);
    /* BINUNICODE, SHORT_BINUNICODE, BINUNICODE8. */
    case 'X': return push_text(m, TW_TEXT, 4);
    case 0x8c: return push_text(m, TW_TEXT, 1);
    case 0x8d: return push_text(m, TW_TEXT, 8);
    /* BINSTRING and SHORT_BINSTRING of Python 2 (bytes of no known encoding); BINBYTES,
     * SHORT_BINBYTES, BINBYTES8, BYTEARRAY8. */
    case 'T': return push_text(m, TW_OCTETS, 4);
    case 'U': return push_text(m, TW_OCTETS, 1);
    case 'B': return push_text(m, TW_OCTETS, 4);
    case 'C': return push_text(m, TW_OCTETS, 1);
    case 0x8e: return push_text(m, TW_OCTETS, 8);
    case 0x96: return push_text(m, TW_OCTETS, 8);
    /* EMPTY_TUPLE, EMPTY_LIST, EMPTY_DICT, EMPTY_SET. */
    case ')': return push_new(m, TW_TUPLE, NULL);
    case ']': return push_new(m, TW_LIST, NULL);
    case '}': return push_new(m, TW_DICT, NULL);
    case 0x8f: return push_new(m, TW_SET, NULL);
    /* TUPLE1, TUPLE2, TUPLE3: of the last values. TUPLE, LIST, DICT, FROZENSET: of what is above
     * the mark. */
    case 0x85: return gather_last(m, TW_TUPLE, 1);
    case 0x86: return gather_last(m, TW_TUPLE, 2);
    case 0x87: return gather_last(m, TW_TUPLE, 3);
    case 't': return gather_marked(m, TW_TUPLE);
    case 'l': return gather_marked(m, TW_LIST);
    case 'd': return gather_marked(m, TW_DICT);
    case 0x91: return gather_marked(m, TW_SET);
    /* APPEND, SETITEM; APPENDS, ADDITEMS, SETITEMS. */
    case 'a': return take_last(m, 1);
    case 's': return take_last(m, 2);
    case 'e':
    case 0x90: return take_marked(m, false);
    case 'u': return take_marked(m, true);
    /* BINPUT, LONG_BINPUT, MEMOIZE (the next free number); BINGET, LONG_BINGET. */
    case 'q': return with_index(m, 1, put_memo);
    case 'r': return with_index(m, 4, put_memo);
    case 0x94: return put_memo(m, m->memo_count);
    case 'h': return with_index(m, 1, get_memo);
    case 'j': return with_index(m, 4, get_memo);
    /* GLOBAL, STACK_GLOBAL, BINPERSID: what names something outside of the pickle. */
    case 'c': return read_global(m);
    case 0x93: return stack_global(m);
    case 'Q': return persistent(m);
    case 'R':
    case 0x81: return call(m); /* REDUCE, NEWOBJ */
    case 0x92: return call_with_names(m);
    case 'b': return build_object(m);
    default:
        return twin_error_set(m->err, TWIN_EFORMAT,
                              "%s: damaged pickle, or of a protocol that is not read (2 to 5 are): "
                              "operation 0x%02x at byte %zu",
                              m->name, op, m->at - 1);
    }
}

/* Runs operations until STOP. *at is moved also after an error. */
int tw_pickle_read(struct tw_pickle *p, const unsigned char *data, size_t bytes, size_t *at,
                   const char *name, struct tw_node **out, struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    struct machine m = {.data = data, .bytes = bytes, .at = *at, .name = name, .err = &own};
    int rc = 0;
    if (!p->heap)
        p->heap = tw_calloc(1, sizeof *p->heap);
    m.heap = p->heap;
    if (!m.heap)
        rc = tw_no_memory(m.err, "for the list of %s", m.name);
    while (rc == 0) {
        const unsigned char *op = take_bytes(&m, 1);
        if (!op) {
            rc = TWIN_EFORMAT;
        } else if (*op == '.') {
            *out = pop(&m);
            if (!*out)
                rc = TWIN_EFORMAT;
            break;
        } else {
            rc = run_operation(&m, *op);
        }
    }
    *at = m.at;
    tw_free(m.stack);
    tw_free(m.memo);
    if (rc == 0)
        return 0;
    return twin_error_set(err, own.code ? own.code : rc, "%s", own.message);
}

/* All trees of the heap at once: nodes may be shared between places, so they are freed by block. */
void tw_pickle_free(struct tw_pickle *p)
{
    if (!p->heap)
        return;
    for (struct nodes *b = p->heap->nodes, *next; b; b = next) {
        next = b->next;
        for (uint32_t i = 0; i < b->used; i++)
            if (b->node[i].room)
                tw_free(b->node[i].item);
        tw_free(b);
    }
    for (struct text_block *t = p->heap->texts, *next; t; t = next) {
        next = t->next;
        tw_free(t);
    }
    tw_free(p->heap);
    p->heap = NULL;
}

bool tw_node_is(const struct tw_node *n, enum tw_node_kind kind, const char *text)
{
    return n && n->kind == kind && n->count == strlen(text) && memcmp(n->text, text, n->count) == 0;
}

struct tw_node *tw_node_item(const struct tw_node *n, uint32_t i)
{
    return n && n->kind >= TW_TUPLE && n->kind != TW_GLOBAL && i < n->count ? n->item[i] : NULL;
}

bool tw_node_sizes(const struct tw_node *n, int64_t *out, uint32_t *count)
{
    if (!n || (n->kind != TW_TUPLE && n->kind != TW_LIST) || n->count > TWIN_MAX_NDIM)
        return false;
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->item[i]->kind != TW_INT || n->item[i]->number < 0)
            return false;
        out[i] = n->item[i]->number;
    }
    *count = n->count;
    return true;
}
