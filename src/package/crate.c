/* SPDX-License-Identifier: Apache-2.0 */
/* What other people's tools read of a package (RO-Crate 1.1 with Process Run Crate 0.5, bag-info),
 * and what a stranger reads first (README.md). All three are made when everything else is packed,
 * since they describe it; twinrun itself reads only Payload-Oxum of them. */
#include "pack.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* A time of the run, after_s seconds behind its beginning, as ISO 8601. */
static void time_stamp(const struct tw_pack *p, double after_s, char out[32])
{
    tw_utc_stamp(p->run->start_realtime_ns + (int64_t)(after_s * 1e9), out);
    if (strlen(out) >= 17)
        out[13] = out[16] = ':';
}

/* The command for readers: words joined by blanks, without quoting. */
static char *command_line(const struct tw_pack *p)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < p->run->argc; i++)
        tw_buf_printf(&b, "%s%s", i ? " " : "", p->run->argv[i]);
    char *safe = b.failed || !b.data ? NULL : tw_printable(b.data, b.len);
    tw_buf_free(&b);
    return safe;
}

/* A reference to another entry of the graph. */
static json_t *ref(const char *id)
{
    return json_pack("{s:s}", "@id", id);
}

/* Only the types that a package's own files have. */
static const char *media_type(const char *path)
{
    if (tw_ends(path, ".json"))
        return "application/json";
    if (tw_ends(path, ".txt") || tw_ends(path, ".diff") || tw_ends(path, ".snapshot"))
        return "text/plain";
    return "application/octet-stream";
}

/* An address in the crate: relative to data/, spaces and such escaped. */
static char *crate_id(const char *path)
{
    struct tw_buf b = {0};
    for (path += strlen("data/"); *path; path++) {
        bool plain = (*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
                     (*path >= '0' && *path <= '9') || strchr("-._~/", *path);
        /* RFC 3986: other bytes as %XX */
        tw_buf_printf(&b, plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
    return tw_buf_steal(&b);
}

/* An entry of the graph for one file, and its reference in the list of parts. */
static void put_file(bool *failed, json_t *graph, json_t *parts, const struct tw_bag_item *x)
{
    char *id = crate_id(x->path), size[24];
    snprintf(size, sizeof size, "%llu", (unsigned long long)x->bytes);
    tw_pk_add(failed, parts, id ? ref(id) : NULL);
    tw_pk_add(failed, graph,
              id ? json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "@id", id, "@type", "File", "name",
                             x->path + 5, "contentSize", size, "encodingFormat",
                             media_type(x->path), "sha256", x->sha256)
                 : NULL);
    tw_free(id);
}

/* Large data sets have more files than a reader of metadata cares for: the set's folder stands for
 * them. */
static bool is_listed(const struct tw_bag_item *x)
{
    return !tw_starts(x->path, "data/data/") || tw_ends(x->path, ".snapshot") ||
           tw_ends(x->path, "/data.json");
}

/* An entry for the folder of each set of data that is embedded. */
static void put_sets(const struct tw_pack *p, bool *failed, json_t *graph, json_t *parts)
{
    json_t *set;
    size_t i;
    json_array_foreach (json_object_get(p->area[TWIN_AREA_DATA], "sets"), i, set) {
        const char *name = tw_pk_text(set, "name"), *contents = tw_pk_text(set, "contents");
        /* only a set that is wholly in the package has a folder to refer to */
        char *id = strcmp(contents, "embedded") == 0 ? tw_printf("data/%s/", name) : NULL;
        if (!id)
            continue;
        tw_pk_add(failed, parts, ref(id));
        tw_pk_add(failed, graph,
                  json_pack("{s:s, s:s, s:s}", "@id", id, "@type", "Dataset", "name", name));
        tw_free(id);
    }
}

/* The graph has the crate itself, its files, the program, and the run as an action that used the
 * configuration and the data and gave run.json. */
char *tw_crate_metadata(const struct tw_pack *p)
{
    bool failed = false;
    char begin[32], end[32];
    size_t n = 0;
    json_t *graph = json_array(), *parts = json_array();
    char *command = command_line(p);
    time_stamp(p, 0, begin);
    time_stamp(p, p->run->wall_s, end);
    /* the entry that says what this file is */
    tw_pk_add(&failed, graph,
              json_pack("{s:s, s:s, s:{s:s}, s:{s:s}}", "@id", "ro-crate-metadata.json", "@type",
                        "CreativeWork", "about", "@id", "./", "conformsTo", "@id",
                        "https://w3id.org/ro/crate/1.1"));
    for (size_t i = 0; i < p->w.count; i++)
        if (is_listed(&p->w.item[i]))
            put_file(&failed, graph, parts, &p->w.item[i]);
    put_sets(p, &failed, graph, parts);
    tw_pk_add(&failed, graph,
              json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s}, s:o, s:{s:s}}", "@id", "./",
                        "@type", "Dataset", "name", "A run that can be repeated", "description",
                        command ? command : "", "datePublished", end, "license",
                        "as stated in the code and the data", "conformsTo", "@id",
                        "https://w3id.org/ro/wfrun/process/0.5", "hasPart", parts, "mentions",
                        "@id", "#run"));
    tw_pk_add(&failed, graph,
              json_pack("{s:s, s:s, s:s, s:s}", "@id", "https://w3id.org/ro/wfrun/process/0.5",
                        "@type", "CreativeWork", "name", "Process Run Crate", "version", "0.5"));
    tw_pk_add(&failed, graph,
              json_pack("{s:s, s:s, s:s}", "@id", "#program", "@type", "SoftwareApplication",
                        "name", p->run->argc ? command : "?"));
    tw_pk_add(&failed, graph,
              json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s}, s:[{s:s},{s:s}], s:[{s:s}]}",
                        "@id", "#run", "@type", "CreateAction", "name", p->run->id, "description",
                        command ? command : "", "startTime", begin, "endTime", end, "instrument",
                        "@id", "#program", "object", "@id", "configuration/configuration.json",
                        "@id", "data/data.json", "result", "@id", "expected/run.json"));
    json_t *crate = json_pack("{s:s, s:o}", "@context", "https://w3id.org/ro/crate/1.1/context",
                              "@graph", graph);
    char *text = failed || !command ? NULL : tw_pk_dump(crate, &n);
    json_decref(crate);
    tw_free(command);
    return text;
}

