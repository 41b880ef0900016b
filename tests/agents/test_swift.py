# SPDX-License-Identifier: Apache-2.0
"""The swift path (agents/python/swift.h) and the one in Python, which is the reference, write the
same traces; and each check that the swift path makes is needed: without it the traces differ.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import CALM_SITE, LIGHT_SITE
from native import BUILD, LIBRARY, ROOT, Run
from test_native_python import interpreters
from torch_observed import JOBS, PYTHON

sys.path.insert(0, os.path.join(ROOT, "python"))
from twinrun.trace import Trace  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("python", "light"),
    pytest.mark.skipif(not os.path.exists(LIBRARY), reason=f"not built: {LIBRARY}"),
]

SITE = os.path.join(ROOT, "python", "twinrun", "_site")
CASES = re.findall(r"^@case\ndef (\w+)", open(os.path.join(JOBS, "stepping.py")).read(), re.M)
NEEDS_COMPILER = ["compiled"]

# Each case in a child of its own, whose agent takes the functions of the swift path from a library.
DRIVER = """
import multiprocessing, os, sys
sys.path.insert(0, sys.argv[1])
import stepping, torch

def child(name, library):
    os.environ["TWINRUN_SWIFT"] = library
    swift = sys.modules["_twinrun_agent.swift"]
    swift.arm(torch)
    assert swift.ON == (library != "off")
    stepping.child(name)

torch.set_num_threads(1)
context = multiprocessing.get_context("fork")
for argument in sys.argv[2:]:
    process = context.Process(target=child, args=argument.split("="))
    process.start()
    process.join()
    print("ended", process.exitcode, flush=True)
"""


# The functions with stand-ins for tensors, in a Python that need not have PyTorch.
STAND_INS = """
import ctypes, os, sys, types
sys.path.insert(0, os.path.join(sys.argv[1], "python", "twinrun", "_agent"))
import boot
boot.package()
from _twinrun_agent import native, refs, swift

class Tensor:
    shape, dtype, layout, is_cpu = (2, 3), "float", "strided", True
    grad, is_nested, is_quantized, _version = None, False, False, 0
    def __init__(self):
        self.memory = (ctypes.c_float * 6)(1, 2, 3)
    def data_ptr(self): return ctypes.addressof(self.memory)
    def is_contiguous(self): return True
    def stride(self): return (3, 1)
    def numel(self): return 6
    def element_size(self): return 4
    def is_neg(self): return False
    def is_conj(self): return False

class Parameter(Tensor):
    pass

nn = types.SimpleNamespace(Parameter=Parameter)
_C = types.SimpleNamespace(TensorBase=Tensor, _functorch=None)
swift.arm(types.SimpleNamespace(Tensor=Tensor, nn=nn, _C=_C, strided=Tensor.layout))
assert swift.ON
references = sys.getrefcount(None), sys.getrefcount(Tensor), sys.getrefcount(Tensor.shape)

def row(t, place=0, strides=None): return Tensor.shape, Tensor.dtype, strides, t.data_ptr(), place

def table(tensors):
    items = native.Items(16)
    return swift.new_table(items.buffer, items.address, 24, 0, [row(t, i) for i, t in enumerate(tensors)])

