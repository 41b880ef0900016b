/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way into a Python that does not read PYTHONPATH (-I, -E, or the job has set its own) or runs
 * no sitecustomize (-S).
 *
 * CPython 3.8 and later has audit hooks (PEP 578), and PySys_AddAuditHook may be called before the
 * interpreter exists. Our constructor does that when this process has such a Python (a weak
 * reference: the program itself or a libpython it is linked with). CPython then calls us with
 * "cpython.run_command", "run_file", "run_module" or "run_stdin" right before the user's code, in
 * every start mode, with the GIL held and no error set: there we run
 * <TWINRUN_PYTHON_DIR>/twinrun/_agent/boot.py and its arm(). A program that embeds Python raises
 * none of these: there the import of a library we hook is the moment.
 *
 * Nothing is left in __main__, no traceback is printed, SystemExit does not end the job; a failure
 * goes to `faults`. boot.py's arm() is idempotent: sitecustomize may have called it before.
 *
 * An audit hook stays for good, and then every audited call, such as id(), costs 0.1 us more. So it
 * is set only where our sitecustomize will not run.
 */
#include "agents/common/life.h"
#include "agents/common/state.h"
#include "api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "src/base/base.h"

#define PY_FILE_INPUT 257
#define MODULE "_twinrun_boot"
#define BOOT_CAP ((size_t)4 << 20)

static char boot_path[PATH_MAX];
static atomic_bool armed;

static bool have_api(void)
{
    return PySys_AddAuditHook && Py_IsInitialized && Py_CompileString &&
           PyImport_ExecCodeModuleEx && PyImport_GetModule && PyObject_CallMethod &&
           PyObject_IsTrue && PyTuple_GetItem && PyUnicode_FromString && PyObject_Str &&
           PyUnicode_AsUTF8 && PyErr_Occurred && PyErr_GivenExceptionMatches && PyErr_Fetch &&
           PyErr_Restore && PyErr_Clear && PyErr_SetInterrupt && Py_IncRef && Py_DecRef &&
           &PyExc_KeyboardInterrupt;
}

/* Takes the current Python error away and writes it down. A Ctrl-C that fell into our code is
 * raised again in the user's. */
static void give_up(const char *what)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (type && PyExc_KeyboardInterrupt &&
        PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();
    } else {
        PyObject *text = NULL, *name = NULL;
        if (type) {
            text = PyObject_Str(value ? value : type);
            name = PyObject_Str(type);
        }
        const char *t = text ? PyUnicode_AsUTF8(text) : NULL;
        const char *n = name ? PyUnicode_AsUTF8(name) : NULL;
        char why[512];
        snprintf(why, sizeof why, "%s: %s", n ? n : "unknown error", t ? t : "");
        PyErr_Clear();
        tw_folder_fault(what, why);
        if (text)
            Py_DecRef(text);
        if (name)
            Py_DecRef(name);
    }
    if (type)
        Py_DecRef(type);
    if (value)
        Py_DecRef(value);
    if (trace)
        Py_DecRef(trace);
}

/* The boot module, made from its file. The importer is not asked: it would need our folder in
 * sys.path. New reference, or NULL, with an error set unless the fault is told already. */
static PyObject *boot_module(void)
{
    PyObject *name = PyUnicode_FromString(MODULE);
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    if (name)
        Py_DecRef(name);
    if (module || PyErr_Occurred())
        return module;
    char *text = NULL;
    size_t bytes;
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_read_file(boot_path, BOOT_CAP, &text, &bytes, &err) != 0) {
        tw_folder_fault("the Python half is off", err.message);
        return NULL;
    }
    PyObject *code = Py_CompileString(text, boot_path, PY_FILE_INPUT);
    tw_free(text);
    if (code) {
        module = PyImport_ExecCodeModuleEx(MODULE, code, boot_path);
        Py_DecRef(code);
    }
    return module;
}

static void arm(void)
{
    PyObject *type, *value, *trace;
    if (atomic_exchange(&armed, true))
        return;
    int saved_errno = errno;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *module = boot_module();
    PyObject *done = module ? PyObject_CallMethod(module, "arm", NULL) : NULL;
    if (PyErr_Occurred())
        give_up("the Python half is off");
    else if (done && PyObject_IsTrue(done))
        tw_agent_announce(2);
    else if (done)
        tw_folder_fault("the Python half is off", "arm() of boot.py met something in its way");
    if (done)
        Py_DecRef(done);
    if (module)
        Py_DecRef(module);
    PyErr_Restore(type, value, trace);
    errno = saved_errno;
}

/* Called by CPython for every audit event; never says no. */
static int on_audit(const char *event, PyObject *args, void *user)
{
    static const char *const hooked[] = {"torch", "numpy"};
    (void)user;
    if (atomic_load_explicit(&armed, memory_order_relaxed) || !Py_IsInitialized())
        return 0;
    if (strncmp(event, "cpython.run_", 12) == 0) {
        arm();
    } else if (strcmp(event, "import") == 0) {
        /* Anybody can raise an event of this name with other arguments: then there is an error to
         * clear. */
        PyObject *module = PyTuple_GetItem(args, 0);
        const char *name = module ? PyUnicode_AsUTF8(module) : NULL;
        if (!name)
            PyErr_Clear();
        for (size_t i = 0; name && i < sizeof hooked / sizeof hooked[0]; i++)
            if (strcmp(name, hooked[i]) == 0)
                arm();
    }
    return 0;
}

/* Whether `path` (a list with colons) has `folder` in it. */
static bool listed(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    for (const char *p = path; p && n; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL)
        if (strncmp(p, folder, n) == 0 && (p[n] == ':' || p[n] == '\0'))
            return true;
    return false;
}

/* Whether the interpreter's own options switch PYTHONPATH or site off. */
static bool isolated(int argc, char **argv)
{
    for (int i = 1; i < argc && argv[i][0] == '-' && argv[i][1] && argv[i][1] != '-'; i++)
        for (const char *p = argv[i] + 1; *p; p++) {
            if (*p == 'I' || *p == 'E' || *p == 'S')
                return true;
            if (*p == 'c' || *p == 'm')
                return false; /* the rest is the program's */
            if (*p == 'W' || *p == 'X') {
                i += !p[1]; /* its value: the rest of the word, else the next one */
                break;
            }
        }
    return false;
}

static bool sitecustomize_runs(int argc, char **argv)
{
    const char *site = getenv("TWINRUN_SITE_DIR"), *path = getenv("PYTHONPATH");
    const char *program = argc > 0 ? argv[0] : "";
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    return site && path && listed(path, site) && tw_starts(name, "python") && !isolated(argc, argv);
}

/* Asks a CPython in this process to call us back; nothing when there is none. */
static void watch_for_python(int argc, char **argv)
{
    /* Initialized: we were not preloaded but loaded by ctypes, and Python's lock may not be held
     * here. */
    if (!have_api() || Py_IsInitialized() || sitecustomize_runs(argc, argv))
        return;
    const char *dir = getenv("TWINRUN_PYTHON_DIR");
    if (!dir || dir[0] != '/')
        return;
    int n = snprintf(boot_path, sizeof boot_path, "%s/twinrun/_agent/boot.py", dir);
    if (n > 0 && (size_t)n < sizeof boot_path)
        PySys_AddAuditHook(on_audit, NULL);
}

static const struct tw_agent_life python_life = {.start = watch_for_python};
TW_AGENT_REGISTER(python_life);
