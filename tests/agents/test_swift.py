# SPDX-License-Identifier: Apache-2.0
"""The swift path (agents/python/swift.h) and the one in Python, which is the reference, write the
same traces; and each check that the swift path makes is needed: without it the traces differ.
"""

import os
import re
import subprocess
import sys

import pytest
from native import BUILD, LIBRARY, ROOT, Run
from torch_observed import JOBS, PYTHON

sys.path.insert(0, os.path.join(ROOT, "python"))
from twinrun.trace import Trace  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("python", "light"),
    pytest.mark.skipif(not os.path.exists(LIBRARY), reason=f"not built: {LIBRARY}"),
]

SITE = os.path.join(ROOT, "python", "twinrun", "_site")
LIGHT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "light_site")
SOURCES = [
    os.path.join(ROOT, "agents", "python", name + ".c")
    for name in ("optimizer", "swift", "table", "watch")
]
JOB = os.path.join(JOBS, "stepping.py")
CASES = re.findall(r"^@case\ndef (\w+)", open(JOB).read(), re.M)
NEEDS_COMPILER = {"compiled"}
THIRDS = [[c for c in CASES if c not in NEEDS_COMPILER][i::3] for i in range(3)]


class Watched:
    """A job under the agent: what it printed, and of each child what its trace holds."""

    def __init__(self, folder, swift, cases, light=True):
        folder.mkdir()
        sites = [SITE, LIGHT] if light else [SITE]
        run = Run(
            folder,
            PYTHONPATH=os.pathsep.join(sites),
            TWINRUN_PYTHON_DIR=os.path.join(ROOT, "python"),
            TWINRUN_SITE_DIR=SITE,
            TWINRUN_LEVEL="tensors",
            TWINRUN_SWIFT=swift,
            OMP_NUM_THREADS=1,
            PYTHONDONTWRITEBYTECODE=1,
            PYTHONHASHSEED=0,
        )
        if not swift:
            del run.environment["TWINRUN_SWIFT"]
        done = run.start(PYTHON, JOB, *cases, preload=True, timeout=600, cwd=run.folder)
        self.printed = (done.returncode, done.stdout, done.stderr)
        self.traces = {}
        for name in os.listdir(os.path.join(run.folder, "ranks")):
            with Trace.open(os.path.join(run.folder, "ranks", name)) as trace:
                self.traces[trace.info.role] = _content(trace)

    def of(self, cases):
        """Each case's trace: children are numbered as they are made."""
        return {c: self.traces.get(b"child %d" % i) for i, c in enumerate(cases, 1)}


def _content(trace):
    """Everything but times, and numbers that only say in which order names were met."""
    records = []
    for r in sorted(trace.records(), key=lambda r: (r.step, r.seq)):
        series, layout = trace.series[r.series], trace.layouts.get(r.layout)
        texts = [trace.string(series[k]) for k in range(2, 7)]
        r = repr(r._replace(series=0, layout=0, time_ns=0))  # where nan is nan
        records.append((series[:2], *texts, layout, r))
    notes = [n for n in trace.notes if n[0] != b"observer"]
    return {"records": records, "steps": list(trace.steps()), "notes": notes, "gaps": trace.gaps}


def _differences(reference, other):
    """Names of cases whose traces are not the same, with the first thing that differs."""
    found = {}
    for case, one in reference.items():
        two = other[case]
        if one is None or two is None:
            found[case] = "no trace"
        elif one != two:
            pairs = list(zip(one["records"], two["records"]))
            place = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
            found[case] = (
                f"{len(one['records'])} and {len(two['records'])} records, record {place}: "
                f"{one['records'][place : place + 1]} and {two['records'][place : place + 1]}, "
                f"notes {[n for n in one['notes'] if n not in two['notes']]} and "
                f"{[n for n in two['notes'] if n not in one['notes']]}"
            )
    return found


def _compare(folder, cases, light=True):
    reference = Watched(folder / "reference", "off", cases, light)
    swift = Watched(folder / "swift", "", cases, light)
    assert reference.printed[:2] == swift.printed[:2]
    assert reference.printed[0] == 0
    assert reference.printed[1].decode() == "".join(c + " 0\n" for c in cases)
    assert not _differences(reference.of(cases), swift.of(cases))
    for case, content in swift.of(cases).items():
        assert len(content["records"]) > 200 and len(content["steps"]) > 20, case
        assert not [n for n in content["notes"] if n[0] == b"agent.error"], case


@pytest.mark.parametrize("cases", THIRDS, ids=lambda cases: cases[0])
def test_both_paths_write_the_same_trace(cases, tmp_path):
    _compare(tmp_path, cases)


