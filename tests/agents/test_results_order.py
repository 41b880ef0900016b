# SPDX-License-Identifier: Apache-2.0
"""The order in which executors and loaders tell of results, recorded and replayed: what decides,
with futures, pools and loaders whose results the test gives by hand.
"""

import copy
import dis
import gc
import importlib.util
import os
import sys
import threading
import traceback
import weakref
from types import SimpleNamespace

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from twinrun._agent import pins, refs, results  # noqa: E402
from twinrun._agent import results_file, results_from, results_order  # noqa: E402

SECONDS = 0.2  # --replay-wait of the replays that are to be released


def fresh(name):
    """A module of Python's own library once more, for us alone."""
    package, _, last = name.rpartition(".")
    origin = importlib.util.find_spec(name).origin
    spec = importlib.util.spec_from_file_location("%s.fresh%s" % (package, last), origin)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class World:
    """A process after another: each has the folder of a run of its own."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch, self.runs = folder, monkeypatch, 0
        self.site = "job.py:7"  # of the calls
        monkeypatch.setattr(pins, "where", lambda frame: self.site)
        monkeypatch.setattr(results_from, "put_in_package", lambda *names: None)
        self.base = fresh("concurrent.futures._base")
        monkeypatch.setattr(results_from, "_futures", [])
        results_from.futures(self.base)
        self.pools = fresh("multiprocessing.pool")
        results_from.pool(self.pools)
        self.begin()

    def begin(self, recorded=None, wait=60.0, change=lambda data: data):
        self.runs += 1
        self.run = self.folder / str(self.runs)
        self.run.mkdir()
        self.monkeypatch.setattr(results, "folder", str(self.run))
        if recorded is not None:
            head = results_file.ORDER_HEAD.pack(
                results_file.ORDER_MAGIC, results_file.VERSION, int(wait * 1000)
            )
            path = results_file.order_path(str(self.run), results_order.role())
            with open(path, "wb") as file:
                file.write(change(head + recorded))
        self.process = results_order.Process()
        self.monkeypatch.setattr(results_order, "_process", self.process)
        return self

    def again(self, **named):
        self.recorded_first = self.recorded()
        return self.begin(self.recorded_first, **named)

    def recorded(self):
        (path,) = self.run.glob("results.*")
        self.process.writer.flush()
        return path.read_bytes()

    def entries(self):
        data, at, found = self.recorded(), results_file.HEAD.size, []
        while at < len(data):
            what, kind, size, _thread, call, value, _rest = results_file.BODY.unpack_from(data, at)
            text = data[at + results_file.ENTRY : at + results_file.ENTRY + size]
            found.append((what, kind, call, value, text.rstrip(b"\0").decode()))
            at += results_file.ENTRY + size
        return found

    def places(self):
        return [e[3] for e in self.entries() if e[0] == results_file.RESULT]

    def why(self):
        """What the replay was given up for."""
        return "|".join(e[4] for e in self.entries() if e[0] == results_file.GIVEN_UP)

    def futures(self, count):
        return [self.base.Future() for _ in range(count)]


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


ORDER = [4, 1, 5, 0, 3, 2]


def told_by(world, count, most=None, order=None, timeout=None):
    """order: that in which they end, each when the one before it was told of; None: all have."""
    futures, told = world.futures(count), []
    waiting = list(order or [])
    if order is None:
        for number, future in enumerate(futures):
            future.set_result(number)
    line = world.base.as_completed(set(futures), timeout)
    while len(told) != (count if most is None else most):
        if waiting:
            number = waiting.pop(0)
            futures[number].set_result(number)
        told.append(next(line).result())
    line.close()
    return told


def test_a_set_is_told_of_in_the_recorded_order(world):
    assert told_by(world, 6, order=ORDER) == ORDER
    world.again()
    assert told_by(world, 6) == ORDER == world.places()
    assert world.why() == ""
    world.again()  # a replay is a recording, too
    assert told_by(world, 6) == ORDER and told_by(world, 2) and "found one" in world.why()
    world.again()
    world.site = "job.py:8"
    assert sorted(told_by(world, 6)) == sorted(ORDER)
    assert "result 1 at job.py:8; expected no call of this kind there, found one" == world.why()


def of_two_threads(world):
    """Futures of which this thread made one, and another thread the others."""
    made = world.futures(1)
    thread = threading.Thread(target=lambda: made.extend(world.futures(2)))
    thread.start()
    thread.join()
    for number, future in enumerate(made):
        future.set_result(number)
    return made


def test_tasks_of_several_threads_have_no_order(world):
    """Which of two threads is first in submitting is another thing in each run."""
    collect = [
        lambda fs: [future.result() for future in world.base.as_completed(fs)],
        lambda fs: [future.result() for future in world.base.wait(fs).done],
    ]
    for call in collect:
        assert told_by(world, 3, order=[2, 0, 1]) == [2, 0, 1]
        world.again()
        assert sorted(call(of_two_threads(world))) == [0, 1, 2]
        if call is collect[0]:
            assert "its tasks were not submitted by one thread" in world.why()
        data = world.recorded()
        _wait, calls = results_file.load(results_file.ORDER_HEAD.pack(b"twinrso", 1, 1) + data)
        assert list(calls.values()) == [None]
        world.begin(data)
        assert sorted(call(of_two_threads(world))) == [0, 1, 2] and world.why() == ""
        world.begin()


def test_futures_without_a_number_have_no_order(world):
    """Such as copies, which nothing has made by __init__()."""
    futures = [copy.copy(future) for future in world.futures(2)]
    assert results_from.futures_of(world.base).line(futures) == (futures, False)
    assert results_from.futures_of(world.base).line(futures[:1]) == (futures[:1], True)


def test_files_of_the_order_that_are_none(world):
    for make, why in [
        (os.mkdir, "Is a directory"),
        (os.mkfifo, "cannot be read"),
        (lambda path: os.symlink("/dev/zero", path), "Too many levels of symbolic links"),
    ]:
        world.begin()
        make(results_file.order_path(str(world.run), results_order.role()))
        assert sorted(told_by(world, 3)) == [0, 1, 2] and world.base.wait(world.futures(3), 0)
        assert why in world.why()


def test_a_run_without_a_folder_leaves_nothing_where_the_job_works(world, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "folder", "")
    monkeypatch.setattr(results_order, "_process", results_order.Process())
    assert sorted(told_by(world, 3)) == [0, 1, 2]
    assert not list(tmp_path.glob("results*"))


def test_what_fails_in_writing_is_not_the_jobs(world, monkeypatch):
    def full(*args):
        raise RuntimeError("no room")

    assert told_by(world, 1) == [0]
    monkeypatch.setattr(world.process.writer, "put", full)
    assert sorted(told_by(world, 3)) == [0, 1, 2]


def test_what_cannot_be_written_is_not_kept_for_ever(world, monkeypatch):
    """A signal handler's exception may leave the lock of the writer taken."""
    monkeypatch.setattr(results_file, "WAITING_MOST", 8)
    assert told_by(world, 1) == [0]
    writer = world.process.writer
    writer.writing.acquire()
    for _ in range(3):
        assert sorted(told_by(world, 5)) == [0, 1, 2, 3, 4]
        assert len(writer.waiting) <= 8
    assert writer.path is None


