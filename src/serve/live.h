/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_LIVE_H
#define TW_SERVE_LIVE_H
/* The files of the live page (web/live/dist), which are part of the program: tools/live_assets.py
 * makes the table. */
#include <stdbool.h>
#include <stddef.h>

struct serve_file {
    const char *name; /* below /assets/; "": the page itself, / */
    const char *type, *tag;
    const unsigned char *raw;
    size_t raw_bytes;
    const unsigned char *packed; /* gzip */
    size_t packed_bytes;         /* 0: compressing it makes it longer */
    bool forever;                /* its name holds a digest of its bytes */
};
extern const struct serve_file serve_files[];
extern const size_t serve_file_count;

struct evhttp_request;
/* Answers with the file of this name, as /, or as not changed where the client has it. False: there
 * is none, and nothing was sent. */
bool serve_live_send(struct evhttp_request *req, const char *name);

#endif
