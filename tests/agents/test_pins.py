# SPDX-License-Identifier: Apache-2.0
"""TWINRUN_PINS: each pin makes two processes equal, vary makes them differ by its seed, and without
it the job is natural. Seeds of Python and NumPy, and the order in which work is completed; PyTorch
is in test_pins_torch.py.
"""

import sys

import pytest

from pins_job import PYTHONS, job, pinned_and_shaken  # noqa: F401


# ---------------------------------------------------------------- nothing without it


def test_without_the_variable_no_pin_changes_or_imports_anything(job):
    text = """
        import concurrent.futures, multiprocessing.pool, asyncio, random, sys
        print([m for m in sys.modules if "pin_" in m and "twinrun" in m])
        print([f.__code__.co_filename.split("/")[-1] for f in
               (concurrent.futures.as_completed, concurrent.futures.wait, multiprocessing.pool.Pool.imap_unordered,
                asyncio.as_completed, multiprocessing.process.BaseProcess._bootstrap, random.Random.seed)])
        print(random.seed.__self__ is random._inst)
    """
    done = job(text)
    assert done.out.splitlines() == [
        "[]",
        # what tells of results is recorded in every run
        "['results_from.py', 'results_from.py', 'pool.py', 'results_from.py', 'pins.py', 'random.py']",
        "True",
    ]
    assert done.effects == []


@pytest.mark.parametrize("python", PYTHONS)
def test_a_pin_imports_nothing_that_the_job_does_not(job, python):
    text = """
        import sys
        print(sorted({"random", "numpy", "torch", "ctypes", "concurrent.futures", "asyncio", "multiprocessing"} & set(sys.modules)))
    """
    every = (
        "seed.python=pin,seed.numpy=pin,seed.torch=pin,threads=pin,executor-order=pin,autotune=pin"
    )
    done = job(text, every, python)
    assert done.out == "[]\n" and done.err == ""
    assert done.texts("seed.python") == ["not used: random was not imported"]
    assert done.texts("threads") == ["not used: torch was not imported"]


def test_what_cannot_be_read_is_said(job):
    done = job(
        "print(1)", "sed.python=pin,threads=hold,seed.numpy=vary,tf32=pin:x,,seed.python=pin:7"
    )
    assert done.out == "1\n" and done.err == ""
    assert done.texts("sed.python") == ["failed: unknown"]
    assert done.texts("threads") == ["failed: 'hold' is neither pin nor vary"]
    assert done.texts("seed.numpy") == ["failed: vary needs a seed, as in seed.numpy=vary:1"]
    assert done.texts("tf32") == ["failed: 'x' is not a whole number"]
    assert len(done.texts("seed.python")) == 1


# ---------------------------------------------------------------- seeds


@pytest.mark.parametrize("python", PYTHONS)
def test_random(job, python):
    first = pinned_and_shaken(
        job,
        "import random; print(random.random()); random.seed(); print(random.random())",
        "seed.python",
        python=python,
    )
    import random

    assert first.out.splitlines()[0] == str(random.Random(0).random())
    seven = job("import random; print(random.random())", "seed.python=pin:7", python)
    assert seven.out == "%s\n" % random.Random(7).random()


@pytest.mark.parametrize("python", PYTHONS)
def test_a_job_that_seeds_itself_has_its_way_and_is_reported(job, python):
    text = """
        import random
        random.seed(5)
        print(random.random(), random.seed(a=5), random.random())
    """
    plain, pinned = job(text, None, python), job(text, "seed.python=vary:3", python)
    assert pinned.out == plain.out
    assert pinned.texts("seed.python")[1:] == ["overridden: the job sets it itself, at job.py:2"]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_draw_streams_of_their_own_that_repeat(job, python, method):
    text = (
        """
        import multiprocessing, random, sys
        def draw(queue, at):
            queue.put((at, random.random(), random.seed(), random.random()))
        if __name__ == "__main__":
            context = multiprocessing.get_context(%r)
            queue = context.Queue()
            found = []
            for at in range(2):
                child = context.Process(target=draw, args=(queue, at))
                child.start(); found.append(queue.get()[1:]); child.join()
            print(random.random(), *found)
            assert len({x for f in found for x in f}) == 5, found
    """
        % method
    )
    runs = [job(text, "seed.python=pin", python) for _ in range(2)]
    assert runs[0].out == runs[1].out
    pids = {
        pid
        for pid, _rank, _role, key, text in runs[0].factors
        if key == "effect.seed.python" and text.startswith("pin")
    }
    assert len(pids) >= 3  # the parent and both children


def test_streams_are_the_same_however_processes_are_started(job):
    text = """
        import multiprocessing, random, sys
        def draw(_):
            return random.random()
        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
                print(pool.map(draw, [0, 0]))
    """
    outs = set()
    for method in ("fork", "spawn", "forkserver"):
        outs.add(job(text, "seed.python=pin", command=[sys.executable, "job.py", method]).out)
    assert len(outs) == 1


def test_os_fork(job):
    text = """
        import os, random
        def child():
            read, write = os.pipe()
            if os.fork() == 0:
                os.write(write, repr(random.random()).encode())
                os._exit(0)
            os.wait()
            return os.read(read, 99)
        found = [child(), child(), random.random()]
        assert len(set(found)) == 3
        print(found)
    """
    first = job(text, "seed.python=pin")
    assert first.out == job(text, "seed.python=pin").out
    assert [role for _pid, _rank, role, _key, _text in first.factors] == [
        "",
        "child fork 1",
        "child fork 2",
    ]