def test_a_signal_handlers_exception_leaves_no_file_open(world):
    """Python runs a handler behind a call: it is done here behind each one in turn."""
    assert told_by(world, 1) == [0]
    write = world.process.writer._write
    code = list(dis.get_instructions(write.__func__.__code__))
    behind = [b.offset for a, b in zip(code, code[1:]) if a.opname.startswith("CALL")]
    raised = []

    def interrupted(at):
        def trace(frame, event, arg):
            frame.f_trace_opcodes = frame.f_code is write.__func__.__code__
            if frame.f_trace_opcodes and event == "opcode" and frame.f_lasti == at:
                raised.append(at)
                raise KeyboardInterrupt
            return trace if frame.f_trace_opcodes else None

        return trace

    before, tracer = os.listdir("/proc/self/fd"), sys.gettrace()
    for at in behind:
        sys.settrace(interrupted(at))
        try:
            write(world.process.writer.path, b"")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracer)
    assert len(raised) > 2 and os.listdir("/proc/self/fd") == before


def test_what_several_threads_fork_is_not_told_apart(monkeypatch):
    monkeypatch.setattr(results_order, "_forks", 0)

    def forked(roles):
        end, into = os.pipe()
        results_order.before_fork()
        number = os.fork()
        if number == 0:
            results_order.after_fork()
            os.write(into, results_order.role())
            os._exit(0)
        os.waitpid(number, 0)
        os.close(into)
        roles.append(os.read(end, 999).decode().partition(", fork ")[2])
        os.close(end)

    roles = []
    forked(roles)
    for _ in range(2):
        thread = threading.Thread(target=forked, args=(roles,))
        thread.start()
        thread.join()
    forked(roles)
    assert roles == ["1", "of a thread", "of a thread", "2"]


