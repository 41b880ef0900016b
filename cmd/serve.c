/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun serve: what a ledger says, over HTTP. The server is src/serve; this file reads options,
 * and says on stderr what the server says.
 */
#include "say.h"
#include "runs.h"
#include "options.h"
#include "terminal.h"

#include "base.h"

#include "src/serve/serve.h"

#include <string.h>

struct serve_args {
    const char *home, *ledger, *targets, *listen, *unix_path, *token_file, *cert, *key, *textfile;
};

#define FIELD(f) offsetof(struct serve_args, f)
#define LISTEN "127.0.0.1:8471"

static const struct tw_option options[] = {
    {"listen", 'l', TW_OPT_STRING, "ADDRESS:PORT", NULL, "Server",
     "where to listen; " LISTEN " unless given. An address that other machines reach needs "
     "--token-file, --cert and --key. Port 0: any, which is said",
     FIELD(listen)},
    {"unix", 0, TW_OPT_FILE, "PATH", NULL, "Server",
     "listen on a socket of this name instead, which only this user can reach", FIELD(unix_path)},
    {"token-file", 0, TW_OPT_FILE, "FILE", NULL, "Server",
     "a file whose one line every request must bring as its bearer token", FIELD(token_file)},
    {"cert", 0, TW_OPT_FILE, "FILE", NULL, "Server", "serve TLS with this certificate (PEM)",
     FIELD(cert)},
    {"key", 0, TW_OPT_FILE, "FILE", NULL, "Server", "the certificate's private key (PEM)",
     FIELD(key)},
    {"textfile", 0, TW_OPT_DIR, "DIR", NULL, "Server",
     "write the metrics to DIR/twinrun.prom for node exporter, once, and serve nothing",
     FIELD(textfile)},
    {"targets", 't', TW_OPT_FILE, "FILE", NULL, "Levels",
     "a TOML file of [[slo]] tables, as of twinrun slo", FIELD(targets)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(serve_args, ledger),
    {NULL},
};

static const char *const synopsis[] = {"[options]", "--textfile DIR [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "stopped by SIGINT or SIGTERM; or the file was written"},
    {"2", "trouble: bad use, a ledger that cannot be read at the start, an address in use"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun serve", "metrics, API and overview of this home, for this machine"},
    {"twinrun serve --ledger postgresql://reader@db/runs --listen 0.0.0.0:8471 --token-file token "
     "--cert cert.pem --key key.pem",
     "of a fleet, for other machines"},
    {"twinrun serve --textfile /var/lib/prometheus/node-exporter", "for node exporter, from cron"},
    {NULL, NULL},
};

/* What is wrong with what was asked for; -1: nothing. */
static int check(const struct serve_args *a)
{
    if (a->listen && a->unix_path)
        return tw_bad_use("serve", "--listen and --unix: expected one of them");
    if (a->textfile && (a->listen || a->unix_path || a->token_file || a->cert || a->key))
        return tw_bad_use("serve", "--textfile serves nothing: expected none of --listen, --unix, "
                                   "--token-file, --cert, --key beside it");
    return -1;
}

static int serve(const struct serve_args *a, const struct tw_slo_targets *targets)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *given = tw_home(a->home), *home = given ? tw_path_absolute(given, &err) : NULL;
    const struct tw_serve_options o = {
        .home = home,
        .ledger = a->ledger,
        .targets = targets,
        .version = TWINRUN_VERSION,
        .listen = a->listen ? a->listen : LISTEN,
        .unix_path = a->unix_path,
        .token_file = a->token_file,
        .cert = a->cert,
        .key = a->key,
    };
    int rc = home ? 0 : TWIN_ENOMEM;
    if (rc == 0 && a->textfile)
        rc = tw_serve_textfile(&o, a->textfile, &err);
    else if (rc == 0)
        rc = tw_serve(&o, &tw_terminal, &err);
    if (rc != 0)
        rc = tw_trouble(&err,
                        a->textfile ? "serve: no metrics were written" : "serve: cannot serve");
    tw_free(home);
    tw_free(given);
    return rc;
}

static int run(int argc, char **argv)
{
    struct serve_args a = {0};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_slo_targets targets = {.count = 0};
    int rc = tw_options_parse(&tw_command_serve, argc, argv, &a, &rest);
    if (rc >= 0 || (rc = check(&a)) >= 0)
        return rc;
    rc = a.targets ? tw_slo_targets_read(a.targets, &targets, &err)
                   : tw_slo_targets_default(&targets, &err);
    rc = rc ? tw_trouble(&err, "serve: cannot use the targets") : serve(&a, &targets);
    tw_slo_targets_free(&targets);
    return rc;
}

const struct tw_command tw_command_serve = {
    "serve",
    "metrics, JSON and an overview page of the ledger, over HTTP",
    synopsis,
    "Answers what the ledger says: /metrics for Prometheus (text, or OpenMetrics with run ids as "
    "exemplars), /api/v1/runs, verdicts, searches, indicators (JSON; schemas under "
    "/api/v1/schemas), /api/v1/comparisons/ID (the runs of a verdict, compared again), "
    "/api/v1/events (server-sent events of new runs and verdicts), /healthz, and a live page. It "
    "only reads: the ledger, and for a comparison the folders of its runs. Runs that the ledger "
    "lacks are added by "
    "`twinrun ls`.\n\n"
    "Metrics are of every project in the ledger, whichever home wrote it. A scrape is answered "
    "from "
    "a snapshot, which is renewed within seconds after the ledger changed.\n\n"
    "`twinrun slo --rules DIR` writes the alert rules that go with the metrics.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
