# SPDX-License-Identifier: Apache-2.0
"""What a PyTorch job could see of the agent: each job is run alone and under `twinrun record`, and
must print the same.

A job here asks for one thing that a watcher easily changes: who refers weakly to its tensors,
whether an exception of its signal handlers arrives, which memory is free, how deep it may recurse.
The trace is read afterwards: an agent that has switched itself off would pass each of these tests.
"""

import os
import subprocess
import sys
import textwrap

import pytest
from corpus_run import BUILD, PYTHON, ROOT, TWINRUN, environment

sys.path.insert(0, str(ROOT / "python"))
from twinrun.trace import Trace  # noqa: E402


def _has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + BUILD),
    pytest.mark.skipif(not _has_torch(), reason="no PyTorch"),
]


class Ended:
    """How a job ended alone or watched; of a watched one, what the trace says."""

    def __init__(self, argv, folder, env):
        done = subprocess.run(
            argv,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )
        self.seen = (done.returncode, done.stdout, done.stderr)

    def __eq__(self, other):
        return self.seen == other.seen

    def __repr__(self):
        return "exit %d\n--- stdout\n%s--- stderr\n%s" % self.seen


def _notes(home):
    found = []
    for path in sorted(home.rglob("*.twt")):
        with Trace.open(path) as t:
            found += t.notes
    return found


@pytest.fixture
def both(tmp_path):
    """both(text, *options, level, folder): runs the job alone and watched; checks that both end
    alike and the agent went on.

    Returns what it printed.
    """

    def run(text, *options, level="tensors", folder="job"):
        work = tmp_path / folder
        work.mkdir(parents=True, exist_ok=True)
        script = work / "job.py"
        script.write_text(textwrap.dedent(text))
        env = environment(tmp_path / "home", work, "torch")
        alone = Ended([PYTHON, *options, str(script)], work, env)
        command = [TWINRUN, "record", "-q", "--level", level, "--", PYTHON, *options, str(script)]
        watched = Ended(command, work, env)
        assert alone.seen[0] == 0, alone
        assert watched == alone
        notes = _notes(tmp_path / "home")
        assert notes and not [value for key, value in notes if key == b"agent.error"], notes
        return watched.seen[1]

    return run


TRAINED = """
import torch
from torch import nn

torch.manual_seed(1)

def trained(steps=3, size=4):
    model = nn.Sequential(nn.Linear(size, size), nn.Linear(size, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(torch.randn(2, size))
        output.sum().backward()
        optimizer.step()
    return model, optimizer, output
"""


# ---------------------------------------------------------------- weak references


def test_nobody_finds_weak_references(both):
    printed = both(
        """
        import weakref, _weakref
        from weakref import getweakrefs, getweakrefcount
        """
        + TRAINED.replace("\n", "\n        ")
        + """
        model, optimizer, output = trained()
        loader = torch.utils.data.DataLoader(torch.arange(4))
        for batch in loader:
            pass
        for thing in (model, model[0], model[0].weight, model[0].weight.grad, optimizer, output, loader, batch):
            own = weakref.ref(thing)
            assert own is weakref.ref(thing)
            print(type(thing).__name__, getweakrefs(thing) == [own], weakref.getweakrefcount(thing), getweakrefcount(thing),
                  len(_weakref.getweakrefs(thing)), weakref.getweakrefs.__module__)
        """
    )
    assert "Parameter True 1 1 1 _weakref" in printed


def test_trained_weights_can_be_swapped(both):
    both(
        TRAINED
        + """
model, optimizer, _output = trained()
torch.__future__.set_swap_module_params_on_conversion(True)
kept = model[0].weight
model.double()
print(kept is model[0].weight, kept.dtype)
model.float().load_state_dict(trained()[0].state_dict())
torch.__future__.set_swap_module_params_on_conversion(False)
a, b = trained()[0], trained()[0]
torch.utils.swap_tensors(a[0].weight, b[0].weight)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
print(model[0].weight, a[0].weight)
"""
    )


