/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What watching needs of this machine, tried out: parts, home, kernel, devices, scripts. Nothing of
 * it stays behind.
 */
#include "doctor.h"

#include "capture.h"
#include "doctor_inside.h"
#include "habits.h"

#include "base.h"

#include "src/launch/run.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <twin/fingerprint.h>
#include <unistd.h>

/* Less room than this is too little for long runs. */
static const uint64_t ENOUGH_BYTES = (uint64_t)1 << 30;
enum { SCRIPT_BYTES = 16 << 20 };

const char *tw_doctor_state_name(enum tw_doctor_state state)
{
    assert((unsigned)state <= TW_DOCTOR_ABSENT);
    static const char *const names[] = {[TW_DOCTOR_OK] = "ok",
                                        [TW_DOCTOR_LIMITED] = "limited",
                                        [TW_DOCTOR_NO] = "no",
                                        [TW_DOCTOR_ABSENT] = "absent"};
    return names[state];
}

void tw_doctor_tell(const struct tw_doctor *d, enum tw_doctor_state state, const char *id,
                    const char *format, ...)
{
    struct tw_buf b = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&b, format, ap);
    va_end(ap);
    char *text = tw_buf_steal(&b);
    d->tell(d->user, state, id, text ? text : "");
    tw_free(text);
}

/* ---- our own parts */

static void tell_parts(const struct tw_doctor *d, const struct twin_parts *parts,
                       const struct twin_error *trouble)
{
    if (trouble->code)
        tw_doctor_tell(d, TW_DOCTOR_NO, "agent", "%s", trouble->message);
    else if (!parts->agent_library)
        tw_doctor_tell(d, TW_DOCTOR_NO, "agent",
                       "libtwinrun.so was not found beside the program or in its library folder: "
                       "install twinrun again");
    else
        tw_doctor_tell(d, TW_DOCTOR_OK, "agent", "%s", parts->agent_library);
    if (parts->python_dir && parts->site_dir)
        tw_doctor_tell(d, TW_DOCTOR_OK, "hooks", "%s", parts->python_dir);
    else
        tw_doctor_tell(d, TW_DOCTOR_NO, "hooks",
                       "the Python half (package twinrun) was not found: PyTorch jobs cannot be "
                       "watched; install twinrun again");
}

void tw_doctor_parts(const struct tw_doctor *d)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_parts parts = {0};
    twin_parts_find(&parts, &err);
    tell_parts(d, &parts, &err);
    twin_parts_free(&parts);
    tw_doctor_tell(d, TW_DOCTOR_OK, "fingerprint", "instruction set %s", twin_fingerprint_isa());
    const char *preload = getenv("LD_PRELOAD");
    if (preload && *preload)
        tw_doctor_tell(
            d, TW_DOCTOR_LIMITED, "preload",
            "LD_PRELOAD is set already (%s): it stays, the agent goes before it; if a job "
            "behaves oddly, try without",
            preload);
}

/* ---- where the runs go */

void tw_doctor_home(const struct tw_doctor *d, const char *home)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct statvfs fs;
    char size[16];
    const bool existed = access(home, F_OK) == 0;
    char *probe = tw_path_join(home, ".doctor");
    if (!probe || tw_mkdirs(home, &err) != 0 || tw_write_file_atomic(probe, "x", 1, &err) != 0) {
        tw_doctor_tell(d, TW_DOCTOR_NO, "home",
                       "%s cannot be written (%s): choose another one with --home or TWINRUN_HOME",
                       home, err.message);
    } else if (unlink(probe) == 0 && statvfs(home, &fs) == 0) {
        const uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        const bool little = bytes < ENOUGH_BYTES;
        tw_doctor_tell(d, little ? TW_DOCTOR_LIMITED : TW_DOCTOR_OK, "home", "%s, %s free%s", home,
                       tw_human_bytes(bytes, size), little ? ": too little for long runs" : "");
    }
    if (!existed)
        rmdir(home); /* looking around leaves nothing behind */
    tw_free(probe);
}

/* ---- the kernel, other programs, devices */

/*
 * Pinning the address layout needs personality(2), which a container's seccomp filter may refuse.
 */
void tw_doctor_kernel(const struct tw_doctor *d)
{
    int old = personality(0xffffffff);
    pid_t pid = old >= 0 ? fork() : -1;
    if (pid == 0)
        _exit(personality((unsigned long)old | ADDR_NO_RANDOMIZE) < 0 ? 1 : 0);
    int status = -1;
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    if (status == 0)
        tw_doctor_tell(d, TW_DOCTOR_OK, "aslr", "the address layout can be pinned here");
    else
        tw_doctor_tell(
            d, TW_DOCTOR_LIMITED, "aslr",
            "the address layout cannot be pinned here (a container's seccomp filter refuses "
            "personality): watching does not need it");
    tw_doctor_tell(d, TW_DOCTOR_OK, "ptrace", "not needed");
}

void tw_doctor_machine(const struct tw_doctor *d)
{
    if (tw_in_path("mpirun") || tw_in_path("mpiexec"))
        tw_doctor_tell(
            d, TW_DOCTOR_LIMITED, "mpi",
            "mpirun found: what each local rank sends and receives is recorded, and in which "
            "order; "
            "one-sided calls are not, and remote ranks need LD_PRELOAD and the TWINRUN_ variables "
            "passed on (-x)");
    else
        tw_doctor_tell(d, TW_DOCTOR_ABSENT, "mpi", "no mpirun in PATH");
    if (access("/dev/nvidiactl", F_OK) == 0)
        tw_doctor_tell(
            d, TW_DOCTOR_LIMITED, "cuda",
            "NVIDIA device found: tensors are fingerprinted there (copied to the host by a "
            "build without nvcc), kernels are not seen one by one");
    else
        tw_doctor_tell(d, TW_DOCTOR_ABSENT, "cuda", "no NVIDIA device");
}

/* ---- scripts */

void tw_doctor_script(const struct tw_doctor *d, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_habit *found = NULL;
    char *source = NULL;
    size_t bytes = 0, count = 0;
    if (tw_read_file(path, SCRIPT_BYTES, &source, &bytes, &err) != 0 ||
        tw_habits_scan(source, &found, &count, &err) != 0)
        tw_doctor_tell(d, TW_DOCTOR_NO, "script", "%s: %s", path, err.message);
    else if (count == 0)
        tw_doctor_tell(d, TW_DOCTOR_OK, "script",
                       "%s: none of the habits that only look like seeding", path);
    for (size_t i = 0; i < count; i++) {
        if (found[i].earlier)
            tw_doctor_tell(d, TW_DOCTOR_LIMITED, found[i].id, "%s:%zu (after line %zu): %s", path,
                           found[i].line, found[i].earlier, found[i].text);
        else
            tw_doctor_tell(d, TW_DOCTOR_LIMITED, found[i].id, "%s:%zu: %s", path, found[i].line,
                           found[i].text);
    }
    tw_free(found);
    tw_free(source);
}
