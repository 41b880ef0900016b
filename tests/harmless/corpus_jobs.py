# SPDX-License-Identifier: Apache-2.0
"""The table of the corpus: what is run, what it reads, and what pins may change in it."""

import zipfile

from corpus_run import CORPUS


class Job:
    """name, kind (native, shell, python or torch), argv with {bin}, {corpus}, {python}, {root}.

    pins: "bytes" when `run --pin all` must change nothing; "shape" when a pin changes by design
    what the job prints (drawn numbers, the time of day, thread counts): then its exit status, the
    number of lines on each stream and the names and modes of its files are compared. slow: one run
    takes seconds, so that only pairs of the product are run of it. without: pins that take away
    what the job asks for (docs/security.md); `run --pin all,-NAME` leaves them out. light: alone it
    does the same without PyTorch's compiler, and half as long; with --full it has it.
    """

    def __init__(
        self,
        name,
        kind,
        argv,
        stdin=b"",
        pins="bytes",
        prepare=None,
        slow=False,
        without=(),
        light=False,
    ):
        self.name, self.kind, self.argv, self.stdin = name, kind, argv, stdin
        self.pins, self.prepare, self.slow, self.without = pins, prepare, slow, without
        self.light = light

    def __repr__(self):
        return self.name


LINES = b"".join(b"line %d of the input\n" % i for i in range(400))


def native(name, *args, **more):
    label = "-".join(("native", name, *args))
    return Job(label, "native", ["{bin}/" + name, *args], **more)


def shell(name, text, program="sh", **more):
    return Job("shell-" + name, "shell", [program, "-c", text], **more)


WITH_WORDS = ("crowd", "ends", "stdin", "seccomp", "recording", "unkind")
UNKIND = (
    "close dup2 chroot setuid unshare undumpable clone3 uring stack altstack threads nofile memory stopped traced "
    "settings preload idle"
)
RECORDING = "burst names views threads children unreadable closed handler"
NATIVE = [
    *[native(p.stem) for p in sorted((CORPUS / "native").glob("*.c")) if p.stem not in WITH_WORDS],
    *[native("recording", kind) for kind in RECORDING.split()],
    *[native("unkind", kind) for kind in UNKIND.split()],
    *[native("crowd", threads, "200") for threads in ("40", "1500")],
    *[
        native("ends", how)
        for how in "abort segv fpe kill quick atexit thread overflow stop code".split()
    ],
    *[native("seccomp", how) for how in ("strict", "filter", "trap")],
    native("stdin", stdin=LINES),
]

BOTH = "for i in 1 2 3 4 5 6 7 8; do echo out $i; echo err $i >&2; done"
SHELL = [
    shell("both", BOTH + "; exit 7"),
    shell("pipeline", "seq 1 3000 | grep 7 | sort -r | uniq -c | tail -5; " + BOTH),
    shell(
        "broken-pipe",
        "set -o pipefail; yes | head -1; echo $?; seq 100000 | head -2; echo $?",
        "bash",
    ),
    shell(
        "traps",
        "trap 'echo exit $?' EXIT; trap 'echo term' TERM; kill -TERM $$; (exit 3); false || exit 9",
    ),
    shell("killed", BOTH + "; kill -9 $$"),
    shell("killed-group", "trap '' TERM; sh -c 'kill -TERM $$; echo not here' ; echo $?"),
    shell(
        "background",
        "for i in 1 2 3; do (sleep 0.0$i; echo $i >done$i; exit $i) & wait $!; echo $?; done",
    ),
    shell("input", "read a b; echo $b; head -c 30; wc -l", stdin=LINES),
    shell(
        "here",
        "cat <<X | tr a-z A-Z | tee copy >&2\nsome text\nX\nexec 5>five 6<copy; echo to five >&5; cat <&6",
    ),
    shell(
        "substitution",
        "diff <(seq 5) <(seq 2 6) | tee diff; echo ${{PIPESTATUS[@]}}; ls -l /proc/self/fd | wc -l",
        "bash",
    ),
    shell(
        "limits",
        "ulimit -a | grep -v -e pending -e 'cpu time'; (ulimit -n 10; ulimit -f 1; ulimit -a | grep -e open -e file)",
    ),
    shell(
        "file-limit",
        "ulimit -f 4; yes >cut; echo $?; ls -l cut | cut -d' ' -f5; for i in 1 2 3; do sh -c 'exit 3'; done",
    ),
    shell(
        "tools",
        "seq 2000 >a; tar cf - a | gzip -n | gunzip | tar xOf - | cksum; find . -name a -exec wc -l {{}} +; seq 9 | xargs -n 2 -P 1 echo",
    ),
    shell(
        "streams",
        "exec 3>&1 1>&2 2>&3; echo to err; echo to out >&2; exec 1>&-; echo lost; echo status $? >&2",
    ),
    shell(
        "sessions",
        "setsid -w sh -c 'echo session; exit 4'; echo $?; nohup sh -c 'echo hangup' 2>/dev/null; timeout 0.1 sleep 5; echo $?",
    ),
    shell(
        "no-environment",
        "env -i PATH=$PATH sh -c 'env | grep -v -e ^PWD -e ^_= -e SHLVL; echo $0'; env | grep -c CORPUS",
    ),
    shell(
        "terminal", "tty; stty -a </dev/tty 2>&1 | head -3; test -t 1; echo $?; test -t 2; echo $?"
    ),
    shell(
        "tasks",
        "set -e; echo a >t; cat t missing || echo $?; ls /proc/self/task | wc -l; cat /proc/self/comm; false; echo not here",
    ),
]