def test_weights_of_a_wrapper_class_can_be_moved(both):
    both(
        TRAINED
        + """
class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, _context, _size, _stride):
        return Wrapped(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        plain = [a.inner if isinstance(a, Wrapped) else a for a in args]
        result = function(*plain, **(kwargs or {}))
        return Wrapped(result) if isinstance(result, torch.Tensor) else result

model = nn.Linear(3, 3, bias=False)
model.weight = nn.Parameter(Wrapped(torch.ones(3, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for kind in (torch.float64, torch.float32):
    model.to(kind)
    print(model(torch.ones(1, 3, dtype=kind)).inner, type(model.weight.data).__name__, model.weight.inner.dtype)
    optimizer.step()
"""
    )


# ---------------------------------------------------------------- exceptions of signal handlers

HANDLERS = (
    TRAINED
    + """
import functools, random, signal, sys, time
class Alarm(%(base)s):
    pass

def raises(number, frame):
    global sent
    sent += 1
    raise Alarm("alarm %%d" %% sent)

def forgets(number, frame):
    number = frame = None
    global sent
    sent += 1
    raise Alarm

class Handler:
    def __call__(self, *given):
        raises(*given)

class Method:
    def handle(self, number, frame):
        raises(number, frame)

def prefixed(_first, number, frame):
    raises(number, frame)

handlers = [raises, forgets, Handler(), Method().handle, functools.partial(prefixed, 1), lambda *given: raises(*given)]
sent = caught = 0
model, optimizer, _output = trained(8)
random.seed(1)
while sent < 150:
    signal.signal(signal.SIGALRM, handlers[sent %% len(handlers)])
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.004))
        for _ in range(10000):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    except Alarm:
        caught += 1
        torch.set_grad_enabled(True)    # the alarm may have come while an optimizer was about to do so
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
print(sent, caught)
"""
)


@pytest.mark.parametrize("folder, base", [("torch/job", "RuntimeError"), ("job", "BaseException")])
def test_exceptions_of_signal_handlers_arrive(both, folder, base):
    assert both(HANDLERS % {"base": base}, folder=folder) == "150 150\n"


# A Stop comes only while the job is in its `try`, since the other thread waits for `wanted`; and
# anywhere in it, also in a hook of ours or while the optimizer is about to switch gradients on
# again.
STOPS = (
    TRAINED
    + """
import ctypes, random, sys, threading, time
class Stop(Exception):
    pass

def stops(thread, times):
    global sent
    while sent < times:
        if wanted > sent:
            time.sleep(random.uniform(0.0001, 0.001))
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stop))
            sent += 1
        time.sleep(0.0001)

model, optimizer, _output = trained(8)
random.seed(1)
sys.setswitchinterval(%s)
wanted = sent = caught = 0
other = threading.Thread(target=stops, args=(threading.get_ident(), %d))
other.start()
for i in range(%d):
    late = 0
    try:
        wanted = i + 1
        while late < 3:
            late += sent > i    # it has been sent, and comes before the step ends
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    except Stop:
        caught += 1
        torch.set_grad_enabled(True)
other.join()
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
print(sent, caught)
"""
)


# Every 5 ms another thread may have the interpreter's lock, which torch's operators let go before;
# with the shorter time it gets it between any two lines.
@pytest.mark.parametrize("interval", [0.005, 1e-6])
def test_exceptions_from_another_thread_arrive(both, interval):
    assert both(STOPS % (interval, 300, 300)) == "300 300\n"


# The same without chance: an exception of the job's at each place in turn, of those in the agent's
# account of gradients, where Python lets other threads and signals in. A line of the job writes to
# a gradient in some steps, so that the account is made anew there.
EACH_PLACE = (
    TRAINED
    + """
import dis, itertools, os, sys
class Stop(Exception):
    pass

LET_IN = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION", "CALL_FUNCTION_EX", "CALL_METHOD",
                                       "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RESUME") if name in dis.opmap}

class Stops:
    def __init__(self, left):
        self.left, self.came, self.before = left, False, {}

    def enters(self, frame, event, _arg):
        path = frame.f_code.co_filename
        if "_agent" in path and os.path.basename(path) == "gradients.py":
            frame.f_trace_opcodes = True
            return self.sees

    def sees(self, frame, event, _arg):
        if event == "return":
            self.before.pop(frame, None)
        elif event == "opcode":
            before = self.before.get(frame)
            self.before[frame] = frame.f_code.co_code[frame.f_lasti]
            self.left -= before in LET_IN
            if not self.left and not self.came:
                self.came = True
                raise Stop
        return self.sees

def step(writes):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    if writes:
        model[0].weight.grad.mul_(2.0)
    optimizer.step()

model, optimizer, _output = trained(8)
lost = 0
for writes in (False, True):
    for place in itertools.count(1):
        step(not writes)
        stops = Stops(place)
        try:
            sys.settrace(stops.enters)
            step(writes)
            sys.settrace(None)
            lost += stops.came
        except Stop:
            sys.settrace(None)
            torch.set_grad_enabled(True)
        step(writes)
        if not stops.came:
            break
print(lost)
"""
)


