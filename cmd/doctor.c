/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun doctor: what can be captured here and what not, and why. */
#include "capture.h"
#include "habits.h"
#include "json.h"
#include "options.h"
#include "runs.h"
#include "say.h"

#include "base.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <twin/fingerprint.h>
#include <unistd.h>

struct doctor_args {
    const char *home, *python;
    bool json;
};

#define FIELD(f) offsetof(struct doctor_args, f)

static const struct tw_option options[] = {
    {"python", 'p', TW_OPT_FILE, "PYTHON", NULL, "Subject",
     "the interpreter that the job uses; python3 or python of PATH unless given", FIELD(python)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Subject", "folder that will hold the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] [SCRIPT...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "jobs can be watched here, perhaps with limits"},
    {"1", "something that watching needs is missing; each \"no\" line says what to do"},
    {"2", "trouble: bad use"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun doctor", "look around"},
    {"twinrun doctor --python .venv/bin/python train.py",
     "also look into a script for habits that only look like seeding"},
    {NULL, NULL},
};

enum state { OK, LIMITED, NO, ABSENT };
static const char *const state_names[] = {"ok", "limited", "no", "absent"};

struct report {
    bool json;
    json_t *checks;
    bool failed;
};

static void say_check(struct report *r, enum state state, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say_check(struct report *r, enum state state, const char *id, const char *format, ...)
{
    struct tw_buf b = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&b, format, ap);
    va_end(ap);
    char *text = tw_buf_steal(&b);
    r->failed |= state == NO;
    if (r->json)
        json_array_append_new(r->checks, json_pack("{s:s, s:s, s:o}", "id", id, "state",
                                                   state_names[state], "text", tw_json_text(text)));
    else
        tw_put("%-8s %-12s %s\n", state_names[state], id, text ? text : "");
    fflush(stdout); /* some checks take seconds */
    tw_free(text);
}

/* ---- our own parts, the machine, the home */

static void check_parts(struct report *r, struct twin_parts *parts)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_parts_find(parts, &err) != 0)
        say_check(r, NO, "agent", "%s", err.message);
    else if (!parts->agent_library)
        say_check(r, NO, "agent",
                  "libtwinrun.so was not found beside the program or in its library folder: "
                  "install twinrun again");
    else
        say_check(r, OK, "agent", "%s", parts->agent_library);
    if (parts->python_dir && parts->site_dir)
        say_check(r, OK, "hooks", "%s", parts->python_dir);
    else
        say_check(r, NO, "hooks",
                  "the Python half (package twinrun) was not found: PyTorch jobs cannot be "
                  "watched; install twinrun again");
    say_check(r, OK, "fingerprint", "instruction set %s", twin_fingerprint_isa());
    const char *preload = getenv("LD_PRELOAD");
    if (preload && *preload)
        say_check(r, LIMITED, "preload",
                  "LD_PRELOAD is set already (%s): it stays, the agent goes before it; if a job "
                  "behaves oddly, try without",
                  preload);
}

static void check_home(struct report *r, const char *home)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct statvfs fs;
    char size[16];
    bool existed = access(home, F_OK) == 0;
    char *probe = tw_path_join(home, ".doctor");
    if (!probe || tw_mkdirs(home, &err) != 0 || tw_write_file_atomic(probe, "x", 1, &err) != 0) {
        say_check(r, NO, "home",
                  "%s cannot be written (%s): choose another one with --home or TWINRUN_HOME", home,
                  err.message);
    } else if (unlink(probe) == 0 && statvfs(home, &fs) == 0) {
        uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        say_check(r, bytes < (uint64_t)1 << 30 ? LIMITED : OK, "home", "%s, %s free%s", home,
                  tw_human_bytes(bytes, size),
                  bytes < (uint64_t)1 << 30 ? ": too little for long runs" : "");
    }
    if (!existed)
        rmdir(home); /* looking around leaves nothing behind */
    tw_free(probe);
}

/*
 * Pinning the address layout needs personality(2), which a container's seccomp filter may refuse.
 */
static void check_layout(struct report *r)
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
        say_check(r, OK, "aslr", "the address layout can be pinned here");
    else
        say_check(r, LIMITED, "aslr",
                  "the address layout cannot be pinned here (a container's seccomp filter refuses "
                  "personality): watching does not need it");
    say_check(r, OK, "ptrace", "not needed");
}

static void check_machines(struct report *r)
{
    if (tw_in_path("mpirun") || tw_in_path("mpiexec"))
        say_check(r, LIMITED, "mpi",
                  "mpirun found: each local rank is recorded; message order is not, and remote "
                  "ranks need the TWINRUN_ variables passed on (-x)");
    else
        say_check(r, ABSENT, "mpi", "no mpirun in PATH");
    if (access("/dev/nvidiactl", F_OK) == 0)
        say_check(r, LIMITED, "cuda",
                  "NVIDIA device found: tensors are fingerprinted there (copied to the host by a "
                  "build without nvcc), kernels are not seen one by one");
    else
        say_check(r, ABSENT, "cuda", "no NVIDIA device");
}

