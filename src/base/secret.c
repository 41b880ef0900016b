/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not be written down. Values of variables are kept by an allow-list; in command lines
 * and addresses, which have to be kept, the parts that look like a secret are found by the name
 * before them, by their place in an address or by their shape. docs/provenance.md says what is
 * found and what is not.
 */
#include "base.h"

#include <ctype.h>
#include <string.h>

static bool is_one_of(const char *word, size_t n, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == n && strncasecmp(word, *list, n) == 0)
            return true;
    return false;
}

/* ---- variables */

/* The allow-list: names, and beginnings of names. */
bool tw_secret_variable_kept(const char *name, size_t n)
{
    /* clang-format off */
    static const char *const names[] = {
        "PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONNOUSERSITE", "LD_PRELOAD", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "TZ",
        "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
        "MASTER_ADDR", "MASTER_PORT", "HOSTNAME", "TMPDIR", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_PERTURB_", "TWINRUN_HOME",
        "SOURCE_DATE_EPOCH", "CXX", "CC", "KERAS_BACKEND", NULL,
    };
    static const char *const prefixes[] = {
        "LC_", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONUNBUFFERED", "PYTHONWARNINGS", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_",
        "BLIS_", "VECLIB_", "NUMEXPR_", "TBB_", "ONEDNN_", "DNNL_", "CUDA_", "CUBLAS", "CUDNN_", "NVIDIA_TF32", "NVIDIA_VISIBLE", "NCCL_", "GLOO_",
        "TORCH_", "TORCHINDUCTOR_", "TORCHELASTIC_", "PYTORCH_", "ATEN_", "TRITON_", "TF_DETERMINISTIC", "TF_CUDNN", "TF_ENABLE_", "TF_XLA_", "TF_NUM_", "XLA_", "JAX_", "HIP_",
        "ROCR_", "HSA_", "MIOPEN_", "RCCL_", "OMPI_", "OPAL_", "PRTE_", "PMI_", "PMIX_RANK", "MPICH_", "I_MPI_", "FI_", "UCX_", "HOROVOD_",
        "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_LOCALID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_NODEID",
        "SLURM_CPUS_", "SLURM_GPUS", "SLURM_JOB_PARTITION", "PBS_JOBID", "LSB_JOBID", "JOB_COMPLETION_INDEX", NULL,
    };
    /* A name that looks like a secret is never kept, whatever list it is on. */
    static const char *const never[] = {"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "_KEY", "APIKEY", "AUTH", "COOKIE", NULL};
    /* clang-format on */
    for (const char *const *p = never; *p; p++)
        if (memmem(name, n, *p, strlen(*p)))
            return false;
    for (const char *const *p = names; *p; p++)
        if (strlen(*p) == n && memcmp(*p, name, n) == 0)
            return true;
    for (const char *const *p = prefixes; *p; p++)
        if (n >= strlen(*p) && memcmp(*p, name, strlen(*p)) == 0)
            return true;
    return false;
}

/* ---- names: --api-key, dbPassword, X-Auth-Token */

/* What a name says of its value. MAYBE: not when the value is a number or a flag. */
enum kind { NO_SECRET, MAYBE_SECRET, SECRET };

/* The last two words of a name, split where it changes case and at signs. strong: some word of it
 * always means a secret. */
struct words {
    const char *last, *before;
    size_t last_n, before_n;
    bool strong;
};

/* Finds the words of a name: "dbPassword" and "db-password" both end in "password". */
static void split_name(const char *s, size_t n, struct words *w)
{
    static const char *const strong[] = {"password",    "passwd",      "passwort", "passphrase",
                                         "passcode",    "pwd",         "secret",   "secrets",
                                         "credential",  "credentials", "auth",     "authorization",
                                         "cookie",      "cookies",     "apikey",   "authtoken",
                                         "accesstoken", "secretkey",   NULL};
    *w = (struct words){NULL};
    for (size_t i = 0; i < n;) {
        while (i < n && !isalnum((unsigned char)s[i]))
            i++;
        size_t from = i;
        while (i < n && isalnum((unsigned char)s[i]) &&
               !(i > from && isupper((unsigned char)s[i]) && islower((unsigned char)s[i - 1])))
            i++;
        if (i == from)
            continue;
        w->before = w->last;
        w->before_n = w->last_n;
        w->last = s + from;
        w->last_n = i - from;
        w->strong |= is_one_of(w->last, w->last_n, strong);
    }
}

/* Judges a name by its last word, and a weak one ("key") by the word before it. */
static enum kind kind_of(const char *name, size_t n)
{
    /* What a secret's name is followed by when the value is only about it. */
    static const char *const about[] = {
        "file",   "path",   "dir",      "type",   "method",  "mode",     "backend",
        "length", "len",    "size",     "dim",    "dims",    "count",    "index",
        "num",    "policy", "provider", "scheme", "enabled", "required", NULL};
    /* Tokens and keys that every training job has. */
    static const char *const harmless[] = {
        "pad",   "bos",    "eos",       "unk",     "sep",     "cls",      "mask",   "special",
        "image", "audio",  "start",     "end",     "stop",    "new",      "next",   "first",
        "last",  "per",    "sort",      "primary", "foreign", "public",   "dict",   "state",
        "cache", "group",  "partition", "label",   "feature", "input",    "output", "column",
        "text",  "target", "batch",     "metric",  "monitor", "query",    "head",   "attention",
        "data",  "prompt", "by",        "task",    "class",   "weight",   "loss",   "json",
        "num",   "single", "two",       "multi",   "forward", "backward", "low",    "high",
        "band",  "second", "max",       "min",     NULL};
    static const char *const weak[] = {"token", "key", "pass", NULL};
    struct words w;
    split_name(name, n, &w);
    if (!w.last || is_one_of(w.last, w.last_n, about))
        return NO_SECRET;
    if (w.strong)
        return SECRET;
    if (!is_one_of(w.last, w.last_n, weak) ||
        (w.before && is_one_of(w.before, w.before_n, harmless)))
        return NO_SECRET;
    return MAYBE_SECRET;
}

/* Numbers, flags and nothing are no tokens. */
static bool is_harmless_value(const char *s, size_t n)
{
    static const char *const flags[] = {"true", "false", "none", "null", "yes",
                                        "no",   "on",    "off",  "auto", NULL};
    size_t digits = 0;
    for (size_t i = 0; i < n; i++)
        digits += isdigit((unsigned char)s[i]) || strchr("+-.eE", s[i]);
    return n < 4 || (digits == n && n < 12) || is_one_of(s, n, flags);
}

/* ---- the search */

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool ends_value(char c)
{
    return isspace((unsigned char)c) || strchr("\"'&,;|)}]<>`", c) != NULL;
}

/* Where an unquoted value ends. */
static size_t value_end(const char *s, size_t n, size_t from)
{
    while (from < n && !ends_value(s[from]))
        from++;
    return from;
}

static size_t skip_space(const char *s, size_t n, size_t i)
{
    while (i < n && (s[i] == ' ' || s[i] == '\t'))
        i++;
    return i;
}

/* The value that begins at *from: quotes around it and the scheme of an Authorization header are
 * not part of it. whole: an unquoted value goes to the end of the text. Sets *from and *to. */
static void bound_value(const char *s, size_t n, bool whole, size_t *from, size_t *to)
{
    static const char *const schemes[] = {"bearer ", "basic ", "token ", NULL};
    char quote = 0;
    if (*from < n && (s[*from] == '"' || s[*from] == '\''))
        quote = s[(*from)++];
    for (const char *const *p = schemes; *p; p++)
        if (n - *from > strlen(*p) && strncasecmp(s + *from, *p, strlen(*p)) == 0) {
            *from = skip_space(s, n, *from + strlen(*p));
            break;
        }
    const char *close = quote ? memchr(s + *from, quote, n - *from) : NULL;
    if (close)
        *to = (size_t)(close - s);
    else
        *to = whole ? n : value_end(s, n, *from);
}

/* Behind a mark that an earlier search has put at `from`; 0 when there is none. */
static size_t redacted_end(const char *s, size_t n, size_t from)
{
    static const char mask[] = "[redacted";
    size_t i = from + sizeof mask - 1;
    if (n - from < sizeof mask || memcmp(s + from, mask, sizeof mask - 1) != 0 ||
        (s[i] != ']' && s[i] != ':'))
        return 0;
    while (i < n && s[i] != ']')
        i++;
    return i < n ? i + 1 : 0;
}

/* The user:password@ of an address whose "://" is at i. A user alone counts when it is long or
 * looks like a token. */
static bool in_address(const char *s, size_t n, size_t i, size_t *from, size_t *to)
{
    size_t end = i + 3, at = 0;
    bool colon = false;
    while (end < n && !strchr("/?# \t\r\n\"'", s[end])) {
        if (s[end] == '@')
            at = end;
        end++;
    }
    *from = i + 3;
    *to = at;
    if (at <= *from)
        return false;
    colon = memchr(s + *from, ':', at - *from) != NULL;
    return colon || at - *from >= 16 || tw_secret_shape(s + *from, at - *from);
}

/* Of an address: what signs it may use it. */
static bool is_signature(const char *name, size_t n)
{
    static const char *const names[] = {"sig",
                                        "signature",
                                        "x-amz-signature",
                                        "x-goog-signature",
                                        "x-amz-credential",
                                        "x-amz-security-token",
                                        "awsaccesskeyid",
                                        NULL};
    return is_one_of(name, n, names);
}

/* A secret that a name announces: "name=value", "name: value", "--name value". The name begins at i
 * and ends before `end`. An option at the end of the argument is remembered in *pending. */
static bool find_named_secret(const char *s, size_t n, size_t i, size_t end, int *pending,
                              size_t *from, size_t *to)
{
    static const char *const pass[] = {"pass", NULL};
    enum kind kind = kind_of(s + i, end - i);
    bool query = i > 0 && end < n && s[end] == '=' && strchr("?&;", s[i - 1]);
    if (query && is_signature(s + i, end - i))
        kind = SECRET;
    if (kind == NO_SECRET)
        return false;
    bool option = s[i] == '-';
    if (!option && end < n && s[end] != '=' && is_one_of(s + i, end - i, pass))
        return false; /* "pass: 3 of 5": a word of every report */
    size_t at = end;
    if (at < n && (s[at] == '"' || s[at] == '\'')) /* "password": "..." */
        at++;
    size_t sign = skip_space(s, n, at);
    if (sign < n && (s[sign] == '=' || s[sign] == ':')) {
        if (s[sign] == ':' && sign + 2 < n && s[sign + 1] == '/' && s[sign + 2] == '/')
            return false;
        *from = skip_space(s, n, sign + 1);
        bound_value(s, n, option && i == 0 && s[sign] == '=', from, to);
    } else if (option && at == n) {
        *pending |= TW_SECRET_VALUE;
        return false;
    } else if (option && sign > at && s[sign] != '-') {
        *from = sign;
        bound_value(s, n, false, from, to);
    } else {
        return false;
    }
    if (*to <= *from || redacted_end(s, n, *from))
        return false;
    return kind == SECRET || !is_harmless_value(s + *from, *to - *from);
}

/* The password of user:password behind the -u of curl. Numbers are the user and group of a
 * container, and no login. */
static bool login(const char *s, size_t n, size_t from, size_t *begin, size_t *end)
{
    *end = value_end(s, n, from);
    const char *colon = memchr(s + from, ':', *end - from);
    size_t digits = 0;
    if (!colon || s[from] == '-' || memmem(s + from, *end - from, "://", 3) ||
        redacted_end(s, n, (size_t)(colon - s) + 1))
        return false;
    *begin = (size_t)(colon - s) + 1;
    while (*begin + digits < *end && isdigit((unsigned char)s[*begin + digits]))
        digits++;
    return *end > *begin && *begin + digits < *end;
}

/* The password of `-p PASSWORD` or `-pPASSWORD`, which begins at i. */
static bool sshpass(const char *s, size_t n, size_t i, int *pending, size_t *from, size_t *to)
{
    if (n - i < 2 || s[i] != '-' || s[i + 1] != 'p')
        return false;
    *from = skip_space(s, n, i + 2);
    if (*from >= n) {
        *pending |= TW_SECRET_VALUE;
        return false;
    }
    bound_value(s, n, i == 0, from, to);
    return *to > *from && !redacted_end(s, n, *from);
}

/* Options that only a command has: s[i, end) is a word of it. */
static bool of_command(const char *s, size_t n, size_t i, size_t end, int *pending, size_t *from,
                       size_t *to)
{
    static const char *const logins[] = {"-u", "--user", "--proxy-user", NULL};
    static const char *const programs[] = {"sshpass", NULL};
    if (*pending & TW_SECRET_IN_FILE)
        return false;
    size_t next = end < n && s[end] == '=' ? end + 1 : skip_space(s, n, end);
    if (is_one_of(s + i, end - i, logins)) {
        if (next < n && next > end)
            return login(s, n, next + (s[next] == '\'' || s[next] == '"'), from, to);
        *pending |= end == n ? TW_SECRET_LOGIN : TW_SECRET_NONE;
    } else if (is_one_of(s + i, end - i, programs)) {
        if (next < n && next > end)
            return sshpass(s, n, next, pending, from, to);
        *pending |= end == n ? TW_SECRET_SSHPASS : TW_SECRET_NONE;
    }
    return false;
}

/* Is the argument what the one before it announced? */
static bool announced(int *pending, const char *s, size_t n, size_t *from, size_t *to)
{
    int what = *pending & ~TW_SECRET_IN_FILE;
    *pending &= TW_SECRET_IN_FILE;
    *from = 0;
    *to = n;
    if (n == 0 || redacted_end(s, n, 0))
        return false;
    if (what == TW_SECRET_LOGIN)
        return login(s, n, 0, from, to);
    if (what == TW_SECRET_SSHPASS && s[0] == '-')
        return sshpass(s, n, 0, pending, from, to);
    return what == TW_SECRET_VALUE && s[0] != '-' && !is_harmless_value(s, n);
}

/* Does a secret begin at i by its place or shape? */
static bool by_shape(const char *s, size_t n, size_t i, bool in_file, size_t *from, size_t *to)
{
    if (n - i > 3 && memcmp(s + i, "://", 3) == 0 && in_address(s, n, i, from, to))
        return !redacted_end(s, n, *from);
    *from = i;
    if (n - i > 10 && memcmp(s + i, "-----BEGIN", 10) == 0 &&
        memmem(s + i, n - i, "PRIVATE KEY", 11)) {
        *to = n;
        return true;
    }
    if (!in_name(s[i]))
        return false;
    size_t length = tw_secret_shape(s + i, n - i);
    /* SHA256:..., of a key */
    bool digest = i >= 7 && s[i - 1] == ':' && strncasecmp(s + i - 7, "sha", 3) == 0;
    if (length == 0 && !in_file && !digest)
        length = tw_secret_random(s + i, n - i);
    *to = i + length;
    return length > 0;
}

/* "Bearer TOKEN" without a header's name before it. */
static bool bearer(const char *s, size_t n, size_t i, size_t end, size_t *from, size_t *to)
{
    static const char *const words[] = {"bearer", NULL};
    *from = skip_space(s, n, end);
    *to = value_end(s, n, *from);
    return is_one_of(s + i, end - i, words) && *from > end && *to >= *from + 8 &&
           !redacted_end(s, n, *from);
}

/* What the last argument announced comes first. Then, place by place: what is masked already, what
 * has the shape of a secret, what a name announces. */
bool tw_secret_next(int *pending, const char *s, size_t n, size_t *at, size_t *from, size_t *to)
{
    bool in_file = *pending & TW_SECRET_IN_FILE;
    if (*at == 0 && *pending & ~TW_SECRET_IN_FILE && announced(pending, s, n, from, to)) {
        *at = *to;
        return true;
    }
    for (size_t i = *at; i < n;) {
        size_t end = i, masked = redacted_end(s, n, i);
        if (masked) {
            i = masked;
            continue;
        }
        if (by_shape(s, n, i, in_file, from, to)) {
            *at = *to;
            return true;
        }
        if (!in_name(s[i])) {
            i++;
            continue;
        }
        while (end < n && in_name(s[end]))
            end++;
        bool found = find_named_secret(s, n, i, end, pending, from, to) ||
                     of_command(s, n, i, end, pending, from, to);
        if (found || bearer(s, n, i, end, from, to)) {
            *at = *to;
            return true;
        }
        i = end;
    }
    *at = n;
    return false;
}

/* Works within `room`; what does not fit is cut off, masks as well. */
size_t tw_secret_mask(int *pending, const char *s, size_t n, char *out, size_t room)
{
    static const char instead[] = TW_SECRET_MASK;
    size_t at = 0, done = 0, used = 0, from, to;
    bool more = true;
    while (more) {
        more = tw_secret_next(pending, s, n, &at, &from, &to);
        size_t end = more ? from : n;
        for (; done < end && used + 1 < room; done++)
            out[used++] = s[done];
        for (const char *p = instead; more && *p && used + 1 < room; p++)
            out[used++] = *p;
        done = more ? to : n;
    }
    if (room)
        out[used] = '\0';
    return used;
}