/* ---- for people */

/* What each area lacks, as a list. */
static void put_missing(const struct tw_pack *p, struct tw_buf *b)
{
    bool any = false;
    for (size_t a = 0; a < TWIN_AREAS; a++)
        any |= json_array_size(json_object_get(p->area[a], "missing")) > 0;
    tw_buf_puts(b, any ? "\n## What is missing\n" : "");
    for (size_t a = 0; a < TWIN_AREAS; a++) {
        json_t *m;
        size_t i;
        json_array_foreach (json_object_get(p->area[a], "missing"), i, m)
            tw_buf_printf(b, "- %s: %s\n", twin_area_name((enum twin_area)a), json_string_value(m));
    }
}

/* Names only the programs and options that this package needs. name: that of the package's
 * folder. */
char *tw_crate_readme(const struct tw_pack *p, const char *name)
{
    struct tw_buf b = {0};
    char begin[32];
    char *command = command_line(p);
    const char *python = tw_pk_text(p->area[TWIN_AREA_ENVIRONMENT], "python");
    bool by_address = false;
    for (size_t i = 0; i < p->w.count; i++)
        by_address |= p->w.item[i].url != NULL;
    time_stamp(p, 0, begin);
    tw_buf_printf(&b, "# A run that you can repeat: %s\n\n", name);
    tw_buf_printf(&b,
                  "On %s this was run:\n\n    %s\n\nThis folder holds what it takes to run it "
                  "again and to see whether the same comes out, bit for bit.\n",
                  begin, command ? command : "?");
    tw_buf_puts(&b, "You need twinrun, git");
    if (python)
        tw_buf_printf(&b, " and Python %s", python);
    tw_buf_printf(&b, "%s.\n\n", by_address ? " and curl" : "");
    tw_buf_puts(&b, "## Two commands\nIn this folder:\n\n    twinrun verify .\n");
    tw_buf_printf(&b, "    twinrun replay .%s%s\n\n", python ? " --environment build" : "",
                  by_address ? " --fetch" : "");
    tw_buf_puts(&b, "The first says whether each file is what it was when the package was made; "
                    "nothing of it is executed. The second runs the program of this package: read\n"
                    "the code first when you do not trust its maker. It makes a folder beside this "
                    "one, with the code as it was");
    tw_buf_puts(&b, python ? ", a fresh virtual environment from the lock list" : "");
    tw_buf_puts(&b, " and the verified data, runs the command there, and compares each "
                    "recorded\nvalue with those in `data/expected`. `twinrun audit .` says what "
                    "the evidence covers and what it does not.\n");
    tw_buf_puts(
        &b,
        "\nWithout twinrun: `sha256sum -c tagmanifest-sha256.txt && sha256sum -c "
        "manifest-sha256.txt` verifies, `git clone data/code/repository.bundle` gives the code,\n"
        "`git apply data/code/changes.diff` (where there is one) its changes, "
        "`data/environment/requirements.txt` goes to pip, `data/configuration/configuration.json` "
        "has the command.\n");
    tw_buf_puts(&b, "\n## What is here\n");
    for (size_t a = 0; a < TWIN_AREAS; a++)
        tw_buf_printf(&b, "- `data/%s`: %s\n", twin_area_name((enum twin_area)a),
                      tw_pk_text(p->area[a], "holds"));
    tw_buf_puts(&b, "- `data/expected`: what was observed: fingerprints of every recorded value, "
                    "what was printed, the record of machine, libraries and packages\n");
    if (p->o->study)
        tw_buf_puts(
            &b, "- `data/study`: a scaling study that this run is one of, with the times of all "
                "its runs; `twinrun scale --from .` draws the curve again and runs nothing\n");
    put_missing(p, &b);
    tw_free(command);
    return tw_buf_steal(&b);
}

/* Bagging-Date is the day of packing, in UTC. */
char *tw_crate_info(const struct tw_pack *p)
{
    char day[32], size[16];
    tw_utc_stamp(tw_realtime_ns(), day);
    /* "2026-11-21T08-00-00Z" up to the day */
    day[10] = '\0';
    return tw_printf(
        "Bag-Software-Agent: twinrun\nBagging-Date: %s\nBag-Size: %s\nExternal-Identifier: "
        "%s\nExternal-Description: A run that can be verified, audited and repeated with twinrun\n"
        "Payload-Oxum: %llu.%llu\n",
        day, tw_human_bytes(p->w.bytes, size), p->run->id, (unsigned long long)p->w.bytes,
        (unsigned long long)p->w.files);
}