def test_hooks_of_the_end_are_recorded_to_their_end(world):
    assert told_by(world, 1) == [0]
    results_order.ends()
    (path,) = world.run.glob("results.*")
    size = path.stat().st_size
    futures = world.futures(2)
    futures[0].set_result(0)
    futures[1].set_result(1)
    line = world.base.as_completed(futures)
    next(line)
    assert path.stat().st_size == size + 2 * results_file.ENTRY + len("job.py:7") != size


def test_what_the_job_finds_of_it(world):
    """No reference that it has not made, no frame of ours, no pass through what it gives."""
    (future,) = world.futures(1)
    future.set_result(1)
    assert weakref.getweakrefcount(future) == 0 and weakref.getweakrefs(future) == []

    def failing():
        yield future
        raise KeyError("of the job")

    calls = [
        lambda: list(world.base.as_completed(failing())),
        lambda: list(world.base.as_completed(3)),
        lambda: list(world.base.as_completed([future], "soon")),
        lambda: world.base.wait(failing()),
        lambda: world.base.wait(3),
        lambda: world.base.Future(3),
    ]
    for call in calls:
        with pytest.raises((KeyError, TypeError)) as caught:
            call()
        files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert files and not [file for file in files if file.startswith(pins.FOLDER)], files

    class Listed(list):
        passes = 0

        def __iter__(self):
            Listed.passes += 1
            return super().__iter__()

    assert list(world.base.as_completed(Listed([future]))) == [future]
    assert world.base.wait(Listed([future])).done == {future} and Listed.passes == 2


def test_an_ordered_set_holds_nothing_longer(world):
    class Thing:
        pass

    things = [Thing() for _ in range(5)]
    references = [refs.to(thing) for thing in things]
    ordered = results_from.Ordered(things)
    assert list(ordered) == things and list(ordered.copy()) != [] and len(ordered | {1}) == 6
    ordered.remove(things[1])
    ordered.discard(things[3])
    ordered.add(1)
    assert ordered.pop() is things[0] and list(ordered) == [things[2], things[4], 1]
    ordered -= {things[2]}
    assert list(ordered) == [things[4], 1]
    del things
    assert [reference() is None for reference in references] == [True] * 4 + [False]


def test_half_of_them_and_more_than_were_recorded(world):
    assert told_by(world, 6, most=3, order=ORDER) == ORDER[:3]
    recording = world.recorded()
    world.again()
    assert told_by(world, 6, most=3) == ORDER[:3] and world.why() == ""
    world.begin(recording)
    told = told_by(world, 6)
    assert told[:3] == ORDER[:3] and sorted(told) == sorted(ORDER)
    assert "result 4 at " in world.why() and "expected no more results" in world.why()
    world.begin(recording)
    assert sorted(told_by(world, 5)) == [0, 1, 2, 3, 4]
    assert "expected a call for 6 results, found one for 5" in world.why()


def test_one_that_does_not_come(world):
    assert told_by(world, 3, order=[2, 0, 1]) == [2, 0, 1]
    recording = world.recorded()
    world.again(wait=SECONDS)
    assert told_by(world, 3, order=[0, 1, 2]) == [0, 1, 2] == world.places()
    assert "expected number 3 by submission; it did not come within 0 s" in world.why()
    assert (world.run / results_file.TOLD_FILE).exists()
    # another process has said so, and nobody waits for it as well
    world.begin(recording)
    (world.run / results_file.TOLD_FILE).touch()
    assert told_by(world, 3, order=[0, 1, 2]) == [0, 1, 2]
    assert "another process was released" in world.why()


