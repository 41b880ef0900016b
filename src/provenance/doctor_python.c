/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the job's Python can show. A probe runs in it and answers with one JSON object; then a trial
 * run in a folder of its own tells whether the agent speaks from inside it.
 */
#include "doctor.h"

#include "capture.h"
#include "doctor_inside.h"

#include "base.h"

#include "src/launch/run.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { PROBE_S = 60 };

/* Every import may fail in any way: whatever it raises is an answer. */
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

/* What of a job is not seen without this hook, in words. */
static const char *what_is_lost(const char *hook)
{
    static const struct {
        const char *hook, *lost;
    } rows[] = {
        {"register_optimizer_step_pre_hook", "gradients as the optimizer sees them"},
        {"register_optimizer_step_post_hook", "step ends, weights and optimizer state"},
        {"register_module_forward_hook", "activations"},
        {"register_post_accumulate_grad_hook", "local gradients before they are reduced"},
        {"TorchDispatchMode", "single operations (zoom)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].hook, hook) == 0)
            return rows[i].lost;
    return hook;
}

/* PyTorch and its hooks: what of a job is not seen where one is missing. */
static void check_torch(const struct tw_doctor *d, const json_t *answer)
{
    const char *torch = json_string_value(json_object_get(answer, "torch"));
    const char *why = json_string_value(json_object_get(answer, "why"));
    const json_t *missing = json_object_get(answer, "missing");
    if (!torch) {
        tw_doctor_tell(
            d, TW_DOCTOR_ABSENT, "torch",
            "not in this Python (%s): its jobs are watched by twinrun.record() and by what "
            "they print and write",
            why ? why : "no reason given");
        return;
    }
    if (json_array_size(missing) == 0) {
        tw_doctor_tell(d, TW_DOCTOR_OK, "torch", "%s, all hooks available%s", torch,
                       json_is_true(json_object_get(answer, "cuda")) ? ", CUDA usable" : "");
        return;
    }
    struct tw_buf b = {0};
    for (size_t i = 0; i < json_array_size(missing); i++)
        tw_buf_printf(&b, "%s%s", i ? "; " : "",
                      what_is_lost(json_string_value(json_array_get(missing, i))));
    char *list = tw_buf_steal(&b);
    tw_doctor_tell(d, TW_DOCTOR_LIMITED, "torch", "%s is too old for some hooks, not seen: %s",
                   torch, list ? list : "");
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
static void check_arming(const struct tw_doctor *d, const char *python)
{
    char folder[] = "/tmp/twinrun-doctor-XXXXXX";
    char *argv[] = {(char *)python, (char *)"-c", (char *)"pass", NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run = NULL;
    if (!mkdtemp(folder)) {
        tw_doctor_tell(d, TW_DOCTOR_LIMITED, "arming",
                       "not tried: cannot make a folder in /tmp: %s", strerror(errno));
        return;
    }
    struct twin_launch_options o = {.argv = argv,
                                    .home = folder,
                                    .level = TWIN_LEVEL_TENSORS,
                                    .agents = true,
                                    .window_last = UINT32_MAX};
    if (twin_launch(&o, &run, &err) != 0)
        tw_doctor_tell(d, TW_DOCTOR_NO, "arming", "a trial run failed: %s", err.message);
    else if (run->process_count && run->processes[0].armed)
        tw_doctor_tell(d, TW_DOCTOR_OK, "arming",
                       "the agent speaks from inside %s (loaded in %.0f ms)", python,
                       run->agent_load_s * 1e3);
    else
        tw_doctor_tell(d, TW_DOCTOR_NO, "arming", "the agent stays silent inside %s: %s", python,
                       why_silent(run));
    twin_run_free(run);
    tw_remove_tree(folder, NULL, NULL);
}

/* A noisy sitecustomize may print before the probe: its answer is the last line. */
static const char *last_line(const char *text)
{
    const char *line = text;
    for (const char *p = text; (p = strchr(p, '\n')) && p[1]; p++)
        line = p + 1;
    return line;
}

/* What the probe says of the interpreter; python: how it was started. */
static void tell_interpreter(const struct tw_doctor *d, const char *python, const json_t *answer)
{
    const char *version = json_string_value(json_object_get(answer, "version"));
    const char *executable = json_string_value(json_object_get(answer, "executable"));
    const char *numpy = json_string_value(json_object_get(answer, "numpy"));
    unsigned major = 0, minor = 0;
    bool known = version && sscanf(version, "%u.%u", &major, &minor) == 2 && major == 3 &&
                 minor >= 8;
    tw_doctor_tell(d, known ? TW_DOCTOR_OK : TW_DOCTOR_LIMITED, "python", "%s, %s%s",
                   version ? version : "?", executable ? executable : python,
                   known ? "" : ": supported are 3.8 and later");
    tw_doctor_tell(d, numpy ? TW_DOCTOR_OK : TW_DOCTOR_ABSENT, "numpy", "%s",
                   numpy ? numpy : "not in this Python");
}

static void tell_hash_seed(const struct tw_doctor *d)
{
    const char *seed = getenv("PYTHONHASHSEED");
    if (seed && *seed)
        tw_doctor_tell(
            d, TW_DOCTOR_OK, "hash seed",
            "PYTHONHASHSEED=%s in this shell: sets of strings keep their order in every run", seed);
}

void tw_doctor_python(const struct tw_doctor *d, const char *given)
{
    char *python = tw_find_python(given), *out = NULL;
    char *argv[] = {python, (char *)"-c", (char *)probe_script, NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    int status = 0;
    if (!python || tw_capture(argv, PROBE_S, &out, &status, &err) != 0) {
        tw_doctor_tell(d, given ? TW_DOCTOR_NO : TW_DOCTOR_ABSENT, "python", "%s%s", err.message,
                       given ? "" : "; name the job's interpreter with --python");
        tw_free(python);
        return;
    }
    json_t *answer = json_loads(last_line(out), 0, NULL);
    if (json_is_object(answer)) {
        tell_interpreter(d, python, answer);
        check_torch(d, answer);
        check_arming(d, python);
    } else {
        tw_doctor_tell(d, TW_DOCTOR_NO, "python",
                       "%s ran the probe and gave no answer (exit status %d): is it a Python 3?",
                       python, WEXITSTATUS(status));
    }
    json_decref(answer);
    tell_hash_seed(d);
    tw_free(out);
    tw_free(python);
}
