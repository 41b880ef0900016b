/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_INCIDENTS_H
#define TW_SERVE_INCIDENTS_H
/*
 * Incidents: runs that diverged, and repeats of which it cannot be said, as alerts of an
 * Alertmanager.
 *
 * Which incidents there are follows from the ledger and the time alone, so a server that is started
 * again finds the same ones. Each rule below looks back by a fixed time and no further: what an
 * incident is does not depend on when somebody looked. An incident
 *   begins  with the first comparison in lasts_ns that says that this run differs; an unproven one
 *           with the first comparison of repeats that could not tell
 *   pages   where a run differs, that compared repeats of one job, and no other run of this project
 *           and command diverged in the cool_down_ns before; else it is a ticket
 *   ends    when a later comparison of repeats of this project and command agrees, all runs of
 *           which began after the incident; else lasts_ns after its beginning
 */
#include "src/slo/slo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct tw_front;
struct tw_serve_options;

/* Incidents beyond the newest ones are left out, and counted. */
enum { SERVE_INCIDENTS = 1000 };

struct serve_incident_rules {
    int64_t lasts_ns;
    int64_t cool_down_ns; /* at most lasts_ns; 0: every run may page */
};
/* Texts are printable, cut and ours. */
struct serve_incident {
    char run[33], reference[33]; /* reference: "" where the comparison has no other run */
    char command_id[17];         /* the same for runs of the same command */
    char *project;               /* "unknown": of this run it is not known */
    char *layer, *verb, *command, *first, *host, *home;
    char *cause; /* that isolate found for this command of this project since; "" */
    size_t
        others; /* runs of the comparison beside these two, where none is said to differ; else 0 */
    bool repeats;  /* the comparison is of repeats of one job */
    bool unproven; /* nothing is said to differ: evidence is missing */
    bool page;
    bool agreed; /* it ended since the job agreed again */
    int64_t start_ns, end_ns;
};
struct serve_incidents {
    struct serve_incident *item; /* the oldest first */
    size_t count, left_out;
};
/* Those that began in the lasts_ns before now_ns. TWIN_ENOMEM. serve_incidents_free in any case. */
int serve_incidents_find(const struct tw_slo_history *h, const struct serve_incident_rules *rules,
                         int64_t now_ns, struct serve_incidents *out);
/* TWIN_ENOMEM. serve_incidents_free in any case. */
int serve_incidents_copy(const struct serve_incidents *from, struct serve_incidents *out);
void serve_incidents_free(struct serve_incidents *s);

/* ---- incidents_answer.c */
struct tw_buf;
struct serve_incident_rules serve_incident_rules_of(const struct tw_serve_options *o);
/* Appends twinrun.incidents/1, the newest first, of a snapshot of made_ns; those that are over by
 * now_ns are left out. */
void serve_incidents_answer(const struct serve_incidents *s,
                            const struct serve_incident_rules *rules, int64_t made_ns,
                            int64_t now_ns, struct tw_buf *b);

/* ---- incidents_text.c: what an Alertmanager is sent */
/* Two alerts with the same key are the same one to an Alertmanager: its labels. malloc'ed; NULL: no
 * memory. */
char *serve_incident_key(const struct serve_incident *i);
/* The alerts from..to as the body of a POST; link: of this server, ends in '/'; "": none.
 * malloc'ed; NULL: no memory. */
char *serve_incidents_body(const struct serve_incident *const *list, size_t count, const char *link,
                           int64_t now_ns);

/* ---- incidents_send.c: the thread that tells */
struct serve_teller;
struct serve_workers;
/* It tells what w finds, which has to last longer. TWIN_EINVAL: an address or token file that
 * cannot be used; TWIN_EUNSUPPORTED: no libcurl. */
int serve_teller_start(const struct tw_serve_options *o, const char *link, struct serve_workers *w,
                       struct serve_teller **out, struct twin_error *err);
/* Ends what is being sent, too. */
void serve_teller_stop(struct serve_teller *t);
/* What there is to say on stderr since the last time. False: nothing. */
bool serve_teller_said(struct serve_teller *t, char *out, size_t room);

#endif
