/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA GPUs by their management library, which is loaded here and nowhere else: never in the job,
 * and never linked. Prototypes are from its public reference (nvml.h); functions that an older
 * driver lacks are left out, as are answers that it refuses.
 */
#include "provenance_inside.h"

#include "base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* More GPUs, and more links of one, than any machine has; texts of the library are shorter than
 * TEXT. */
enum { GPUS_MAX = 64, LINKS_MAX = 18, TEXT = 96 };

/* NVML's handle of a GPU, and its structs nvmlMemory_t and nvmlPciInfo_t, member by member. */
typedef void *device;
struct memory {
    unsigned long long total, free, used;
};
struct pci {
    char old_bus[16];
    unsigned domain, bus, device_number, ids, subsystem;
    char bus_id[32];
};

/* What is asked with (device, unsigned *), and with (device, char *, unsigned). */
static const char *const numbers[][2] = {{"nvmlDeviceGetPowerManagementLimit", "power_limit_mw"},
                                         {"nvmlDeviceGetPersistenceMode", "persistence"},
                                         {"nvmlDeviceGetComputeMode", "compute_mode"},
                                         {"nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"},
                                         {"nvmlDeviceGetMaxPcieLinkGeneration", "pcie_generation"},
                                         {"nvmlDeviceGetNumGpuCores", "cores"}};
static const char *const texts[][2] = {{"nvmlDeviceGetName", "name"},
                                       {"nvmlDeviceGetUUID", "uuid"},
                                       {"nvmlDeviceGetVbiosVersion", "vbios"},
                                       {"nvmlDeviceGetInforomImageVersion", "inforom"}};
static const char *const clocks[] = {"graphics", "sm", "memory", "video"};

/* What names the GPU. Each answer that comes is put into o. */
static void gpu_text(void *lib, device d, json_t *o)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int (*f)(device, char *, unsigned) = (int (*)(device, char *, unsigned))dlsym(lib,
                                                                                      texts[i][0]);
        char text[TEXT] = "";
        if (f && f(d, text, sizeof text) == 0)
            tw_pv_put(o, texts[i][1], tw_json_bytes(text));
    }
}

/* Limits, modes and clocks. Clock number i of NVML is clocks[i]. */
static void gpu_numbers(void *lib, device d, json_t *o)
{
    unsigned v = 0, w = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int (*f)(device, unsigned *) = (int (*)(device, unsigned *))dlsym(lib, numbers[i][0]);
        if (f && f(d, &v) == 0)
            tw_pv_put(o, numbers[i][1], json_integer(v));
    }
    int (*max_clock)(device, int, unsigned *) = (int (*)(device, int, unsigned *))dlsym(
        lib, "nvmlDeviceGetMaxClockInfo");
    int (*set_clock)(device, int, unsigned *) = (int (*)(device, int, unsigned *))dlsym(
        lib, "nvmlDeviceGetApplicationsClock");
    json_t *max = json_object(), *set = json_object();
    for (int i = 0; i < 4; i++) {
        if (max_clock && max_clock(d, i, &v) == 0)
            tw_pv_put(max, clocks[i], json_integer(v));
        if (set_clock && set_clock(d, i, &v) == 0)
            tw_pv_put(set, clocks[i], json_integer(v));
    }
    tw_pv_put(o, "max_clocks_mhz", max);
    tw_pv_put(o, "application_clocks_mhz", set);
    int (*capability)(device, int *, int *) = (int (*)(device, int *, int *))dlsym(
        lib, "nvmlDeviceGetCudaComputeCapability");
    int major, minor;
    if (capability && capability(d, &major, &minor) == 0)
        tw_pv_put(o, "compute_capability", json_sprintf("%d.%d", major, minor));
    static const char *const modes[][2] = {{"nvmlDeviceGetEccMode", "ecc"},
                                           {"nvmlDeviceGetMigMode", "mig"}};
    for (size_t i = 0; i < 2; i++) {
        int (*f)(device, unsigned *,
                 unsigned *) = (int (*)(device, unsigned *, unsigned *))dlsym(lib, modes[i][0]);
        if (f && f(d, &v, &w) == 0)
            tw_pv_put(o, modes[i][1], json_boolean(v));
    }
}

/* Memory, address and links. A newer library may write a longer struct than ours into p, hence the
 * room behind it. */