def line_with_timeout(world, order, timeout, told):
    futures = world.futures(3)
    line = world.base.as_completed(futures, timeout)
    for number in order:
        futures[number].set_result(number)
        told.append(next(line).result())
    return line


def test_a_recorded_one_is_not_waited_for_behind_the_timeout(world):
    line_with_timeout(world, [2, 0, 1], 60, [])
    world.again()
    told = []
    line = line_with_timeout(world, [0], 0.1, told)
    assert told == [0] and "its timeout is over" in world.why()
    with pytest.raises(world.base.TimeoutError) as caught:
        next(line)
    frames = [frame.name for frame in caught.traceback]
    assert frames[-1] == "as_completed" and frames.count("as_completed") == 1, frames


def cancelled_and_failed(world, order):
    futures, told = world.futures(3), []
    futures[1].cancel()
    line = world.base.as_completed(futures)
    for number in order:
        if number == 1:
            futures[1].set_running_or_notify_cancel()
        else:
            futures[number].set_exception(ValueError(number))
        told.append(futures.index(next(line)))
    return told


def test_cancelled_and_failed_ones_are_results(world):
    assert cancelled_and_failed(world, [1, 2, 0]) == [1, 2, 0]
    world.again()
    assert cancelled_and_failed(world, [1, 2, 0]) == [1, 2, 0] and world.why() == ""


def test_what_is_no_future_is_the_jobs_mistake(world):
    for fs in ([1], 7):
        with pytest.raises((AttributeError, TypeError)):
            list(world.base.as_completed(fs))
        with pytest.raises((AttributeError, TypeError)):
            world.base.wait(fs)
    assert list(world.base.as_completed([])) == []
    assert sorted(f.result() for f in world.base.as_completed(iter(done(world, 2)))) == [0, 1]


def done(world, count):
    futures = world.futures(count)
    for number, future in enumerate(futures):
        future.set_result(number)
    return futures


@pytest.mark.parametrize("replay", [False, True])
def test_no_future_is_kept(world, replay):
    def line():
        return world.base.as_completed(done(world, 3))

    def walk():
        alive = []
        for future in line():
            alive.append(weakref.ref(future))
            del future
            gc.collect()
            assert alive[-1]() is None
        return len(alive)

    assert walk() == 3
    if replay:
        world.again()
        assert walk() == 3 and world.why() == ""
    assert not results_from._futures[0].numbers.held


# ---------------------------------------------------------------- wait


def waited(world, ends, timeout=None):
    """ends: which are done before each of the calls."""
    futures, told = world.futures(5), []
    pending = set(futures)
    for numbers in ends:
        for number in numbers:
            futures[number].set_result(number)
        found, pending = world.base.wait(pending, timeout, world.base.FIRST_COMPLETED)
        told.append([future.result() for future in found])
    return told


def test_wait_tells_of_those_of_the_recording(world):
    recorded = waited(world, [[3], [1, 4, 0], [], [2]][:2])
    assert recorded[0] == [3] and sorted(recorded[1]) == [0, 1, 4]
    recording = world.recorded()
    world.again()
    assert waited(world, [[3, 1, 2, 0, 4], []]) == recorded and world.why() == ""
    world.begin(recording, wait=SECONDS)
    assert waited(world, [[1], [0, 2]])[0] == [1]
    assert "it did not come within" in world.why()


def test_asking_in_vain_is_no_result(world):
    futures = world.futures(2)
    assert world.base.wait(futures, 0).not_done == set(futures)
    assert world.base.wait(futures, 0).not_done == set(futures)
    assert [e[:2] for e in world.entries()] == [(results_file.CALL, results_file.OTHER)]
    world.again()
    assert world.base.wait(futures, 0).not_done == set(futures) and world.why() == ""


# ---------------------------------------------------------------- pools


def iterator(world):
    return world.pools.IMapUnorderedIterator(SimpleNamespace(_cache={}))