def python(name, *args, options=(), script=None, **more):
    label = "-".join(("python", name, *[a.strip("-").replace(" ", "") for a in (*options, *args)]))
    file = "{corpus}/python/%s.py" % (script or name)
    return Job(label, "python", ["{python}", *options, file, *args], **more)


def zip_app(work):
    with zipfile.ZipFile(work / "app.pyz", "w") as app:
        text = (CORPUS / "python" / "options.py").read_text()
        app.writestr(zipfile.ZipInfo("__main__.py"), text)


def module(work):
    (work / "package").mkdir()
    for name in ("options", "logging_"):
        text = (CORPUS / "python" / (name + ".py")).read_text()
        (work / "package" / (name + ".py")).write_text(text)


ENDS = "code text os_exit abort error chain interrupt recursion atexit thread kill handler group bigcode"
FIELD = "meters files resumed ranks children unreadable threads many shadowed"
PYTHONS = [
    *[python("field_", kind) for kind in FIELD.split()],
    *[python("multiprocessing_", how) for how in ("fork", "spawn", "forkserver")],
    python("asyncio_"),
    python("subprocess_"),
    python("threads_"),
    *[python("ends", how) for how in ENDS.split()],
    python("hooks"),
    python("generators_", pins="shape"),
    *[
        python("options", options=[o])
        for o in ("-I", "-S", "-E", "-O", "-OO", "-B", "-u", "-s", "-bb")
    ],
    python("options", options=["-W", "error"]),
    python("options", options=["-X", "dev"]),
    python("options", options=["-X", "utf8=0"]),
    python("logging_"),
    python("logging_", options=["-u"]),
    python("signals_"),
    python("files_", stdin=LINES),
    python("records"),
    Job("python-zipapp", "python", ["{python}", "app.pyz", "argument"], prepare=zip_app),
    Job("python-module", "python", ["{python}", "-m", "package.options", "x"], prepare=module),
    Job("python-input", "python", ["{python}", "-"], stdin=b"import sys\nprint(sys.argv)\n1 / 0\n"),
    Job(
        "python-command",
        "python",
        ["{python}", "-c", "import sys; print(sys.argv, __name__); undefined", "a"],
    ),
]


SLOW = {"pins": "shape", "slow": True}


def torch(name, file, *args, **more):
    argv = ["{python}", "{corpus}/torch/" + file, *args]
    return Job("torch-" + name, "torch", argv, **SLOW, **more)


GHOSTS = (  # of ghosts/clean, those that run in one process and whose pinned runs are the same
    "accumulation by_hand checkpointing closure cnn dict_batches eval_only gan grad_scaler helpers lbfgs "
    "mlp no_autograd raw_tensors second_order several_optimizers transformer"
).split()
# Each is a group of jobs: PyTorch takes longer to import than any of them takes to run.
TORCHES = [
    torch("models", "run.py", "models"),
    torch("tricks", "run.py", "tricks"),
    *[
        torch("ghosts-%d" % i, "run.py", "clean", *names, light="checkpointing" not in names)
        for i, names in enumerate(GHOSTS[i::5] for i in range(5))
    ],
    torch("field", "run.py", "field", light=True),
    Job(
        "torch-cnn",
        "torch",
        ["{python}", "{root}/workloads/cnn.py", "--deterministic", "--steps", "4"],
        **SLOW,
    ),
    Job(
        "torch-elastic",
        "torch",
        ["{python}", "{root}/workloads/elastic.py", "--steps", "2"],
        light=True,
        **SLOW,
    ),
    # Two workers: without them there is no worker's number, and on one processor PyTorch warns of
    # them.
    torch("workers", "processes.py", "workers", without=("loader-workers", "affinity"), light=True),
    torch("ddp", "processes.py", "ddp", light=True),
]
OTHERS = [
    Job("native-trainer", "native", ["{build}/workloads/trainer", "--ordered"], pins="shape"),
    Job("native-example", "native", ["{build}/workloads/example"], pins="shape"),
    Job(
        "python-ghost-numpy",
        "python",
        ["{python}", "{root}/ghosts/clean/numpy_only.py"],
        pins="shape",
    ),
    Job(
        "python-ghost-numpy-recorded",
        "python",
        ["{python}", "{root}/ghosts/clean/numpy_recorded.py"],
        pins="shape",
    ),
]

JOBS = NATIVE + SHELL + PYTHONS + OTHERS + TORCHES