/* ---- Python */

static const char probe_script[] =
    "import json, sys\n"
    "d = {'version': '.'.join(map(str, sys.version_info[:3])), 'executable': sys.executable, "
    "'torch': None, 'missing': []}\n"
    "try:\n"
    "    import numpy\n"
    "    d['numpy'] = numpy.__version__\n"
    "except BaseException as e:\n"
    "    d['numpy'] = None\n"
    "try:\n"
    "    import torch\n"
    "    d['torch'] = torch.__version__\n"
    "    d['cuda'] = bool(torch.cuda.is_available())\n"
    "    import torch.optim.optimizer, torch.nn.modules.module\n"
    "    for name, owner in (('register_optimizer_step_pre_hook', torch.optim.optimizer),\n"
    "                        ('register_optimizer_step_post_hook', torch.optim.optimizer),\n"
    "                        ('register_module_forward_hook', torch.nn.modules.module),\n"
    "                        ('register_post_accumulate_grad_hook', torch.Tensor)):\n"
    "        if not hasattr(owner, name):\n"
    "            d['missing'].append(name)\n"
    "    try:\n"
    "        import torch.utils._python_dispatch\n"
    "    except Exception:\n"
    "        d['missing'].append('TorchDispatchMode')\n"
    "except ImportError as e:\n"
    "    d['why'] = str(e)\n"
    "except BaseException as e:\n"
    "    d['why'] = type(e).__name__ + ': ' + str(e)\n"
    "print(json.dumps(d))\n";