def test_an_exception_at_each_place_arrives(both):
    assert both(EACH_PLACE) == "0\n"


# What a hook copies without gradients: a batch that is no plain memory. Nothing of the job itself
# switches gradients off, so an exception that finds them off has found them so by our doing.
BATCHES = """
import random, signal, torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, dtype=torch.cfloat))

    def forward(self, x):
        return (x * self.weight).sum()

class Alarm(Exception):
    pass

def raises(number, frame):
    raise Alarm

random.seed(1)
model, off = Model(), 0
optimizer = torch.optim.SGD(model.parameters(), 0.0)
for _ in range(3):
    model(torch.ones(4, dtype=torch.cfloat).conj()).abs().backward()
    optimizer.step()
signal.signal(signal.SIGALRM, raises)
for i in range(600):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.0006))
        while True:
            model(torch.ones(4, dtype=torch.cfloat).conj())
    except Alarm:
        off += not torch.is_grad_enabled()
        torch.set_grad_enabled(True)
print(i, off)
"""


def test_gradients_stay_on_whenever_an_exception_comes(both):
    assert both(BATCHES) == "599 0\n"


# ---------------------------------------------------------------- compilers


def test_gradients_in_torchscript(both):
    both("""
        import torch

        @torch.jit.script
        def taken(x):
            return torch.autograd.grad([(x * x).sum()], [x])[0]

        @torch.jit.script
        def left(x):
            torch.autograd.backward([(x * x).sum()])
            return x

        x = torch.ones(3, requires_grad=True)
        print(taken(x), left(x).grad)
        torch.nn.Linear(3, 1)(x).sum().backward()
        print(x.grad.shape)
        """)


def test_compiled_functions_do_not_warn(both):
    """Of an optimizer's step, of a function that calls backward, of one that may have no break:
    torch's own warnings only.
    """
    printed = both("""
        import logging, os, warnings
        import torch
        from torch import nn
        logging.disable(logging.CRITICAL)    # lines with a time and a process
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1), nn.Linear(2, 1))
        optimizer = torch.optim.Adam(model.parameters())

        @torch.compile(backend="eager")
        def trained(x):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            return loss * 2

        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            step = torch.compile(optimizer.step, backend="eager")
            for _ in range(3):
                print(trained(torch.ones(3, 2)))
                step()
            whole = torch.compile(model.eval(), backend="eager", fullgraph=True)
            print(whole(torch.ones(1, 2)), [p.sum() for p in model.parameters()])
        for each in sorted({(w.category.__name__, os.path.basename(w.filename), str(w.message)) for w in found}):
            print(*each)
        """)
    assert "core.py" not in printed


# ---------------------------------------------------------------- frames


def test_warnings_name_the_line_that_they_name_alone(both):
    both("""
        import torch, warnings
        from torch import nn
        warnings.simplefilter("always")
        model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        model.register_full_backward_hook(lambda m, i, o: warnings.warn("in a hook", stacklevel=4))
        model[1].register_forward_hook(lambda m, i, o: warnings.warn("of a caller", stacklevel=5))
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        torch.autograd.grad(model(torch.ones(1, 2)).sum(), model[0].weight, only_inputs=False)
        torch.autograd.backward(model(torch.ones(1, 2)).sum(), grad_variables=torch.ones(()))
        """)


def test_modules_nest_as_deep_as_alone(both):
    printed = both("""
        import torch
        from torch import nn

        class Nest(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x)

        def deepest(model):
            for depth in range(1, 1000):
                model = Nest(model)
                if depth > 250:
                    try:
                        model(torch.ones(1, 1))
                    except RecursionError:
                        return depth

        print(deepest(nn.Linear(1, 1)), deepest(nn.Identity()))
        """)
    assert "None" not in printed


