/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun serve: what a ledger says, over HTTP. The server is src/serve; this file reads options,
 * and says on stderr what the server says.
 */
#include "say.h"
#include "runs.h"
#include "options.h"
#include "phrase.h"
#include "terminal.h"

#include "base.h"

#include "src/serve/serve.h"

#include <string.h>

struct serve_args {
    const char *home, *ledger, *targets, *listen, *unix_path, *token_file, *cert, *key, *textfile;
    const char *pushgateway, *pushgateway_token_file, *pushgateway_ca;
    const char *alertmanager, *alertmanager_token_file, *alertmanager_ca, *external_url;
    uint64_t incident_hours, cool_down;
};

#define FIELD(f) offsetof(struct serve_args, f)
#define LISTEN "127.0.0.1:8471"
enum { INCIDENT_HOURS = 24, COOL_DOWN_MINUTES = 60 };

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
    {"pushgateway", 0, TW_OPT_STRING, "URL", NULL, "Server",
     "push the results of CI to this Pushgateway, once, and serve nothing", FIELD(pushgateway)},
    {"pushgateway-token-file", 0, TW_OPT_FILE, "FILE", NULL, "Server",
     "a file whose one line is the bearer token that it wants", FIELD(pushgateway_token_file)},
    {"pushgateway-ca", 0, TW_OPT_FILE, "FILE", NULL, "Server",
     "certificates (PEM) that its own is held against, instead of the system's",
     FIELD(pushgateway_ca)},
    {"alertmanager", 0, TW_OPT_STRING, "URL", NULL, "Incidents",
     "tell this Alertmanager of each run that diverged (http://127.0.0.1:9093)",
     FIELD(alertmanager)},
    {"alertmanager-token-file", 0, TW_OPT_FILE, "FILE", NULL, "Incidents",
     "a file whose one line is the bearer token that it wants", FIELD(alertmanager_token_file)},
    {"alertmanager-ca", 0, TW_OPT_FILE, "FILE", NULL, "Incidents",
     "certificates (PEM) that its own is held against, instead of the system's",
     FIELD(alertmanager_ca)},
    {"incident-hours", 0, TW_OPT_COUNT, "N", NULL, "Incidents",
     "an incident ends after N hours, if the job does not agree before; 24 unless given",
     FIELD(incident_hours), 1, 720},
    {"cool-down", 0, TW_OPT_COUNT, "MINUTES", NULL, "Incidents",
     "another run of the same project and command that diverges within that time is a ticket and "
     "pages nobody; 60 unless given",
     FIELD(cool_down), 0, 10080},
    {"external-url", 0, TW_OPT_STRING, "URL", NULL, "Incidents",
     "this server as people reach it, for links of incidents; where it listens unless given",
     FIELD(external_url)},
    {"targets", 't', TW_OPT_FILE, "FILE", NULL, "Levels",
     "a TOML file of [[slo]] tables, as of twinrun slo", FIELD(targets)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(serve_args, ledger),
    {NULL},
};

static const char *const synopsis[] = {"[options]", "--textfile DIR [options]",
                                       "--pushgateway URL [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "stopped by SIGINT or SIGTERM; or the file was written, or the results were pushed"},
    {"2", "trouble: bad use, a ledger that cannot be read at the start, an address in use"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun serve", "metrics, API and overview of this home, for this machine"},
    {"twinrun serve --ledger postgresql://reader@db/runs --listen 0.0.0.0:8471 --token-file token "
     "--cert cert.pem --key key.pem",
     "of a fleet, for other machines"},
    {"twinrun serve --alertmanager http://127.0.0.1:9093", "runs that diverge page somebody"},
    {"twinrun serve --textfile /var/lib/prometheus/node-exporter", "for node exporter, from cron"},
    {"twinrun serve --pushgateway https://push.example", "at the end of a pipeline"},
    {NULL, NULL},
};

/* What is wrong with what was asked for; -1: nothing. */
static int check(const struct serve_args *a)
{
    if (a->listen && a->unix_path)
        return tw_bad_use("serve", "--listen and --unix: expected one of them");
    const char *once = a->textfile ? "--textfile" : NULL;
    if (a->pushgateway)
        once = "--pushgateway";
    if (a->textfile && a->pushgateway)
        return tw_bad_use("serve", "--textfile and --pushgateway: expected one of them");
    if (once && (a->listen || a->unix_path || a->token_file || a->cert || a->key))
        return tw_bad_use("serve",
                          "%s serves nothing: expected none of --listen, --unix, --token-file, "
                          "--cert, --key beside it",
                          once);
    if ((a->pushgateway_token_file || a->pushgateway_ca) && !a->pushgateway)
        return tw_bad_use("serve", "--pushgateway-token-file, --pushgateway-ca: expected "
                                   "--pushgateway beside them");
    const bool told = a->alertmanager_token_file || a->alertmanager_ca || a->external_url ||
                      a->incident_hours != TW_NOT_GIVEN || a->cool_down != TW_NOT_GIVEN;
    if (told && !a->alertmanager)
        return tw_bad_use("serve", "--alertmanager-token-file, --alertmanager-ca, "
                                   "--incident-hours, --cool-down, --external-url: expected "
                                   "--alertmanager beside them");
    if (once && a->alertmanager)
        return tw_bad_use(
            "serve", "%s tells nobody of incidents: expected no --alertmanager beside it", once);
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
        .pushgateway = a->pushgateway,
        .pushgateway_token_file = a->pushgateway_token_file,
        .pushgateway_ca = a->pushgateway_ca,
        .alertmanager = a->alertmanager,
        .alertmanager_token_file = a->alertmanager_token_file,
        .alertmanager_ca = a->alertmanager_ca,
        .external_url = a->external_url,
        .incident_hours = a->incident_hours == TW_NOT_GIVEN ? INCIDENT_HOURS : a->incident_hours,
        .cool_down_minutes = a->cool_down == TW_NOT_GIVEN ? COOL_DOWN_MINUTES : a->cool_down,
    };
    size_t groups = 0;
    int rc = home ? 0 : TWIN_ENOMEM;
    if (rc == 0 && a->textfile) {
        rc = tw_serve_textfile(&o, a->textfile, &err);
        if (rc != 0)
            rc = tw_trouble(&err, "serve: no metrics were written");
    } else if (rc == 0 && a->pushgateway) {
        rc = tw_serve_push(&o, &groups, &err);
        if (rc != 0)
            rc = tw_trouble(&err, "serve: results of %zu project%s were pushed, then", groups,
                            tw_plural_s(groups));
        else
            tw_say("results of CI of %zu project%s pushed", groups, tw_plural_s(groups));
    } else if (rc == 0) {
        rc = tw_serve(&o, &tw_terminal, &err);
        if (rc != 0)
            rc = tw_trouble(&err, "serve: cannot serve");
    } else {
        rc = tw_trouble(NULL, "serve: out of memory");
    }
    tw_free(home);
    tw_free(given);
    return rc;
}

static int run(int argc, char **argv)
{
    struct serve_args a = {.incident_hours = TW_NOT_GIVEN, .cool_down = TW_NOT_GIVEN};
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
    "With --alertmanager each run that diverged is an alert of its own, until the job agrees again "
    "or its time is over. Which there are follows from the ledger, so a server that was started "
    "again tells the same ones.\n\n"
    "`twinrun slo --rules DIR` writes the alert rules that go with the metrics, and "
    "--alertmanager-config DIR what routes both to people.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
