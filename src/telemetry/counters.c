/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names, keys and units of the counters, and which of them are levels. Reports and JSON take
 * them from here; read.c and dips.c ask whether a counter is a level, causes.c whether it counts
 * seconds.
 */
#include "src/telemetry/telemetry.h"

#include <stddef.h>

/* Every counter needs a row: one without it would have NULL for its texts. */
static const struct twin_counter_info info[TWIN_COUNTERS] = {
    [TWIN_COUNTER_CPU] = {"processor time of the process", "cpu_s", "s", false},
    [TWIN_COUNTER_WAIT] = {"run-queue wait", "wait_s", "s", false},
    [TWIN_COUNTER_RAN] = {"processor time of the step's thread", "ran_s", "s", false},
    [TWIN_COUNTER_FAULTS] = {"page faults", "faults", "", false},
    [TWIN_COUNTER_MAJOR_FAULTS] = {"page faults from disk", "major_faults", "", false},
    [TWIN_COUNTER_PREEMPTED] = {"preemptions", "preempted", "", false},
    [TWIN_COUNTER_WAITS] = {"voluntary waits", "waits", "", false},
    [TWIN_COUNTER_RSS] = {"memory of the process", "rss_bytes", "bytes", true},
    [TWIN_COUNTER_READ] = {"disk reads of the process", "read_bytes", "bytes", false},
    [TWIN_COUNTER_WRITTEN] = {"disk writes of the process", "written_bytes", "bytes", false},
    [TWIN_COUNTER_BUSY] = {"processor time of the machine", "busy_s", "s", false},
    [TWIN_COUNTER_OTHERS] = {"processor time of other processes", "others_s", "s", false},
    [TWIN_COUNTER_IOWAIT] = {"waiting for disks", "iowait_s", "s", false},
    [TWIN_COUNTER_STEAL] = {"time stolen by the hypervisor", "steal_s", "s", false},
    [TWIN_COUNTER_THROTTLED] = {"time throttled by the CPU quota", "throttled_s", "s", false},
    [TWIN_COUNTER_CPU_STALL] = {"processor pressure", "cpu_stall_s", "s", false},
    [TWIN_COUNTER_IO_STALL] = {"disk pressure", "io_stall_s", "s", false},
    [TWIN_COUNTER_MEMORY_STALL] = {"memory pressure", "memory_stall_s", "s", false},
    [TWIN_COUNTER_NET] = {"network traffic", "net_bytes", "bytes", false},
    [TWIN_COUNTER_LOOPBACK] = {"loopback traffic", "loopback_bytes", "bytes", false},
    [TWIN_COUNTER_RETRANSMITS] = {"TCP retransmissions", "retransmits", "", false},
    [TWIN_COUNTER_DISK] = {"disk traffic", "disk_bytes", "bytes", false},
    [TWIN_COUNTER_THERMAL] = {"thermal throttling of processors", "thermal_events", "", false},
    [TWIN_COUNTER_CLOCK] = {"processor clock", "clock_hz", "Hz", true},
    [TWIN_COUNTER_RUNNABLE] = {"runnable tasks", "runnable", "", true},
    [TWIN_COUNTER_AVAILABLE] = {"available memory", "available_bytes", "bytes", true},
    [TWIN_COUNTER_PROCESSES] = {"processes of the job", "job_processes", "", true},
    [TWIN_COUNTER_THREADS] = {"threads of the job", "job_threads", "", true},
    [TWIN_COUNTER_GPU_BUSY] = {"GPU utilisation", "gpu_busy", "", true},
    [TWIN_COUNTER_GPU_CLOCK] = {"GPU clock", "gpu_clock_hz", "Hz", true},
    [TWIN_COUNTER_GPU_POWER] = {"GPU power", "gpu_power_w", "W", true},
    [TWIN_COUNTER_GPU_HEAT] = {"GPU temperature", "gpu_celsius", "C", true},
    [TWIN_COUNTER_GPU_SLOWED] = {"GPU held below its clock by heat or power", "gpu_slowed", "",
                                 true},
};

const struct twin_counter_info *twin_counter_info(enum twin_counter c)
{
    return (unsigned)c < TWIN_COUNTERS ? &info[c] : NULL;
}
