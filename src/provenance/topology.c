/* SPDX-License-Identifier: Apache-2.0 */
/* Packages, caches, cores and NUMA nodes as hwloc sees them, in its XML: `lstopo -i topology.xml`
 * draws it. hwloc is looked for when the record is made. */
#include "provenance_inside.h"

#include "base.h"
#include "sha256.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* hwloc's XML of a large machine has some hundred KiB. */
#define XML_MAX ((int)(64 << 20))

typedef void *topology;

/* hwloc's ABI 15 (2.x): hwloc.h and hwloc/export.h of 2.9. */
struct hwloc {
    void *lib;
    int (*init)(topology *);
    int (*load)(topology);
    int (*export)(topology, char **, int *, unsigned long);
    void (*free_xml)(topology, char *);
    void (*destroy)(topology);
    unsigned (*version)(void);
};

/* Loads hwloc and finds its functions. False: it is not there, or (lib is not NULL) lacks one. */
static bool find_hwloc(struct hwloc *h)
{
    h->lib = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void **at;
    } needed[] = {{"hwloc_topology_init", (void **)&h->init},
                  {"hwloc_topology_load", (void **)&h->load},
                  {"hwloc_topology_export_xmlbuffer", (void **)&h->export},
                  {"hwloc_free_xmlbuffer", (void **)&h->free_xml},
                  {"hwloc_topology_destroy", (void **)&h->destroy},
                  {"hwloc_get_api_version", (void **)&h->version}};
    for (size_t i = 0; h->lib && i < sizeof needed / sizeof needed[0]; i++)
        if (!(*needed[i].at = dlsym(h->lib, needed[i].name)))
            return false;
    return h->lib != NULL;
}

/* Without the lines that name the host and the program that asked: they would make each machine of
 * a pool another one. */
static void drop_names(char *xml)
{
    static const char *const names[] = {"<info name=\"HostName\"", "<info name=\"ProcessName\"",
                                        "<info name=\"LinuxCgroup\""};
    char *to = xml;
    for (char *line = xml, *next; *line; line = next) {
        bool kept = true;
        next = line + strcspn(line, "\n");
        next += *next == '\n';
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            kept &= strncmp(line + strspn(line, " "), names[i], strlen(names[i])) != 0;
        if (kept) {
            memmove(to, line, (size_t)(next - line));
            to += next - line;
        }
    }
    *to = '\0';
}

/* Writes the XML into the run folder and says what it is; NULL: neither could be done. */
static json_t *save_topology(const struct tw_collector *c, const char *xml, size_t bytes,
                             unsigned version)
{
    char hex[65], *path = tw_path_join(c->run->dir, "topology.xml");
    json_t *o = NULL;
    if (path && tw_sha256_of(xml, bytes, hex) &&
        tw_write_file_atomic(path, xml, bytes, NULL) == 0) {
        o = json_pack("{s:s, s:s, s:o}", "file", "topology.xml", "sha256", hex, "hwloc",
                      json_sprintf("%u.%u.%u", version >> 16, version >> 8 & 255, version & 255));
    }
    tw_free(path);
    return o;
}

/* The digest is over the text without names, so that like machines have like digests. */
json_t *tw_pv_topology(const struct tw_collector *c)
{
    struct hwloc h = {0};
    topology t = NULL;
    char *xml = NULL;
    int bytes = 0;
    if (!find_hwloc(&h))
        return json_pack("{s:s}", "why",
                         h.lib ? "libhwloc.so.15 lacks a function"
                               : "libhwloc.so.15 is not installed (Debian: libhwloc15)");
    json_t *o = NULL;
    if (h.init(&t) == 0) {
        if (h.load(t) == 0 && h.export(t, &xml, &bytes, 0) == 0 && bytes > 0 && bytes < XML_MAX) {
            char *copy = tw_strndup(xml, (size_t)bytes);
            if (copy) {
                drop_names(copy);
                o = save_topology(c, copy, strlen(copy), h.version());
            }
            tw_free(copy);
            h.free_xml(t, xml);
        }
        h.destroy(t);
    }
    return o ? o : json_pack("{s:s}", "why", "hwloc did not say");
}