def from_pool(world, come, take=None, length=None):
    """come: places in the order in which they come, the rest behind the first that is taken."""
    line, told = iterator(world), []
    for place in come[:take]:
        line._set(place, (place != 2, ValueError(place) if place == 2 else place))
    if take is None:
        line._set_length(len(come) if length is None else length)
    for _ in come[:take]:
        try:
            told.append(line.next(5))
        except ValueError as error:
            told.append(error.args[0])
    if take is None:
        with pytest.raises(StopIteration):
            line.next(5)
    else:
        with pytest.raises(world.pools.TimeoutError):
            line.next(0)
    return told


def test_a_pool_tells_of_results_in_the_recorded_order(world):
    assert from_pool(world, [3, 0, 2, 1]) == [3, 0, 2, 1] == world.places()
    recording = world.recorded()
    world.again()
    assert from_pool(world, [0, 1, 2, 3]) == [3, 0, 2, 1] and world.why() == ""
    world.begin(recording)
    assert from_pool(world, [0, 1, 2]) == [0, 1, 2]
    assert "all results have come, and it is none of them" in world.why()
    world.begin(recording, wait=SECONDS)
    assert from_pool(world, [0, 1, 2], take=2) == [0, 1]
    assert "expected number 4 by submission; it did not come within" in world.why()


def test_two_threads_take_from_one_iterator(world):
    from_two_threads(world)
    assert results_file.load(order_file(world.recorded()))[1].popitem()[1] is None
    world.again()
    assert from_two_threads(world) == [1, 0] and world.why() == ""


def from_two_threads(world):
    line, told = iterator(world), []
    for place in (1, 0):
        line._set(place, (True, place))
    line._set_length(2)
    told.append(next(line))
    thread = threading.Thread(target=lambda: told.append(next(line)))
    thread.start()
    thread.join(60)
    return told


# ---------------------------------------------------------------- loaders


class LoaderIter:
    """As PyTorch's, of which only what is replaced is there."""

    def __init__(self, come, in_order=False):
        self._in_order, self.come = in_order, list(come)
        self._reset(None, first_iter=True)

    def _reset(self, loader, first_iter=False):
        pass

    def _get_data(self):
        return self._try_get_data()[1]

    def _try_get_data(self, timeout=5.0):
        if not self.come:
            return False, None
        if isinstance(self.come[0], Exception):
            raise self.come.pop(0)
        return True, (self.come.pop(0), "batch")


def from_loader(come, count, kind):
    line = kind(come)
    return [line._get_data()[0] for _ in range(count)]


@pytest.fixture
def loader_class():
    kind = type("_MultiProcessingDataLoaderIter", (LoaderIter,), {})
    kind._reset, kind._get_data = LoaderIter._reset, LoaderIter._get_data
    results_from.loader(SimpleNamespace(_MultiProcessingDataLoaderIter=kind))
    return kind


def test_a_loader_gets_batches_in_the_recorded_order(world, loader_class):
    assert from_loader([1, 0, 3, 2], 4, loader_class) == [1, 0, 3, 2] == world.places()
    recording = world.recorded()
    world.again()
    assert from_loader([0, 1, 2, 3], 4, loader_class) == [1, 0, 3, 2] and world.why() == ""
    world.begin(recording, wait=0.0)
    assert from_loader([0, 2, 3], 3, loader_class) == [0, 2, 3]
    assert "expected number 2 by submission" in world.why()
    # what had come before a worker was gone comes before the error
    world.begin(recording)
    line = loader_class([0, 2, RuntimeError("worker exited")])
    assert [line._get_data()[0], line._get_data()[0]] == [0, 2]
    with pytest.raises(RuntimeError, match="worker exited"):
        line._get_data()
    assert "RuntimeError: worker exited" in world.why()


def test_a_loader_that_keeps_its_order_is_left_alone(world, loader_class):
    assert loader_class([1, 0], in_order=True)._get_data()[0] == 1
    assert not list(world.run.glob("results.*"))


# ---------------------------------------------------------------- processes and threads


def test_two_threads_at_one_line_have_no_order(world):
    def both():
        threads = [threading.Thread(target=told_by, args=(world, 2)) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join(60)

    both()
    world.again()
    both()
    assert world.why() == "" and len(world.places()) == 4


def test_another_thread_than_in_the_recording(world):
    told_by(world, 2), told_by(world, 2)
    (key,) = results_file.load(order_file(world.recorded()))[1]
    world.again()
    told = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: told.append(told_by(world, 2)))
        thread.start()
        thread.join(60)
    assert len(told) == 2 and "found a call in another thread" in world.why()