def test_numpy(job, python):
    text = """
        import numpy
        print(numpy.random.rand(), numpy.random.default_rng().random(), numpy.random.RandomState().rand(),
              numpy.random.default_rng().random(), numpy.random.Generator(numpy.random.MT19937()).random())
        numpy.random.seed(); print(numpy.random.rand())
    """
    first = pinned_and_shaken(job, text, "seed.numpy", python=python)
    assert len(set(first.out.split())) == 6
    import numpy

    assert first.out.split()[0] == str(numpy.random.RandomState(0).rand())
    seeded = job(
        "import numpy as np\nnp.random.seed(3)\nprint(np.random.rand(), np.random.default_rng(4).random())",
        "seed.numpy=vary:9",
        python,
    )
    assert seeded.out == "%s %s\n" % (
        numpy.random.RandomState(3).rand(),
        numpy.random.default_rng(4).random(),
    )
    assert seeded.texts("seed.numpy")[1] == "overridden: the job sets it itself, at job.py:2"


# ---------------------------------------------------------------- order of completion

COMPLETED = """
    import concurrent.futures, random, time
    def work(at):
        time.sleep(random.Random().random() / 50)
        return at
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {pool.submit(work, at) for at in range(16)}
        print([f.result() for f in concurrent.futures.as_completed(futures)])
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_as_completed(job, python):
    first = pinned_and_shaken(job, COMPLETED, "executor-order", python=python)
    assert first.out == "%s\n" % list(range(16))


@pytest.mark.parametrize("python", PYTHONS)
def test_as_completed_ends_as_without_us(job, python):
    text = """
        import concurrent.futures as c, threading
        stop = threading.Event()
        def fail():
            raise KeyError("k")
        with c.ThreadPoolExecutor(4) as pool:
            a, b, d = pool.submit(fail), pool.submit(stop.wait), pool.submit(int, "5")
            last = pool.submit(stop.wait); cancelled = c.Future(); cancelled.cancel()
            c.wait([a, d])
            found = []
            try:
                for future in c.as_completed([a, d, b, last, a], timeout=0.2):
                    found.append(type(future.exception()).__name__)
            except c.TimeoutError as error:
                print(error)
            print(sorted(found))
            print(*(len(s) for s in c.wait([a, b, d], 0.1)), len(c.wait([b], 0.05, c.FIRST_COMPLETED).done))
            print(list(c.as_completed([])), c.wait([a, a, d], return_when=c.FIRST_COMPLETED).done <= {a, d})
            stop.set()
        print(type(c.wait([a]).done | {1}) is not None, len(c.wait([a, d]).done.copy()), c.wait([d]).done == {d})
    """
    plain, pinned = job(text, None, python), job(text, "executor-order=pin", python)
    assert pinned.out == plain.out != "" and pinned.err == plain.err


def test_first_completed_and_sets_come_in_order(job):
    text = """
        import concurrent.futures as c, random, time
        def work(at):
            time.sleep(random.Random().random() / 50)
            return at
        with c.ThreadPoolExecutor(4) as pool:
            pending, found = {pool.submit(work, at) for at in range(8)}, []
            while pending:
                done, pending = c.wait(pending, return_when=c.FIRST_COMPLETED)
                found += [f.result() for f in done]
            print(found)
            print([f.result() for f in c.wait([pool.submit(work, at) for at in range(8)]).done])
    """
    assert job(text, "executor-order=pin").out == "[0, 1, 2, 3, 4, 5, 6, 7]\n" * 2


@pytest.mark.parametrize("python", PYTHONS)
def test_imap_unordered(job, python):
    text = """
        import multiprocessing.pool, random, time
        def work(at):
            time.sleep(random.Random().random() / 50)
            return at
        with multiprocessing.pool.ThreadPool(4) as pool:
            print(list(pool.imap_unordered(work, range(12))), list(pool.imap_unordered(work, range(12), 2)))
    """
    first = pinned_and_shaken(job, text, "executor-order", python=python)
    assert first.out == "%s %s\n" % (list(range(12)), list(range(12)))
    shaken = job(text, "executor-order=vary:5", python).out
    assert sorted(eval(shaken.split("] [")[0] + "]")) == list(range(12))


@pytest.mark.parametrize("python", PYTHONS)
def test_asyncio_as_completed(job, python):
    text = """
        import asyncio, random
        async def work(at):
            await asyncio.sleep(random.Random().random() / 50)
            if at == 3:
                raise KeyError(at)
            return at
        async def main():
            found = []
            for one in asyncio.as_completed([work(at) for at in range(10)]):
                try:
                    found.append(await one)
                except KeyError as error:
                    found.append(repr(error))
            print(found)
            try:
                for one in asyncio.as_completed([asyncio.sleep(9), work(1)], timeout=0.1):
                    await one
            except asyncio.TimeoutError:
                print("timeout")
            try:
                list(asyncio.as_completed(asyncio.sleep(0)))
            except TypeError as error:
                print("TypeError")
        asyncio.run(main())
    """
    first = pinned_and_shaken(job, text, "executor-order", python=python)
    assert first.out.splitlines()[0] == "[0, 1, 2, 'KeyError(3)', 4, 5, 6, 7, 8, 9]"
    assert first.out.splitlines()[1:] == ["timeout", "TypeError"]