def test_tracing_and_getattribute_of_the_job_see_nothing_of_modules_and_gradients(both):
    both("""
        import sys
        import torch
        from torch import nn
        calls, asked = [], []

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(2, 2)
                self.drop = nn.Dropout(0.1)

            def __getattribute__(self, name):
                asked.append(name)
                return super().__getattribute__(name)

            def forward(self, x):
                return self.drop(self.linear(x))

        class Steps(torch.optim.Adam):
            def __getattribute__(self, name):
                asked.append("optimizer." + name)
                return super().__getattribute__(name)

        def trace(frame, event, arg):
            calls.append((event, frame.f_code.co_name, frame.f_lineno))
            return trace

        def step(traced):
            optimizer.zero_grad()
            sys.settrace(trace if traced else None)
            loss = model(torch.ones(1, 2)).sum()
            loss.backward()
            gradient = torch.autograd.grad(model(torch.ones(1, 2)).sum(), list(model.parameters()))
            sys.settrace(None)
            optimizer.step()

        torch.manual_seed(1)
        model = Net()
        optimizer = Steps(model.parameters())
        step(False)
        print(asked)
        del asked[:]
        step(True)
        print(asked)
        for call in calls:
            print(*call)
        """)


# ---------------------------------------------------------------- memory


def test_what_a_job_lets_go_is_free(both):
    printed = both("""
        import gc, sys, weakref
        import torch
        from torch import nn

        def gone(*references):
            return [reference() is None for reference in references]

        model, large = nn.Linear(1, 1), nn.Parameter(torch.zeros(70000))
        optimizer = torch.optim.Adam([large, *model.parameters()])
        for _ in range(20):
            optimizer.zero_grad()
            (model(torch.ones(1, 1)).sum() + large.sum()).backward()
            optimizer.step()
        print(sys.getrefcount(large), sys.getrefcount(optimizer), sys.getrefcount(optimizer.state[large]["exp_avg"]))
        moments = [weakref.ref(t) for t in optimizer.state[large].values()]
        optimizer.state.clear()
        print("moments", gone(*moments))
        gradient = weakref.ref(large.grad)
        large.grad = None
        reference = weakref.ref(large)
        optimizer.param_groups[0]["params"].remove(large)
        del large
        print("weight and gradient", gone(reference, gradient))

        class Views(nn.Module):
            def forward(self, x):
                return {"list": [x * 2], "view": x.view(-1)[1:]}

        views = Views()
        output = views(torch.zeros(1000))
        references = [weakref.ref(output["list"][0]), weakref.ref(output["view"])]
        del output
        print("output", gone(*references))
        x = torch.zeros(1000, requires_grad=True)
        loss = (x * 2).sum()
        taken, = torch.autograd.grad(loss, x)
        references = [weakref.ref(t) for t in (x, loss, taken)]
        del x, loss, taken
        print("gradient", gone(*references))

        weight = nn.Parameter(torch.zeros(1000))
        steps = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        weight.register_post_accumulate_grad_hook(lambda p: steps.step())
        for _ in range(2):
            (weight * 1).sum().backward()
        references = [weakref.ref(weight), weakref.ref(steps)]
        del weight, steps
        gc.collect()
        print("a cycle", gone(*references))
        """)
    assert "False" not in printed


def test_an_optimizer_that_ends_early_has_its_last_look_in_a_cycle_too(tmp_path):
    """Its parameters refer to it by a hook: only the garbage collector frees them, together."""
    work = tmp_path / "job"
    work.mkdir()
    (work / "job.py").write_text(
        textwrap.dedent("""
        import gc, torch
        weight = torch.nn.Parameter(torch.zeros(70000))
        steps = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        weight.register_post_accumulate_grad_hook(lambda p: steps.step())
        for _ in range(20):
            (weight * torch.arange(70000.0)).sum().backward()
        del weight, steps
        gc.collect()
        """)
    )
    env = environment(tmp_path / "home", work, "torch")
    done = Ended([TWINRUN, "record", "-q", "--", PYTHON, "job.py"], work, env)
    assert done.seen == (0, "", "")
    (path,) = (tmp_path / "home").rglob("*.twt")
    with Trace.open(path) as trace:
        last = [trace.key(record) for record in trace.records() if record.step == 20]
    weights = [key for key in last if "70000" in str(key) or "[" in str(key)]
    assert len(weights) == 2 * 16, last
