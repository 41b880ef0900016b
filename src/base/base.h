/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_BASE_H
#define TW_BASE_H
/* Base: allocation with failure injection, growable buffers, strings, files, clocks, checksums. No
 * third-party library. */
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <twin/error.h>

/* ---- allocation (alloc.c). All of twinrun's rooms allocate through these, so that tests can make
 * each one fail. */
void *tw_malloc(size_t bytes);
void *tw_calloc(size_t n, size_t bytes);
void *tw_realloc(void *p, size_t bytes);
void *tw_reallocarray(void *p, size_t n, size_t bytes); /* overflow-checked */
char *tw_strdup(const char *s);
char *tw_strndup(const char *s, size_t n);
void tw_free(void *p);
/* Tests: allocation number n from now on fails (1 = the next), and with `forever` all after it. 0
 * switches off. */
void tw_alloc_fail_at(uint64_t n, bool forever);
uint64_t tw_alloc_count(void); /* allocations since start */
/* Counts an allocation of who allocates by himself; true: a test wants it to fail, errno says so.
 */
bool tw_alloc_refused(void);

/* ---- growable byte buffer (buf.c). It starts as {0}. After a failure (TWIN_ENOMEM; TWIN_ELIMIT
 * beyond cap, which is 1 GiB where it is 0) it stays failed, and appending does nothing: so a text
 * is put together without looking, and `failed` is asked once, at the end. data ends in a NUL after
 * any append. */
