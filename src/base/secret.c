/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not be written down. Values of variables are kept by an allow-list; in command lines and addresses, which have to be
 * kept, the parts that look like a secret are found by the name before them, by their place in an address or by their shape.
 * docs/provenance.md says what is found and what is not.
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

bool tw_secret_variable_kept(const char *name, size_t n)
{
    /* clang-format off */
    static const char *const names[] = {
        "PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONNOUSERSITE", "LD_PRELOAD", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "TZ",
        "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
        "MASTER_ADDR", "MASTER_PORT", "HOSTNAME", "TMPDIR", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_PERTURB_", "TWINRUN_HOME",
        "SOURCE_DATE_EPOCH", "CXX", "CC", NULL,
    };
    static const char *const prefixes[] = {
        "LC_", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONUNBUFFERED", "PYTHONWARNINGS", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_",
        "BLIS_", "VECLIB_", "NUMEXPR_", "TBB_", "ONEDNN_", "DNNL_", "CUDA_", "CUBLAS", "CUDNN_", "NVIDIA_TF32", "NVIDIA_VISIBLE", "NCCL_", "GLOO_",
        "TORCH_", "TORCHINDUCTOR_", "TORCHELASTIC_", "PYTORCH_", "ATEN_", "TRITON_", "TF_DETERMINISTIC", "TF_CUDNN", "TF_ENABLE_", "XLA_", "JAX_", "HIP_",
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

enum kind { NO_SECRET, MAYBE_SECRET, SECRET }; /* MAYBE: not when the value is a number or a flag */

/* The last two words of a name, split where it changes case and at signs. */
struct words { const char *last, *before; size_t last_n, before_n; bool strong; };

static void split(const char *s, size_t n, struct words *w)
{
    static const char *const strong[] = {"password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "credential", "credentials",
                                         "auth", "authorization", "cookie", "cookies", "apikey", "authtoken", "accesstoken", "secretkey", NULL};
    *w = (struct words){NULL};
    for (size_t i = 0; i < n;) {
        while (i < n && !isalnum((unsigned char)s[i]))
            i++;
        size_t from = i;
        while (i < n && isalnum((unsigned char)s[i]) && !(i > from && isupper((unsigned char)s[i]) && islower((unsigned char)s[i - 1])))
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

static enum kind kind_of(const char *name, size_t n)
{
    /* What a secret's name is followed by when the value is only about it. */
    static const char *const about[] = {"file", "path", "dir", "type", "method", "mode", "backend", "length", "len", "size", "dim", "dims", "count",
                                        "index", "num", "policy", "provider", "scheme", "enabled", "required", NULL};
    /* Tokens and keys that every training job has. */
    static const char *const harmless[] = {"pad", "bos", "eos", "unk", "sep", "cls", "mask", "special", "image", "audio", "start", "end", "stop", "new",
                                           "next", "first", "last", "per", "sort", "primary", "foreign", "public", "dict", "state", "cache", "group",
                                           "partition", "label", "feature", "input", "output", "column", "text", "target", "batch", "metric", "monitor",
                                           "query", "head", "attention", "data", "prompt", "by", "task", "class", "weight", "loss", "json", NULL};
    static const char *const weak[] = {"token", "key", NULL};
    struct words w;
    split(name, n, &w);
    if (!w.last || is_one_of(w.last, w.last_n, about))
        return NO_SECRET;
    if (w.strong)
        return SECRET;
    if (!is_one_of(w.last, w.last_n, weak) || (w.before && is_one_of(w.before, w.before_n, harmless)))
        return NO_SECRET;
    return MAYBE_SECRET;
}

/* Numbers, flags and nothing are no tokens. */
static bool is_harmless_value(const char *s, size_t n)
{
    static const char *const flags[] = {"true", "false", "none", "null", "yes", "no", "on", "off", "auto", NULL};
    size_t digits = 0;
    for (size_t i = 0; i < n; i++)
        digits += isdigit((unsigned char)s[i]) || strchr("+-.eE", s[i]);
    return n < 4 || (digits == n && n < 12) || is_one_of(s, n, flags);
}

/* ---- shapes */

static bool in_token(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* A token as well-known services make them, at s; its length, or 0. */
static size_t known_shape(const char *s, size_t n)
{
    static const char *const begins[] = {"ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "hf_", "sk-", "xoxb-", "xoxp-", "xoxa-",
                                         "xoxs-", "AKIA", "ASIA", "AIza", "eyJ", "npm_", "pypi-", "dckr_pat_", "hvs.", NULL};
    for (const char *const *p = begins; *p; p++) {
        size_t head = strlen(*p), at = head, upper = 0, lower = 0, digit = 0;
        if (n < head || memcmp(s, *p, head) != 0)
            continue;
        for (; at < n && (in_token(s[at]) || (s[at] == '.' && s[0] == 'e')); at++) {
            upper += isupper((unsigned char)s[at]) != 0;
            lower += islower((unsigned char)s[at]) != 0;
            digit += isdigit((unsigned char)s[at]) != 0;
        }
        if (at - head >= 16 && (upper ? lower || digit : lower && digit))
            return at;
    }
    return 0;
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

/* From the value's first character on: quotes and the scheme of an Authorization header are not part of it. */
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
    *to = close ? (size_t)(close - s) : whole ? n : value_end(s, n, *from);
}

/* user:password@ of an address whose "://" is at i. */
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
    return colon || at - *from >= 16 || known_shape(s + *from, at - *from);
}

/* A secret that a name announces; the name begins at i and ends before `end`. */
static bool named(const char *s, size_t n, size_t i, size_t end, bool *pending, size_t *from, size_t *to)
{
    enum kind kind = kind_of(s + i, end - i);
    if (kind == NO_SECRET)
        return false;
    bool option = s[i] == '-';
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
        *pending = true;
        return false;
    } else if (option && sign > at && s[sign] != '-') {
        *from = sign;
        bound_value(s, n, false, from, to);
    } else {
        return false;
    }
    return *to > *from && !(kind == MAYBE_SECRET && is_harmless_value(s + *from, *to - *from));
}

bool tw_secret_next(bool *pending, const char *s, size_t n, size_t *at, size_t *from, size_t *to)
{
    if (*at == 0 && *pending) {
        *pending = false;
        if (n && s[0] != '-' && !is_harmless_value(s, n)) {
            *from = 0;
            *to = *at = n;
            return true;
        }
    }
    for (size_t i = *at; i < n;) {
        size_t end = i, shape;
        if (n - i > 3 && memcmp(s + i, "://", 3) == 0 && in_address(s, n, i, from, to)) {
            *at = *to;
            return true;
        }
        if (n - i > 10 && memcmp(s + i, "-----BEGIN", 10) == 0 && memmem(s + i, n - i, "PRIVATE KEY", 11)) {
            *from = i;
            *to = *at = n;
            return true;
        }
        if (!in_name(s[i])) {
            i++;
            continue;
        }
        if ((shape = known_shape(s + i, n - i)) != 0) {
            *from = i;
            *to = *at = i + shape;
            return true;
        }
        while (end < n && in_name(s[end]))
            end++;
        if (named(s, n, i, end, pending, from, to)) {
            *at = *to;
            return true;
        }
        static const char *const bearer[] = {"bearer", NULL};
        size_t word = skip_space(s, n, end);
        if (is_one_of(s + i, end - i, bearer) && word > end && value_end(s, n, word) >= word + 8) {
            *from = word;
            *to = *at = value_end(s, n, word);
            return true;
        }
        i = end;
    }
    *at = n;
    return false;
}

size_t tw_secret_mask(bool *pending, const char *s, size_t n, char *out, size_t room)
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
