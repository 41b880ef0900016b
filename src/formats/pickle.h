/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FORMATS_PICKLE_H
#define TW_FORMATS_PICKLE_H
/*
 * A pickle as a tree of values. A pickle is a program for a stack machine that may call any
 * function; here nothing is called: what would be is kept as TW_OBJECT, with the function's name
 * and its arguments.
 */
#include "internal.h"

/* What a value is. The order matters: kinds below TW_TUPLE hold no other values. */
enum tw_node_kind {
    TW_NONE,
    TW_TRUTH,
    TW_INT,
    TW_LARGE,
    TW_FLOAT,
    TW_TEXT,
    TW_OCTETS,
    TW_TUPLE,
    TW_LIST,
    TW_DICT,
    TW_SET,
    TW_GLOBAL,     /* text: "module.name" */
    TW_PERSISTENT, /* item 0: its id */
    TW_OBJECT,     /* items: the function, its arguments; then `state`, `list` and `dict` */
};

/* One value. count: bytes of a text, or items; room: items that have place. Nodes belong to the
 * heap. */
struct tw_node {
    unsigned char kind;
    bool on_path; /* being looked at further up */
    bool noted;   /* a class that was passed over, and is listed */
    bool sized;   /* looked at by learn_sizes */
    uint32_t count, room;
    union {
        int64_t number;
        double real;
        const char *text;      /* count bytes; of TW_GLOBAL, NUL-terminated too */
        struct tw_node **item; /* TW_DICT: key, value, key, value... */
    };
    struct tw_node *state, *list, *dict; /* of TW_OBJECT; NULL where there is none */
};

/* Where trees live. */
struct tw_pickle {
    struct tw_heap *heap;
}; /* the memory of one or more trees; zero-initialise */
/* The value of the pickle that begins at data + *at; *at: behind it. Texts point into data.
 * TWIN_EFORMAT, TWIN_ELIMIT, TWIN_ENOMEM. name: of the file, for messages. */
int tw_pickle_read(struct tw_pickle *p, const unsigned char *data, size_t bytes, size_t *at,
                   const char *name, struct tw_node **out, struct twin_error *err);
void tw_pickle_free(struct tw_pickle *p);

/* Is n a value of this kind with exactly this text? */
bool tw_node_is(const struct tw_node *n, enum tw_node_kind kind, const char *text);
/* Item i of a container; NULL when n is none (or NULL), or has fewer. */
struct tw_node *tw_node_item(const struct tw_node *n, uint32_t i);
/* A tuple or list of whole numbers from 0 on, TWIN_MAX_NDIM at most: sizes, strides, offsets. */
bool tw_node_sizes(const struct tw_node *n, int64_t *out, uint32_t *count);

#endif