struct tw_buf {
    char *data;
    size_t len, room, cap;
    int failed;
};
int tw_buf_append(struct tw_buf *b, const void *p, size_t n);
int tw_buf_puts(struct tw_buf *b, const char *s);
int tw_buf_printf(struct tw_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tw_buf_vprintf(struct tw_buf *b, const char *format, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* NUL-terminated, malloc'ed (tw_free); NULL when it had failed; b is empty after */
char *tw_buf_steal(struct tw_buf *b);
void tw_buf_free(struct tw_buf *b);

/* ---- what a person may give: the forms in which options hand it to the rooms */
/* items: NULL-terminated; NULL when there are none */
struct tw_strings {
    const char **items;
    size_t count;
};
/* The initial value of a count, where its absence means something. */
#define TW_NOT_GIVEN UINT64_MAX
/* Steps first to last, both among them. */
struct tw_steps_window {
    uint32_t first, last;
    bool given;
};

/* ---- strings (str.c) */
/*
 * The shortest decimal number that reads back as x: of a double, or of a float where that holds x.
 */
char *tw_shortest(double x, char out[40]);
/* malloc'ed; NULL = no memory */
char *tw_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *tw_vprintf(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));
bool tw_starts(const char *s, const char *prefix);
bool tw_ends(const char *s, const char *suffix);
bool tw_glob(const char *pattern, const char *s); /* * ? [..] ; '*' also matches '/' */
/* The whole string as a decimal number up to max; TWIN_EINVAL: it is none. */
int tw_parse_u64(const char *s, uint64_t max, uint64_t *out);
char *tw_human_bytes(uint64_t n, char out[16]); /* "1.2 GiB" */
char *tw_human_count(uint64_t n, char out[32]); /* "41,220" */
char *tw_human_time(double s, char out[24]);    /* "12.3 us": of a second or less */
/* "12.4 s", "3 min 20 s", "2 h 05 min" */
char *tw_human_seconds(double s, char out[24]);

/* ---- hexadecimal (hex.c): small digits, as digests and ids are written */
int tw_hex_digit(char c);          /* the value of a small or a capital digit; -1: it is none */
size_t tw_hex_span(const char *s); /* how many small digits s begins with */
/* Is s `digits` small digits and nothing else? NULL is not. */
bool tw_is_hex(const char *s, size_t digits);
bool tw_is_git_hash(const char *s); /* the whole name of an object of git: 40 or 64 digits */
void tw_hex(const void *bytes, size_t n, char *out);         /* out has 2n+1 */
char *tw_hex_128(uint64_t high, uint64_t low, char out[33]); /* a digest of two words; -> out */
/* From 2 * bytes small digits. False: one of them is none; out may be written in part. Neither
 * function reads beyond the NUL of a text that is too short. */
bool tw_unhex(const char *hex, size_t bytes, void *out);
bool tw_hex_number(const char *hex, unsigned digits, uint64_t *out); /* 16 digits at most */

/* ---- foreign text as it may be shown (printable.c). All malloc'ed; NULL: no memory. */
/*
 * A value that somebody else chose: what a terminal obeys, what turns or hides text and what is no
 * UTF-8 becomes \xNN, byte by byte. A \xNN that was in the text becomes \x5cxNN, so that what
 * stands for what is certain. Once a value.
 */
char *tw_printable(const char *s, size_t n);
/* The same of a sentence whose values may have been through tw_printable: \xNN in it stays. The
 * last guard of a sink. */
char *tw_printable_again(const char *s, size_t n);
/*
 * The same of a text in lines: line breaks stay, and so do colours ("\033[1m") when it is coloured.
 */
char *tw_printable_lines(const char *text, bool coloured);
/* JSON whose strings show nothing hidden: such characters become \uNNNN, which means the same. */
char *tw_printable_json(const char *json);
/*
 * printf whose text arguments go through tw_printable_again, line breaks included: only the format
 * makes lines. Knows %s %c %% and the conversions of integers and doubles; another one fails b.
 */
int tw_buf_vprint_safe(struct tw_buf *b, const char *format, va_list ap)
    __attribute__((format(printf, 2, 0)));
int tw_buf_print_safe(struct tw_buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The nearest of some words, for "did you mean" (nearest.c); NULL when none is near. names:
 * NULL-terminated. */
const char *tw_nearest(const char *word, const char *const *names);

/* ---- secrets (secret.c): what is not written down, or not as it is */
#define TW_SECRET_MASK "[redacted]"
/* May the value of this variable be kept? Those that decide about numbers and places; never one
 * with a secret's name. */
bool tw_secret_variable_kept(const char *name, size_t n);
/* What a search carries from one argument of a command to the next; TW_SECRET_NONE at first. */
enum tw_secret_pending {
    TW_SECRET_NONE,
    TW_SECRET_VALUE,   /* `--token`: the next argument is one */
    TW_SECRET_LOGIN,   /* `-u`: behind the colon of the next argument */
    TW_SECRET_SSHPASS, /* `sshpass`: what its -p gives */
    /* a file's text, no command: random texts and short options are everyday things there */
    TW_SECRET_IN_FILE = 256
};
/*
 * The next part of s[*at, n) that looks like a secret: bytes *from to *to; *at moves on. False:
 * there is none. What is redacted already is left alone. *at is 0 at the beginning of each
 * argument.
 */
bool tw_secret_next(int *pending, const char *s, size_t n, size_t *at, size_t *from, size_t *to);
/* The length of a service's token that begins at s; of a random text, no name or digest, that does
 * (secret_shape.c). */
size_t tw_secret_shape(const char *s, size_t n);
size_t tw_secret_random(const char *s, size_t n);
/* Copies s with each secret replaced by TW_SECRET_MASK, cut at room; returns the bytes written
 * (before a NUL). Allocates nothing. */
size_t tw_secret_mask(int *pending, const char *s, size_t n, char *out, size_t room);

/* ---- error.c */
/*
 * Says what there was no memory for, in the one form that such messages have: "out of memory
 * reading FILE", "out of memory for 12 runs". Returns TWIN_ENOMEM. An error that is set already
 * keeps its message. Allocates nothing.
 */
int tw_no_memory(struct twin_error *err, const char *doing, ...)
    __attribute__((format(printf, 2, 3)));
/* ": what went wrong", printable; malloc'ed; NULL: no error, or no memory */
char *tw_error_tail(const struct twin_error *err);

/* ---- shell.c */
/*
 * A command as one could type it into a shell, to be shown: secrets in it are replaced. malloc'ed
 * (tw_free); NULL when out of memory. count 0: up to NULL.
 */
char *tw_shell_quote(char *const *argv, size_t count);
/*
 * One word as any POSIX shell reads it again, byte for byte: to be run, not to be shown (secrets
 * stay). malloc'ed; NULL when out of memory.
 */
char *tw_shell_word(const char *s);
/* argv of `sh -c TEXT`, for a launch. argv points to text, which has to live as long. */
void tw_shell_argv(const char *text, char *argv[4]);

/* ---- processors.c. Those that this process may use: 1 to 64. */
unsigned tw_processors(void);

/* ---- clocks (clock.c) */
uint64_t tw_monotonic_ns(void);
int64_t tw_realtime_ns(void);
void tw_utc_stamp(int64_t realtime_ns, char out[32]); /* 2026-11-21T08-00-00Z */
/* As RFC 3339 has it: 2026-11-21T08:00:00Z, or with whole 2026-11-21T08:00:00.000000000Z */
void tw_utc_time(int64_t realtime_ns, bool whole, char out[32]);

/* ---- files (file.c). Paths are byte strings. */
char *tw_path_join(const char *a, const char *b); /* malloc'ed; b absolute wins */
const char *tw_base_name(const char *path);       /* its last part; points into path */
/* the user's, of twinrun; malloc'ed; NULL: none, or no memory */
char *tw_cache_folder(void);
char *tw_path_absolute(const char *path, struct twin_error *err);

/* ---- paths that somebody else wrote (path.c): of a package, a run folder, a manifest, a JSON
 * file, a checkout */
enum {
    /* any bytes but NUL and '/': where names are data, compared and never made */
    TW_PATH_ANY_NAME = 1,
    TW_PATH_GIT = 2, /* also what git keeps for itself: nothing is written there */
};
/*
 * NULL: a path of n bytes that stays below its folder, and that git, Windows and macOS take for
 * what it is. Else what is wrong with it, for a message: "a part \"..\"".
 */
const char *tw_path_fault(const char *path, size_t n, unsigned allow);
bool tw_path_ok(const char *path); /* the strict form; NULL is none */
/*
 * May a link at `path` lead to `target`, both below one folder? "../" may only begin it: behind a
 * name it would be taken back from where that name leads, which may be another link. Names as in
 * the strict form.
 */
bool tw_path_link_ok(const char *path, const char *target);
/* Bytes of a name in a folder, as file systems allow. */
enum { TW_PATH_PART_BYTES = 255 };
/* Copies the first part of a path and moves *path behind it: to a slash, or the end. False: it is
 * empty or too long. */
bool tw_path_part(const char **path, char part[TW_PATH_PART_BYTES + 1]);
/* A file below an open folder; no part of the path may be a link. A descriptor, or -1 with errno
 * (ELOOP, ENOTDIR: a link). */
int tw_open_below(int root, const char *path, int flags);
/* A folder below an open one, made with its parents; no part of the path may be a link. A
 * descriptor, or -1 with errno. */
int tw_folder_below(int root, const char *path);

/* Makes the folder and those above it that are missing, as mkdir -p does. */
int tw_mkdirs(const char *path, struct twin_error *err);
/* NUL-terminated too. What is no regular file is refused, but below /dev and /proc, where only a
 * person's words lead. */
int tw_read_file(const char *path, size_t cap, char **data, size_t *bytes, struct twin_error *err);
/* /dev/null, /dev/stdout, a named pipe, a socket: no file may take the place of such a name. Links
 * are followed. */
bool tw_is_device_or_pipe(const char *path);
/* Makes a file in the folder of path, under a name of its own and with the mode that open would
 * give, for who writes it whole and then gives it the name path. *temp (tw_free): its name.
 * TWIN_EINVAL: path is a device or a pipe. */
int tw_file_beside(const char *path, char **temp, int *fd, struct twin_error *err);
/* Replaces the file in one step: a reader sees the old one or the new one. A device or a pipe is
 * written to. */
int tw_write_file_atomic(const char *path, const void *data, size_t bytes, struct twin_error *err);
/* 0 or -1 with errno; retries EINTR and short writes */
int tw_write_all(int fd, const void *data, size_t bytes);
struct tw_front;
/* Copies from the offset of `in`, which is to be its beginning, to its end (copy.c). 0, or -1 with
 * errno: ECANCELED where the front (or NULL) stops. What was written by then stays. */
int tw_copy_bytes(int in, int out, const struct tw_front *front);
/* How many bytes were read (fewer at the end of the file), or -1 with errno. tw_read_up_to: from
 * the file's own offset, or of what is no file. */
ssize_t tw_read_up_to(int fd, void *data, size_t bytes);
ssize_t tw_pread_all(int fd, void *data, size_t bytes, uint64_t offset);
/* Deletes the folder and all below it; follows no link and stays on one device. bytes (or NULL):
 * how much that freed. errno says what kept it: ENOTEMPTY or EEXIST where something came meanwhile.
 */
int tw_remove_tree(const char *path, uint64_t *bytes, struct twin_error *err);

/* ---- limits.c. Between the two a write beyond the user's limit on file sizes (ulimit -f) fails
 * with EFBIG and kills nobody. For threads of the watched program. errno is kept. */
struct tw_file_limit {
    sigset_t before;
    bool held, was_waiting;
};
void tw_file_limit_hold(struct tw_file_limit *l);
void tw_file_limit_release(struct tw_file_limit *l);

/* ---- room.c: memory for the watched program's threads. Mapped, zeroed, beside malloc and its
 * arenas; where addresses or data are limited (ulimit -v, -d), an eighth of that altogether. */
void tw_room_limit(void);    /* reads the limits; errno is kept */
uint64_t tw_room_all(void);  /* that eighth; UINT64_MAX: nothing is limited */
uint64_t tw_room_left(void); /* of it; UINT64_MAX likewise */
uint64_t tw_room_used(void);
/* NULL with ENOMEM: no memory, or the eighth is used up */
void *tw_room_map(size_t bytes);
void tw_room_unmap(void *p, size_t bytes); /* bytes as they were asked for; NULL: nothing */

/* ---- a child process that works beside its parent (apart.c)
 * Called first thing in the child after fork. Nothing of the parent's stays open: an end of its
 * pipes held here would keep somebody waiting. The descriptor `keep` becomes TW_CHILD_KEEPS; 0, 1
 * and 2 lead nowhere. Signals are as at the start of a program, the terminal's Ctrl-C does not
 * reach the child, and init waits for what it leaves behind, which must not look like the job's. */
enum { TW_CHILD_KEEPS = 3 };
void tw_child_leaves_parent(int keep, const char *name);

/* ---- checksums and mixing (hash.c) */
/* Castagnoli, SSE4.2 when there; seed 0; chainable */
uint32_t tw_crc32c(uint32_t seed, const void *data, size_t bytes);
/* Mixes the bits of a number so that each of them depends on all; no two numbers give the same one
 * (the last step of splitmix64). Whoever chooses x can choose the result. */
uint64_t tw_mix64(uint64_t x);
/* 128 bits, which are compared as a whole. */
struct tw_hash128 {
    uint64_t a, b;
};
/* for tables and keys; stable: stored in traces */
struct tw_hash128 tw_hash_bytes(const void *data, size_t bytes, uint64_t seed);

/* ---- base64 (base64.c): RFC 4648 with padding; malloc'ed, NUL-terminated (tw_free) */
char *tw_base64(const void *data, size_t n);
/* Only what tw_base64 would have written; foreign: also the URL alphabet, and without padding. ->
 * NULL: not such text (errno EINVAL), or no memory (ENOMEM). */
unsigned char *tw_base64_read(const char *text, bool foreign, size_t *bytes);

/* ---- what foreign JSON may cost (json_cost.c; src/json/json_load.h asks it before it parses) */
#define TW_JSON_FREE_BYTES ((uint64_t)128 << 20) /* of a tree, whatever its text */
/* of a tree, for each byte of its text beyond that */
#define TW_JSON_BYTES_EACH 16
uint64_t tw_json_cost(const char *text, size_t n); /* bytes of the tree, about, and not less */
bool tw_json_too_costly(const char *text, size_t n);

/* ---- small TOML files (toml.c): [[NAME]] tables of strings, numbers, lists of strings and inline
 * tables of strings, a line each */
enum tw_toml_type { TW_TOML_STRING, TW_TOML_NUMBER, TW_TOML_STRINGS, TW_TOML_TABLE };
/* The value of one key. */
struct tw_toml_value {
    enum tw_toml_type type;
    double number;
    /* string: one; list: its items; inline table: key, value, key, value, ... Lives as long as the
     * call of key() */
    char **text;
    size_t count; /* of text */
};
/* Who is told of tables and keys; non-zero from either ends the reading. */
struct tw_toml_handler {
    const char *table; /* NAME */
    int (*begin)(void *user, size_t line, struct twin_error *err);
    int (*key)(void *user, const char *key, const struct tw_toml_value *v, size_t line,
               struct twin_error *err);
    void *user;
};
/* data (text, ending in NUL) is changed. TWIN_EFORMAT names path and line; also what a handler
 * returns. A key twice in a table is an error. */
int tw_toml_read(char *data, const char *path, const struct tw_toml_handler *h,
                 struct twin_error *err);
#endif