def work():
    a, b, c = Parameter(), Parameter(), Tensor()
    both = swift.new_list([id(a), id(b)])
    assert swift.parameters(both, [{"params": [a]}, {"params": [b]}]) == [a, b]
    for groups in ([], [{"params": [b, a]}], [{"params": [a, b, a]}], [{"params": [a]}], [{}], [[a, b]]):
        assert swift.parameters(both, groups) is None
    known = table([a, c])
    assert swift.record(known, [a, c], 3) and swift.record(known, (a, c), 3) and swift.again(known, 1)
    assert not swift.record(known, [a], 3) and not swift.record(known, [a, object()], 3)
    moved = Tensor()
    assert swift.record(known, [a, moved], 3) and swift.still(known, [a, moved])
    moved.shape = (3, 2)
    assert not swift.record(known, [a, moved], 3)
    strided = swift.new_table(None, 0, 0, 0, [row(a, 0, (3, 1))])
    assert swift.still(strided, [a]) and not swift.still(strided, [b])
    values, group = (ctypes.c_double * 3)(), {"lr": 0.5, "betas": (1, 0.25)}
    items = native.Items(16)
    plan = [(0, "lr", -1), (0, "betas", 0), (0, "betas", 1)]
    numbers = swift.new_numbers((items, values), items.address, ctypes.addressof(values), [2], plan)
    assert swift.numbers(numbers, [group]) and list(values) == [0.5, 1.0, 0.25]
    assert not swift.numbers(numbers, [dict(group, lr="0.5")]) and not swift.numbers(numbers, [])
    memory = swift.new_memory([(a.data_ptr(), 24), (b.data_ptr(), 24)])
    assert swift.same(memory)
    b.memory[5] = 7
    assert not swift.same(memory) and swift.take(memory) and swift.same(memory)
    rows = [(refs.to(t), t.data_ptr(), 6, 24, -1, 0) for t in (a, b)]
    watch = swift.new_watch(rows, [0, 0], 5)
    assert not swift.check(watch) and swift.look(watch, 6, True) and swift.check(watch)
    a.memory[0] += 1
    assert not swift.check(watch) and swift.look(watch, 6, False) and swift.check(watch)
    assert swift.seen(watch)[0] == 7 and len(swift.seen(watch)) == 9
    a._version = 1
    assert not swift.check(watch)
    left, of_one = swift.new_left(2), table([c])
    a.grad = c
    assert swift.left(left, [a, b], 4) and swift.step(left, of_one, [a, b], 0)
    assert swift.rows_of(left)[4]() is c and swift.rows_of(left)[7] is None
    c.memory[0] += 1
    assert not swift.step(left, of_one, [a, b], 0) and swift.left(left, [a, b], 6)
    b.grad = moved
    assert not swift.step(left, of_one, [a, b], 0)
    state = {a: {"step": c}, b: {}}
    entries = [(id(a), 1, 0, 1), (id(b), 0, 1, 0)]
    moments = swift.new_moments(entries, [("step", refs.to(c), c.data_ptr())])
    assert swift.moments(moments, state) == [c]
    for other in ({}, {b: {}, a: {"step": c}}, {a: {"step": moved}, b: {}}, {a: [c], b: {}}, []):
        assert swift.moments(moments, other) is None
    assert swift.record_bytes(1, a.data_ptr(), 24) == 0 and swift.ns() > 0 and swift.ns() == 0
    for wrong in (both, None, 3):
        assert not swift.record(wrong, [a], 0) and not swift.check(wrong) and not swift.left(wrong, [], 1)
    rows = None
    del b
    assert not swift.check(watch)

for _ in range(100):
    work()
