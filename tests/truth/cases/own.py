# SPDX-License-Identifier: Apache-2.0
"""Cases of kinds that nobody had listed, in what is recorded: (id, expected, why, job).

Expected: "same", "differ" or "not WORD". What a job shows besides is in shown.py.
"""

CASES = [
    (
        "accumulation-drops-a-micro-batch",
        "differ",
        "one of three micro-batches is missing in step 2",
        """
        w = 1.0
        for s in range(5):
            for micro in range(2 if SECOND and s == 2 else 3):
                rec("batch:x", s, micro)
                rec("gradient:w", 0.1 * micro)
            rec("weight:w", w)
            twinrun.step()
    """,
    ),
    (
        "accumulation-counts-one-twice",
        "differ",
        "the same micro-batch comes twice, the other one never",
        """
        for s in range(4):
            for micro in (0, 0) if SECOND and s == 3 else (0, 1):
                rec("batch:x", s, micro)
            rec("weight:w", s)
            twinrun.step()
    """,
    ),
    (
        "ema-copy-drifts",
        "differ",
        "the weights agree, their moving average does not",
        """
        ema = 0.0
        for s in range(6):
            rec("batch:x", s)
            rec("weight:w", s * 0.5)
            ema = 0.9 * ema + (0.1 if not SECOND else 0.1000001) * s
            rec("ema", ema)
            twinrun.step()
    """,
    ),
    (
        "schedule-off-by-one",
        "differ",
        "the learning rate changes one step later",
        """
        for s in range(6):
            rec("batch:x", s)
            rec("hyper:lr", 0.1 if s < 3 + SECOND else 0.01)
            rec("weight:w", s * 1.0)
            twinrun.step()
    """,
    ),
    (
        "scaler-skips-a-step",
        "differ",
        "an update is left out, and the next one makes up for it",
        """
        w = 1.0
        for s in range(6):
            rec("batch:x", s)
            if not (SECOND and s == 3):
                w -= 0.1 * (2 if SECOND and s == 4 else 1)
            rec("weight:w", w)
            twinrun.step()
    """,
    ),
    (
        "tied-weights",
        "same",
        "one tensor under two names",
        """
        for s in range(4):
            rec("batch:x", s)
            for name in ("weight:embed", "weight:head"):
                rec(name, s, s + 1)
            twinrun.step()
    """,
    ),
    (
        "tied-weights-come-apart",
        "differ",
        "one of the two names holds something else in the last step",
        """
        for s in range(4):
            rec("batch:x", s)
            rec("weight:embed", s, s + 1)
            rec("weight:head", s, s + 1 + (SECOND and s == 3))
            twinrun.step()
    """,
    ),
    (
        "running-mean",
        "differ",
        "a buffer alone differs",
        """
        for s in range(4):
            rec("batch:x", s)
            rec("weight:w", s)
            rec("weight:running_mean", 0.1 * s + (1e-9 if SECOND and s >= 2 else 0))
            twinrun.step()
    """,
    ),
    (
        "another-dtype",
        "differ",
        "equal values in single and double precision",
        """
        for s in range(3):
            rec("batch:x", s)
            rec("weight:w", 0.5 * s, code="f" if SECOND else "d")
            twinrun.step()
    """,
    ),
    (
        "rounded-to-bfloat16",
        "differ",
        "a weight was rounded on its way",
        """
        import struct
        for s in range(3):
            rec("batch:x", s)
            w = 1.0 + s / 1000
            if SECOND and s == 1:
                w, = struct.unpack(">f", struct.pack(">f", w)[:2] + bytes(2))
            rec("weight:w", w, code="f")
            twinrun.step()
    """,
    ),
    (
        "empty-tensors",
        "same",
        "tensors without elements",
        """
        for s in range(3):
            rec("batch:x")
            rec("weight:w", s)
            twinrun.step()
    """,
    ),
    (
        "empty-and-not",
        "differ",
        "a tensor has no element in one run",
        """
        for s in range(3):
            rec("batch:x", *([] if SECOND and s == 1 else [0.0]))
            rec("weight:w", s)
            twinrun.step()
    """,
    ),
    (
        "same-nan",
        "same",
        "NaN is equal to itself here",
        """
        for s in range(3):
            rec("batch:x", float("nan"))
            rec("weight:w", float("inf"), s)
            twinrun.step()
    """,
    ),
    (
        "nan-payload",
        "differ",
        "two NaN with other bits",
        """
        import struct
        for s in range(3):
            bits = 0x7FF8000000000001 if SECOND and s == 1 else 0x7FF8000000000000
            twinrun.record("batch:x", array.array("d", struct.pack("=Q", bits)))
            rec("weight:w", s)
            twinrun.step()
    """,
    ),
    (
        "minus-zero",
        "differ",
        "-0.0 and 0.0",
        """
        for s in range(3):
            rec("batch:x", s)
            rec("weight:w", -0.0 if SECOND and s == 2 else 0.0)
            twinrun.step()
    """,
    ),
    (
        "other-order-of-names",
        "same",
        "two independent weights are recorded in another order",
        """
        for s in range(3):
            rec("batch:x", s)
            for name in sorted(("weight:a", "weight:b"), reverse=SECOND):
                rec(name, s, len(name))
            twinrun.step()
    """,
    ),
    (
        "batches-exchanged",
        "differ",
        "the batches of two steps change places",
        """
        order = [0, 1, 2, 3]
        if SECOND:
            order[1], order[2] = order[2], order[1]
        for s in order:
            rec("batch:x", s)
            rec("weight:w", 1.0)
            twinrun.step()
    """,
    ),
    (
        "one-step-less",
        "differ",
        "the second run ends a step earlier, with exit code 0",
        """
        steps(6 - SECOND)
    """,
    ),
    (
        "last-step-torn",
        "differ",
        "the last step has a record less and was not ended",
        """
        steps(4)
        rec("batch:x", 9)
        if not SECOND:
            rec("weight:w", 9)
    """,
    ),
    (
        "killed",
        "differ",
        "a signal ends the second run",
        """
        steps(3)
        if SECOND:
            os.kill(os.getpid(), 9)
    """,
    ),
    (
        "exit-code",
        "differ",
        "exit code 3 in the second run, equal records",
        """
        steps(3)
        sys.exit(3 * SECOND)
    """,
    ),
    (
        "a-rank-prints",
        "not same",
        "the results of rank 1 stand in its lines only",
        """
        import subprocess
        code = "import os; print('rank', os.environ['RANK'], 'loss', %r)"
        for rank, loss in ((0, 0.5), (1, 0.25 + 0.125 * SECOND)):
            env = dict(os.environ, RANK=str(rank))
            subprocess.run([sys.executable, "-c", code % loss], env=env)
        steps(2)
    """,
    ),
    (
        "a-child-trains",
        "not same",
        "the training is in a child process, and differs there",
        """
        import subprocess
        code = '''
        import array, sys, twinrun
        for s in range(4):
            twinrun.record("batch:x", array.array("d", [s]))
            w = s + (float(sys.argv[1]) if s == 2 else 0)
            twinrun.record("weight:w", array.array("d", [w]))
            twinrun.step()
        '''
        import textwrap
        code = textwrap.dedent(code)
        subprocess.run([sys.executable, "-c", code, "0.5" if SECOND else "0"], check=True)
        rec("done", 1.0)
    """,
    ),
    (
        "a-child-is-missing",
        "not same",
        "a child that trained in the first run is not started in the second",
        """
        import subprocess
        code = "from prelude import rec, twinrun; [(rec('batch:x', s), rec('weight:w', s),"
        code += " twinrun.step()) for s in range(3)]"
        for k in range(2 - SECOND):
            subprocess.run([sys.executable, "-c", code], check=True)
    """,
    ),
    (
        "thread-pool",
        "same",
        "four threads, a name for each task",
        """
        from concurrent.futures import ThreadPoolExecutor
        def task(k):
            with twinrun.scope("task%d" % k):
                rec("activation:y", k * k)
        with ThreadPoolExecutor(4) as pool:
            for s in range(4):
                rec("batch:x", s)
                list(pool.map(task, range(8)))
                rec("weight:w", s)
                twinrun.step()
    """,
    ),
    (
        "thread-pool-differs",
        "differ",
        "one task of one step gives another result",
        """
        from concurrent.futures import ThreadPoolExecutor
        def task(k):
            with twinrun.scope("task%d" % (k % 8)):
                rec("activation:y", k * k + (1e-12 if SECOND and k == 13 else 0))
        with ThreadPoolExecutor(4) as pool:
            for s in range(4):
                rec("batch:x", s)
                list(pool.map(task, range(8 * s, 8 * s + 8)))
                rec("weight:w", s)
                twinrun.step()
    """,
    ),
    (
        "sign-of-a-gradient",
        "differ",
        "a gradient turns its sign, the weight does not feel it",
        """
        for s in range(3):
            rec("batch:x", s)
            rec("gradient:w", -0.1 if SECOND and s == 1 else 0.1)
            rec("weight:w", 1.0)
            twinrun.step()
    """,
    ),
    (
        "only-a-hyperparameter",
        "differ",
        "weight decay differs, with no effect yet",
        """
        for s in range(3):
            rec("batch:x", s)
            rec("hyper:weight_decay", 0.01 + 0.01 * SECOND)
            rec("weight:w", 1.0)
            twinrun.step()
    """,
    ),
    (
        "nothing-recorded-printed-alike",
        "not differ",
        "a job that shows nothing but equal lines",
        """
        print("loss 0.5")
    """,
    ),
    (
        "nothing-at-all",
        "not same",
        "a job that shows nothing",
        """
        pass
    """,
    ),
]