def test_both_paths_write_the_same_trace_of_a_compiled_step(tmp_path):
    _compare(tmp_path, sorted(NEEDS_COMPILER), light=False)


# A check of the swift path that is left out, in which file, and a case whose trace then is another
# one. (name, file, what stands there, what is put in its place, case)
MUTANTS = [
    (
        "type of a tensor",
        "swift.h",
        "return type == tw_py.tensor || type == tw_py.parameter;",
        "return type != tw_py.none;",
        "views",
    ),
    ("dtype", "table", "!tw_py_has(t, tw_py.dtype, r->dtype)", "0", "views"),
    ("shape", "table", "!tw_py_equal(PyObject_GetAttr(t, tw_py.shape), r->shape)", "0", "views"),
    (
        "contiguous",
        "table",
        "return tw_py_says(tw_py.is_contiguous, t, tw_py.yes);",
        "return true;",
        "turned_weights",
    ),
    (
        "strides",
        "table",
        "return tw_py_equal(tw_py_call(tw_py.stride, t), r->strides);",
        "return true;",
        "views",
    ),
    ("place of a tensor", "table", "if (now == r->at)", "if (now)", "plain"),
    ("item that follows", "table", "b->items[i].data = (const void *)(uintptr_t)now;", "", "plain"),
    ("conjugate", "swift", "tw_py_says(tw_py.is_conj, t, tw_py.no)", "1", "views"),
    ("negative", "swift", "tw_py_says(tw_py.is_neg, t, tw_py.no)", "1", "negatives"),
    ("place of a large one", "table", "if (!b->items || !now", "if (!now", "large"),
    ("flags", "table", "flags != b->flags && i < b->n", "0 && i < b->n", "plain"),
    ("number of tensors", "table", "size != (ssize_t)b->n", "0", None),
    ("keys of a group", "table", "PyDict_Size(group) == b->keys[g]", "1", "hyperparameters"),
    (
        "type of a number",
        "table",
        "tw_py_type(o) != tw_py.real && tw_py_type(o) != tw_py.whole",
        "0",
        None,
    ),
    ("generators", "watch", "m->region[i].bytes) == 0;", "m->region[i].bytes) != 2000;", "draws"),
    ("copy of generators", "watch", "    if (m)\n        take(m);\n", "", None),
    ("place of a weight", "watch", "&& now == r->at)", ")", "moved_weights"),
    ("content of a weight", "watch", "digest(r) == r->known", "1", "written_weights"),
    ("version of a large weight", "watch", "version == r->version &&", "1 &&", "written_large"),
    ("look of a weight", "watch", "r->known = digest(r);", "", "plain"),
    (
        "parameters",
        "optimizer",
        "if (PyList_GetItem(list, i) != b->id[at++])",
        "if (at++ > b->n)",
        "replaced_weight",
    ),
    ("number of parameters", "optimizer", "return at == b->n;", "return true;", "groups"),
    ("gradient that came", "optimizer", "return g == tw_py.none;", "return true;", "frozen"),
    (
        "gradient that went",
        "optimizer",
        "return g != tw_py.none &&",
        "if (g == tw_py.none) return true; return",
        "gradients_gone",
    ),
    (
        "gradient itself",
        "optimizer",
        "tw_py_refers(r->reference, g) &&\n           tw_py_number(tw_py.data_ptr, g, &at)",
        "tw_py_number(tw_py.data_ptr, g, &at)",
        "gradients_replaced",
    ),
    ("place of a gradient", "optimizer", "&& at == r->at &&", "&&", "gradients_moved"),
    (
        "version of a gradient",
        "optimizer",
        "tw_py_version(g, &version) &&\n           version == r->version;",
        "1;",
        "gradients_added",
    ),
    ("content of a gradient", "optimizer", "probe(b) == b->known", "1", "gradients_data"),
    ("which gradients", "optimizer", "tw_swift_place(table, next) != i", "0", "frozen"),
    ("how many gradients", "optimizer", "next == rows && rows", "rows", "turned_gradients"),
    ("looks of a gradient", "optimizer", "!tw_swift_row(table, next, g)", "0", "gradients_turned"),
    ("moment itself", "optimizer", "tw_py_refers(m->reference, t) &&", "", None),
    ("place of a moment", "optimizer", "&& now == m->at;", ";", "changed_state"),
    ("entries of a state", "optimizer", "PyDict_Size(values) != e->entries", "0", "changed_state"),
    ("states", "optimizer", "PyDict_Size(args[1]) != (ssize_t)b->entries", "0", "changed_state"),
    ("whose state", "optimizer", "parameter == b->entry[i].parameter &&", "", "other_state"),
]