static const char *what_is_lost(const char *hook)
{
    static const struct tw_pair rows[] = {
        {"register_optimizer_step_pre_hook", "gradients as the optimizer sees them"},
        {"register_optimizer_step_post_hook", "step ends, weights and optimizer state"},
        {"register_module_forward_hook", "activations"},
        {"register_post_accumulate_grad_hook", "local gradients before they are reduced"},
        {"TorchDispatchMode", "single operations (zoom)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].left, hook) == 0)
            return rows[i].right;
    return hook;
}

static void check_torch(struct report *r, const json_t *d)
{
    const char *torch = json_string_value(json_object_get(d, "torch"));
    const char *why = json_string_value(json_object_get(d, "why"));
    const json_t *missing = json_object_get(d, "missing");
    if (!torch) {
        say_check(r, ABSENT, "torch",
                  "not in this Python (%s): its jobs are watched by twinrun.record() and by what "
                  "they print and write",
                  why ? why : "no reason given");
        return;
    }
    if (json_array_size(missing) == 0) {
        say_check(r, OK, "torch", "%s, all hooks available%s", torch,
                  json_is_true(json_object_get(d, "cuda")) ? ", CUDA usable" : "");
        return;
    }
    struct tw_buf b = {0};
    for (size_t i = 0; i < json_array_size(missing); i++)
        tw_buf_printf(&b, "%s%s", i ? "; " : "",
                      what_is_lost(json_string_value(json_array_get(missing, i))));
    char *list = tw_buf_steal(&b);
    say_check(r, LIMITED, "torch", "%s is too old for some hooks, not seen: %s", torch,
              list ? list : "");
    tw_free(list);
}

/* What the run says of an agent that did not speak. */
static const char *why_silent(const struct twin_run *run)
{
    if (run->process_count && run->processes[0].why)
        return run->processes[0].why;
    return run->note_count ? run->notes[0] : "no reason known";
}

/* The proof is a run: does the agent speak from inside this interpreter? */
static void check_arming(struct report *r, const char *python)
{
    char folder[] = "/tmp/twinrun-doctor-XXXXXX";
    char *argv[] = {(char *)python, (char *)"-c", (char *)"pass", NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run = NULL;
    if (!mkdtemp(folder)) {
        say_check(r, LIMITED, "arming", "not tried: cannot make a folder in /tmp: %s",
                  strerror(errno));
        return;
    }
    struct twin_launch_options o = {.argv = argv,
                                    .home = folder,
                                    .level = TWIN_LEVEL_TENSORS,
                                    .agents = true,
                                    .window_last = UINT32_MAX};
    if (twin_launch(&o, &run, &err) != 0)
        say_check(r, NO, "arming", "a trial run failed: %s", err.message);
    else if (run->process_count && run->processes[0].armed)
        say_check(r, OK, "arming", "the agent speaks from inside %s (loaded in %.0f ms)", python,
                  run->agent_load_s * 1e3);
    else
        say_check(r, NO, "arming", "the agent stays silent inside %s: %s", python, why_silent(run));
    twin_run_free(run);
    tw_remove_tree(folder, NULL, NULL);
}

static void check_python(struct report *r, const char *given)
{
    char *python = tw_find_python(given), *out = NULL;
    char *argv[] = {python, (char *)"-c", (char *)probe_script, NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    int status = 0;
    if (!python || tw_capture(argv, 60, &out, &status, &err) != 0) {
        say_check(r, given ? NO : ABSENT, "python", "%s%s", err.message,
                  given ? "" : "; name the job's interpreter with --python");
        tw_free(python);
        return;
    }
    /* a noisy sitecustomize may print before us: the answer is the last line */
    const char *line = out;
    for (const char *p = out; (p = strchr(p, '\n')) && p[1]; p++)
        line = p + 1;
    json_t *d = json_loads(line, 0, NULL);
    if (!json_is_object(d)) {
        say_check(r, NO, "python",
                  "%s ran the probe and gave no answer (exit status %d): is it a Python 3?", python,
                  WEXITSTATUS(status));
    } else {
        const char *version = json_string_value(json_object_get(d, "version"));
        const char *executable = json_string_value(json_object_get(d, "executable"));
        const char *numpy = json_string_value(json_object_get(d, "numpy"));
        unsigned major = 0, minor = 0;
        bool known = version && sscanf(version, "%u.%u", &major, &minor) == 2 && major == 3 &&
                     minor >= 8;
        say_check(r, known ? OK : LIMITED, "python", "%s, %s%s", version ? version : "?",
                  executable ? executable : python, known ? "" : ": supported are 3.8 and later");
        say_check(r, numpy ? OK : ABSENT, "numpy", "%s", numpy ? numpy : "not in this Python");
        check_torch(r, d);
        check_arming(r, python);
    }
    json_decref(d);
    const char *seed = getenv("PYTHONHASHSEED");
    if (seed && *seed)
        say_check(r, OK, "hash seed",
                  "PYTHONHASHSEED=%s in this shell: sets of strings keep their order in every run",
                  seed);
    tw_free(out);
    tw_free(python);
}

/* ---- scripts */

static void check_script(struct report *r, const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_habit *found = NULL;
    char *source = NULL;
    size_t bytes = 0, count = 0;
    if (tw_read_file(path, 16u << 20, &source, &bytes, &err) != 0 ||
        tw_habits_scan(source, &found, &count, &err) != 0)
        say_check(r, NO, "script", "%s: %s", path, err.message);
    else if (count == 0)
        say_check(r, OK, "script", "%s: none of the habits that only look like seeding", path);
    for (size_t i = 0; i < count; i++) {
        if (found[i].earlier)
            say_check(r, LIMITED, found[i].id, "%s:%zu (after line %zu): %s", path, found[i].line,
                      found[i].earlier, found[i].text);
        else
            say_check(r, LIMITED, found[i].id, "%s:%zu: %s", path, found[i].line, found[i].text);
    }
    tw_free(found);
    tw_free(source);
}

static int run(int argc, char **argv)
{
    struct doctor_args a = {0};
    struct tw_operands rest;
    struct twin_parts parts = {0};
    int rc = tw_options_parse(&tw_command_doctor, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    char *home = tw_home(a.home);
    if (!home)
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "cannot name the home");
    struct report r = {.json = a.json, .checks = a.json ? json_array() : NULL};
    check_parts(&r, &parts);
    check_home(&r, home);
    check_layout(&r);
    check_python(&r, a.python);
    check_machines(&r);
    for (size_t i = 0; i < rest.count; i++)
        check_script(&r, rest.items[i]);
    rc = r.failed ? 1 : 0;
    if (a.json && tw_json_print(json_pack("{s:s, s:b, s:o}", "schema", "twinrun.doctor/1", "ok",
                                          !r.failed, "checks", r.checks)) != 0)
        rc = TW_EXIT_TROUBLE;
    twin_parts_free(&parts);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_doctor = {
    "doctor",
    "say what can be captured here and what not, and why",
    synopsis,
    "Looks at twinrun's own parts, the home, the job's Python with its PyTorch, and what the "
    "machine allows, and makes one trial run. Each line is ok, limited (works, with the limit "
    "named), no (must be put right first) or absent (not here, not needed).\n\n"
    "A SCRIPT is searched for habits that look like seeding and are not: PYTHONHASHSEED set inside "
    "the script, worker seeds of base + worker id only, flags and seeds set after what they should "
    "govern was built. The search is a heuristic on the text.",
    options,
    TW_OPERANDS_FILES,
    0,
    64,
    exits,
    examples,
    run,
};