now = sys.getrefcount(None), sys.getrefcount(Tensor), sys.getrefcount(Tensor.shape)
assert all(abs(m - n) < 50 for m, n in zip(now, references)), (references, now)
"""


class Ran:
    """What a case printed, and what its trace holds."""

    def __init__(self, printed, trace):
        self.printed, self.trace = printed, trace

    def differs_from(self, other):
        """The first difference in words; None where there is none."""
        if self.printed != other.printed:
            return f"printed {self.printed!r} and {other.printed!r}"
        if self.trace is None or other.trace is None:
            return "no trace"
        for what in ("records", "notes", "steps", "gaps"):
            one, two = self.trace[what], other.trace[what]
            if one != two:
                pairs = list(zip(one, two))
                i = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
                return f"{len(one)} and {len(two)} {what}: {one[i : i + 1]} and {two[i : i + 1]}"
        return None


def _run(folder, children, light=True):
    """children: [(case, library)]. What came of each."""
    run = Run(
        folder,
        PYTHONPATH=os.pathsep.join([SITE, str(LIGHT_SITE if light else CALM_SITE)]),
        TWINRUN_PYTHON_DIR=os.path.join(ROOT, "python"),
        TWINRUN_SITE_DIR=SITE,
        TWINRUN_LEVEL="tensors",
        TWINRUN_SWIFT="off",
        OMP_NUM_THREADS=1,
        PYTHONDONTWRITEBYTECODE=1,
        PYTHONHASHSEED=0,
    )
    driver = os.path.join(run.folder, "driver.py")
    with open(driver, "w") as f:
        f.write(DRIVER)
    arguments = [f"{case}={library}" for case, library in children]
    done = run.start(
        PYTHON, driver, JOBS, *arguments, preload=True, timeout=900, cwd=run.folder, text=True
    )
    assert done.returncode == 0, done.stderr
    printed = re.findall(r"(.*?)^ended (-?\d+)\n", done.stdout, re.M | re.S)
    assert len(printed) == len(children), done.stdout
    traces = {}
    for name in os.listdir(os.path.join(run.folder, "ranks")):
        with Trace.open(os.path.join(run.folder, "ranks", name)) as trace:
            traces[trace.info.role] = _content(trace)
    return [Ran(p, traces.get(b"child %d" % i)) for i, p in enumerate(printed, 1)]


def _content(trace):
    """Everything but times, and numbers that only say in which order names were met."""
    records = []
    for r in sorted(trace.records(), key=lambda r: (r.step, r.seq)):
        series, layout = trace.series[r.series], trace.layouts.get(r.layout)
        texts = [trace.string(series[k]) for k in range(2, 7)]
        r = repr(r._replace(series=0, layout=0, time_ns=0))  # where nan is nan
        records.append((series[:2], *texts, layout, r))
    return {
        "records": records,
        "steps": list(trace.steps()),
        "notes": trace.notes,
        "gaps": trace.gaps,
    }


def _compare(folder, cases, light=True):
    """Each case by either path."""
    ran = _run(folder, [(c, library) for c in cases for library in ("off", "")], light)
    for case, reference, swift in zip(cases, ran[::2], ran[1::2]):
        assert reference.printed[1] == "0", case
        different = reference.differs_from(swift)
        assert different is None, f"{case}: {different}"
        content = swift.trace
        assert len(content["records"]) > 200 and len(content["steps"]) > 20, case
        assert not [n for n in content["notes"] if n[0] == b"agent.error"], case


@pytest.mark.parametrize("python", interpreters())
def test_the_functions_in_each_python(python):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TWINRUN_", "PYTHON"))}
    env.update(TWINRUN_SWIFT=LIBRARY, TWINRUN_LIB=LIBRARY)
    done = subprocess.run(
        [python, "-B", "-c", STAND_INS, ROOT], env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_both_paths_write_the_same_trace(tmp_path):
    _compare(tmp_path, [c for c in CASES if c not in NEEDS_COMPILER])


def test_both_paths_write_the_same_trace_of_a_compiled_step(tmp_path):
    _compare(tmp_path, NEEDS_COMPILER, light=False)


# A check of the swift path that is left out, in which file, and a case whose trace then is another
# one. (name, file, what stands there, what is put in its place, case)
MUTANTS = [
    (
        "type of a tensor",
        "swift.h",
        "return type == tw_py.tensor || type == tw_py.parameter;",
        "return type != tw_py.none;",
        "asked",
    ),
    ("dtype", "table.c", "!tw_py_has(t, tw_py.dtype, r->dtype)", "0", "views"),
    ("shape", "table.c", "!tw_py_equal(PyObject_GetAttr(t, tw_py.shape), r->shape)", "0", "views"),
    (
        "contiguous",
        "table.c",
        "return tw_py_says(tw_py.is_contiguous, t, tw_py.yes);",
        "return true;",
        "turned_weights",
    ),
    (
        "strides",
        "table.c",
        "return tw_py_equal(tw_py_call(tw_py.stride, t), r->strides);",
        "return true;",
        "views",
    ),
    ("place of a tensor", "table.c", "if (at == r->at)", "if (at)", "plain"),
    (
        "item that follows",
        "table.c",
        "b->items[i].data = (const void *)(uintptr_t)at;",
        "",
        "plain",
    ),
    ("conjugate", "swift.c", "tw_py_says(tw_py.is_conj, t, tw_py.no)", "1", "views"),
    ("negative", "swift.c", "tw_py_says(tw_py.is_neg, t, tw_py.no)", "1", "negatives"),
    ("place of a large one", "table.c", "if (!b->items || !at)", "if (!at)", "large"),
    ("flags", "table.c", "flags != b->flags && i < b->n", "0 && i < b->n", "plain"),
    ("keys of a group", "table.c", "PyDict_Size(group) == b->keys[g]", "1", "hyperparameters"),
    ("generators", "watch.c", "m->region[i].bytes) == 0;", "m->region[i].bytes) != 2000;", "draws"),
    ("place of a weight", "watch.c", "&& now == r->at)", ")", "moved_weights"),
    ("content of a weight", "watch.c", "digest(r) == r->known", "1", "written_weights"),
    ("version of a large weight", "watch.c", "version == r->version &&", "1 &&", "written_large"),
    ("look of a weight", "watch.c", "r->known = digest(r);", "", "plain"),
    (
        "parameters",
        "optimizer.c",
        "if (PyList_GetItem(list, i) != b->id[at++])",
        "if (at++ > b->n)",
        "replaced_weight",
    ),
    ("number of parameters", "optimizer.c", "return at == b->n;", "return true;", "groups"),
    (
        "gradient itself",
        "optimizer.c",
        "tw_py_refers(r->reference, g) && tw_py_number(tw_py.data_ptr, g, &at)",
        "tw_py_number(tw_py.data_ptr, g, &at)",
        "gradients_replaced",
    ),
    ("place of a gradient", "optimizer.c", "&& at == r->at &&", "&&", "gradients_moved"),
    (
        "version of a gradient",
        "optimizer.c",
        "tw_py_version(g, &version) && version == r->version;",
        "1;",
        "gradients_added",
    ),
    ("content of a gradient", "optimizer.c", "probe(b) == b->known", "1", "gradients_data"),
    ("which gradients", "optimizer.c", "tw_swift_place(table, next) != i", "0", "frozen_in_turns"),
    ("how many gradients", "optimizer.c", "next == rows && rows", "rows", "turned_gradients"),
    (
        "looks of a gradient",
        "optimizer.c",
        "!tw_swift_row(table, next, g, b->row[i].at)",
        "0",
        "gradients_turned",
    ),
    ("moment itself", "optimizer.c", "tw_py_refers(m->reference, t) &&", "", "changed_state"),
    ("place of a moment", "optimizer.c", "now == m->at;", "true;", "changed_state"),
    (
        "entries of a state",
        "optimizer.c",
        "PyDict_Size(values) != e->entries",
        "0",
        "changed_state",
    ),
    ("states", "optimizer.c", "PyDict_Size(args[1]) != (ssize_t)b->entries", "0", "other_state"),
    ("whose state", "optimizer.c", "parameter == b->entry[i].parameter &&", "", "other_state"),
]


def _mutant(folder, number):
    """A library with the swift path, in which one check is left out."""
    name, file, old, new, _case = MUTANTS[number]
    place = os.path.join(folder, str(number))
    shutil.copytree(os.path.join(ROOT, "agents", "python"), os.path.join(place, "agents", "python"))
    path = os.path.join(place, "agents", "python", file)
    with open(path) as f:
        text = f.read()
    assert text.count(old) == 1, f"{name}: stands {text.count(old)} times in {file}"
    with open(path, "w") as f:
        f.write(text.replace(old, new))
    library = os.path.join(place, "mutant.so")
    sources = [os.path.join(os.path.dirname(path), n + ".c") for n in PARTS]
    argv = ["cc", "-shared", "-fPIC", "-w", "-D_GNU_SOURCE", "-I", place, "-I", ROOT]
    argv += ["-I", os.path.join(ROOT, "include"), "-o", library, *sources]
    argv += [os.path.join(BUILD, "src", "base", "libtw_base.a"), LIBRARY]
    subprocess.run(argv, check=True, timeout=120)
    return library


PARTS = ("optimizer", "swift", "table", "watch")


def test_each_check_is_needed(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        libraries = list(pool.map(lambda i: _mutant(tmp_path, i), range(len(MUTANTS))))
    cases = [m[4] for m in MUTANTS]
    distinct = sorted(set(cases))
    children = [(c, "") for c in distinct] + list(zip(cases, libraries))
    ran = _run(tmp_path / "run", children)
    sound = dict(zip(distinct, ran))
    for (name, *_rest, case), mutant in zip(MUTANTS, ran[len(distinct) :]):
        assert sound[case].printed[1] == "0"
        assert sound[case].differs_from(mutant), f"{name}: {case} is the same without it"