def test_a_forked_child_writes_a_file_of_its_own(world, monkeypatch):
    for name in ("_forks", "_forked"):
        monkeypatch.setattr(results_order, name, getattr(results_order, name))
    line = world.base.as_completed(done(world, 3))
    next(line)
    before = world.recorded()
    results_order.before_fork()
    child = os.fork()
    if child == 0:
        try:
            results_order.after_fork()
            assert len(list(line)) == 2  # its parent's: nobody looks
            told_by(world, 2)
            os._exit(0 if results_order.role().endswith(b"fork 1") else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert (world.run / ("results.%d.0" % os.getpid())).read_bytes() == before
    (made,) = world.run.glob("results.%d.*" % child)
    assert b", fork 1\0" in made.read_bytes()


def test_a_file_that_cannot_be_written_is_given_up(world, monkeypatch):
    assert told_by(world, 3, order=[2, 0, 1]) == [2, 0, 1]
    monkeypatch.setattr(world.process.writer, "left", 60)
    assert len(told_by(world, 2)) == 2 and world.entries()[-1][0] == results_file.FULL
    size = len(world.recorded())
    assert len(told_by(world, 2)) == 2 and len(world.recorded()) == size
    results_order.ends()
    assert len(world.recorded()) == size  # no end: something is missing
    world.begin()
    world.run.rename(world.folder / "gone")
    assert told_by(world, 3, order=[2, 0, 1]) == [2, 0, 1]


# ---------------------------------------------------------------- files that are not sound


def order_file(recorded, wait_ms=1000):
    head = results_file.ORDER_HEAD.pack(results_file.ORDER_MAGIC, results_file.VERSION, wait_ms)
    return head + recorded


def test_files_that_are_not_sound_are_none(world):
    told_by(world, 3, order=[2, 0, 1])
    whole = order_file(world.recorded())
    ((_key, line),) = results_file.load(whole)[1].items()
    assert list(line) == [(3, [2, 0, 1])]
    for size in range(len(whole)):  # each is none, or a part of the order
        found = results_file.load(whole[:size])
        for calls in found[1].values() if found else ():
            assert all([2, 0, 1][: len(places)] == places for _count, places in calls)
    for at in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            found = results_file.load(bytes(flipped))
            if found is not None and not 12 <= at < 16:  # how long is waited has no check
                # what says how long a text is may make the rest one that was not written whole
                assert all([2, 0, 1][: len(p)] == p for c in found[1].values() for _n, p in c)
    assert results_file.load(order_file(world.recorded(), 3600001)) is None


@pytest.mark.parametrize(
    "change", [lambda d: d[:50], lambda d: d[:-1] + b"?", lambda d: b"x" + d[1:], lambda d: b""]
)
def test_a_damaged_order_replays_nothing(world, change):
    assert told_by(world, 3, order=[2, 0, 1]) == [2, 0, 1]
    world.again(change=change)
    assert told_by(world, 3, order=[0, 1, 2]) == [0, 1, 2]
    assert "the file of the recorded order cannot be read" in world.why()


def test_a_process_that_the_recording_has_not(world):
    world.begin()
    (world.run / "order.results.00000000").touch()
    assert told_by(world, 3, order=[0, 1, 2]) == [0, 1, 2]
    assert "the recording has no order of results of this process" in world.why()


@pytest.mark.parametrize("places", [[7, 0], [0, 0], [1 << 31, 0]])
def test_places_that_there_are_not(world, places):
    call = results_order.begin(results_file.AS_COMPLETED, 2, None)
    call.put(call.begins() + b"".join(map(call.result, places)))
    world.site = "job.py:8"
    call = results_order.begin(results_file.WAIT, 2, None)
    call.put(call.begins() + b"".join(map(call.result, places)))
    world.again()
    assert len(world.base.wait(done(world, 2)).done) == 2
    assert "result 1 at job.py:8" in world.why()
    world.begin(world.recorded_first)
    world.site = "job.py:7"
    assert sorted(told_by(world, 2)) == [0, 1] and world.why() != ""
