/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page: the files that Vite made of web/live, out of the program itself. They hold nothing
 * of the ledger, so they are sent without the token: the page asks its reader for it.
 */
#include "live.h"

#include "query.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>

/* Scripts and styles are ours alone, and so is whatever the page reads. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                             "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";

static const struct serve_file *file_of(const char *name)
{
    for (size_t i = 0; i < serve_file_count; i++)
        if (strcmp(serve_files[i].name, name) == 0)
            return &serve_files[i];
    return NULL;
}

static void put_headers(struct evkeyvalq *out, const struct serve_file *f, const char *tag)
{
    evhttp_add_header(out, "ETag", tag);
    evhttp_add_header(out, "Vary", "Accept-Encoding");
    evhttp_add_header(out, "Cache-Control",
                      f->forever ? "public, max-age=31536000, immutable" : "no-cache");
    evhttp_add_header(out, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(out, "Referrer-Policy", "no-referrer");
    evhttp_add_header(out, "Cross-Origin-Resource-Policy", "same-origin");
    evhttp_add_header(out, "Content-Security-Policy", policy);
}

bool serve_live_send(struct evhttp_request *req, const char *name)
{
    const struct serve_file *f = file_of(name);
    struct evkeyvalq *in = evhttp_request_get_input_headers(req);
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    char tag[64], length[24];
    if (!f)
        return false;
    const bool packed = f->packed_bytes &&
                        serve_wants_gzip(evhttp_find_header(in, "Accept-Encoding"));
    snprintf(tag, sizeof tag, "\"%s%s\"", f->tag, packed ? "-gz" : "");
    put_headers(out, f, tag);
    if (serve_has_tag(evhttp_find_header(in, "If-None-Match"), tag)) {
        evhttp_send_reply(req, 304, "Not Modified", NULL);
        return true;
    }
    const size_t bytes = packed ? f->packed_bytes : f->raw_bytes;
    struct evbuffer *body = evbuffer_new();
    const bool head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
    /* the bytes are the program's own and stay */
    if (!body || (!head && evbuffer_add_reference(body, packed ? f->packed : f->raw, bytes, NULL,
                                                  NULL) != 0)) {
        evhttp_send_reply(req, 500, "Internal Server Error", NULL);
    } else {
        snprintf(length, sizeof length, "%zu", bytes);
        evhttp_add_header(out, "Content-Type", f->type);
        evhttp_add_header(out, "Content-Length", length);
        if (packed)
            evhttp_add_header(out, "Content-Encoding", "gzip");
        evhttp_send_reply(req, 200, "OK", body);
    }
    if (body)
        evbuffer_free(body);
    return true;
}