static void gpu_place(void *lib, device d, json_t *o)
{
    int (*memory)(device, struct memory *) = (int (*)(device, struct memory *))dlsym(
        lib, "nvmlDeviceGetMemoryInfo");
    int (*pci)(device,
               struct pci *) = (int (*)(device, struct pci *))dlsym(lib, "nvmlDeviceGetPciInfo_v3");
    int (*link)(device, unsigned, unsigned *) = (int (*)(device, unsigned, unsigned *))dlsym(
        lib, "nvmlDeviceGetNvLinkState");
    struct memory m = {0};
    union {
        struct pci pci;
        char room[512];
    } p = {0};
    unsigned active = 0, up = 0;
    if (memory && memory(d, &m) == 0)
        tw_pv_put(o, "memory_bytes", json_integer((json_int_t)m.total));
    if (pci && pci(d, &p.pci) == 0)
        tw_pv_put(o, "pci", json_stringn(p.pci.bus_id, strnlen(p.pci.bus_id, sizeof p.pci.bus_id)));
    for (unsigned i = 0; link && i < LINKS_MAX; i++)
        if (link(d, i, &active) == 0)
            up += active == 1;
    tw_pv_put(o, "nvlinks_up", json_integer(up));
}

/* The nearest common ancestor of two GPUs, by NVML's number. */
static const char *ancestor_word(int level)
{
    switch (level) {
    case 0: return "board";
    case 10: return "switch";
    case 20: return "switches";
    case 30: return "host bridge";
    case 40: return "node";
    default: return "system";
    }
}

/* How two GPUs reach each other, by the nearest common ancestor. */
static json_t *topology(void *lib, device *d, unsigned n)
{
    int (*ancestor)(device, device, int *) = (int (*)(device, device, int *))dlsym(
        lib, "nvmlDeviceGetTopologyCommonAncestor");
    json_t *rows = json_array();
    for (unsigned i = 0; ancestor && i < n; i++) {
        json_t *row = json_array();
        for (unsigned k = 0; k < n; k++) {
            int level = 0;
            if (i == k)
                tw_pv_add(row, json_string("self"));
            else if (ancestor(d[i], d[k], &level) != 0)
                tw_pv_add(row, json_string("?"));
            else
                tw_pv_add(row, json_string(ancestor_word(level)));
        }
        tw_pv_add(rows, row);
    }
    return rows;
}

/* All GPUs, in NVML's order. One that does not answer is an empty object, so that the number of
 * GPUs is right; how they reach each other is asked only when all answered. */
static json_t *list_gpus(void *lib, json_t *o)
{
    int (*count)(unsigned *) = (int (*)(unsigned *))dlsym(lib, "nvmlDeviceGetCount_v2");
    int (*at)(unsigned,
              device *) = (int (*)(unsigned, device *))dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
    device d[GPUS_MAX] = {NULL};
    unsigned n = 0, found = 0;
    json_t *gpus = json_array();
    if (count && at && count(&n) == 0)
        for (unsigned i = 0; i < n && i < GPUS_MAX; i++) {
            json_t *gpu = json_object();
            if (at(i, &d[i]) == 0) {
                gpu_text(lib, d[i], gpu);
                gpu_numbers(lib, d[i], gpu);
                gpu_place(lib, d[i], gpu);
                found++;
            }
            tw_pv_add(gpus, gpu);
        }
    if (found > 1 && found == n)
        tw_pv_put(o, "topology", topology(lib, d, n));
    return gpus;
}

/* Without a driver the list is empty and "why" says so: no GPU here is an answer, too. */
json_t *tw_pv_accelerators(struct tw_collector *c)
{
    json_t *o = json_object();
    (void)c;
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(void) = lib ? (int (*)(void))dlsym(lib, "nvmlInit_v2") : NULL;
    int (*system_text[2])(char *, unsigned) = {
        lib ? (int (*)(char *, unsigned))dlsym(lib, "nvmlSystemGetDriverVersion") : NULL,
        lib ? (int (*)(char *, unsigned))dlsym(lib, "nvmlSystemGetNVMLVersion") : NULL};
    int (*cuda)(int *) = lib ? (int (*)(int *))dlsym(lib, "nvmlSystemGetCudaDriverVersion_v2")
                             : NULL;
    int rc = init ? init() : -1, version = 0;
    if (!lib) {
        tw_pv_put(o, "why",
                  json_string("libnvidia-ml.so.1 is not installed: no NVIDIA driver here"));
    } else if (rc != 0) {
        tw_pv_put(o, "why", json_sprintf("the NVIDIA driver does not answer (nvmlInit: %d)", rc));
    } else {
        static const char *const names[] = {"driver", "nvml"};
        for (int i = 0; i < 2; i++) {
            char text[TEXT] = "";
            if (system_text[i] && system_text[i](text, sizeof text) == 0)
                tw_pv_put(o, names[i], tw_json_bytes(text));
        }
        if (cuda && cuda(&version) == 0)
            tw_pv_put(o, "cuda_driver", json_sprintf("%d.%d", version / 1000, version % 1000 / 10));
        tw_pv_put(o, "gpus", list_gpus(lib, o));
    }
    if (!json_object_get(o, "gpus"))
        tw_pv_put(o, "gpus", json_array());
    /* the process ends soon: the library is not shut down, which can take longer than asking it */
    return o;
}
