# SPDX-License-Identifier: Apache-2.0
"""Kinds of cases on which version 0.1 gave a wrong verdict, written anew.

(id, expected, why, job) as in own.py. With {"a": ARGUMENTS, "b": ARGUMENTS} behind them the case
compares two commands; "options" go to check.
"""

ARM = """
    first, last, lr = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    bad = 3.0 if len(sys.argv) > 4 else 0.0
    w = 2.0 - sum(lr * 0.25 * (i % 2 + 1) for i in range(first))
    rec("init:w", w)
    for i in range(first, last):
        rec("batch:x", i + bad)
        rec("gradient:w", 0.25 * (i % 2 + 1))
        w -= lr * 0.25 * (i % 2 + 1) - bad
        rec("weight:w", w)
        twinrun.step()
"""
NOISY = """
    import random
    noise = random.SystemRandom()
    rec("epoch", 3.0)
    print(%s)
"""


def line(text, *values):
    return NOISY % ('"%s" %% (%s)' % (text, ", ".join(values)))


def some(low, high):
    """Drawn from the lower half in the first run and from the upper one in the second: two runs
    that draw the same of what is shown would rightly be the same.
    """
    return "%s + %s * (0.51 * SECOND + 0.49 * noise.random())" % (low, high - low)


CASES = [
    (
        "arm-behind-the-end",
        "not same",
        "B begins where A ends",
        ARM,
        {"a": "0 8 0.5", "b": "8 11 0.5 bad"},
    ),
    ("arm-of-one-step", "not same", "1 of 8 steps", ARM, {"a": "0 8 0.5", "b": "0 1 0.5"}),
    (
        "arm-starts-behind-the-end",
        "not same",
        "--b-starts-at 50 of 8",
        ARM,
        {"a": "0 8 0.5", "b": "3 9 0.5 bad", "options": ["--b-starts-at", "50"]},
    ),
    (
        "arm-resumed-at-an-epoch",
        "same",
        "a resumed job that goes on as it should",
        ARM,
        {"a": "0 8 0.5", "b": "4 8 0.5"},
    ),
    (
        "arm-without-a-step",
        "not same",
        "B never steps, and its weight is another",
        """
        if len(sys.argv) > 1:
            rec("init:w", 2.0), rec("batch:x", 7), rec("weight:w", 55.0)
        else:
            rec("init:w", 2.0)
            steps(5)
    """,
        {"a": "", "b": "none"},
    ),
    (
        "arm-loses-a-rank",
        "not same",
        "rank 1 of B records nothing",
        """
        import subprocess
        for rank in range(2):
            env = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", CASE_CHILD="1")
            if "CASE_CHILD" in os.environ or (rank and len(sys.argv) > 1):
                continue
            code = "from prelude import rec, twinrun; [(rec('batch:x', s), rec('weight:w', s),"
            code += " twinrun.step()) for s in range(3)]"
            subprocess.run([sys.executable, "-c", code], env=env, check=True)
    """,
        {"a": "", "b": "lost"},
    ),
    (
        "arms-that-print",
        "not same",
        "two commands that print other results",
        """
        print("test accuracy %s" % sys.argv[1])
    """,
        {"a": "0.91", "b": "0.87"},
    ),
    (
        "printed-digest",
        "not same",
        "a digest of the weights in a line",
        """
        rec("epoch", 1.0)
        print("model sha1:", os.urandom(20).hex())
    """,
    ),
    (
        "printed-class",
        "not same",
        "another class is predicted",
        """
        rec("epoch", 1.0)
        print("predicted class:", ["ship", "frog", "deer"][SECOND])
    """,
    ),
    (
        "metrics",
        "not same",
        "metrics.json holds another score",
        """
        import json
        json.dump({"f1": 0.5 + 0.01 * SECOND}, open("metrics.json", "w"))
        steps(3)
    """,
    ),
    (
        "result-files",
        "not same",
        "a model and predictions out of nowhere",
        """
        rec("epoch", 1.0)
        open("net.onnx", "wb").write(os.urandom(300))
        open("pred.csv", "w").write("id,y\\n1,%d\\n" % (os.urandom(1)[0] + 256 * SECOND))
    """,
    ),
    (
        "files-in-log-folders",
        "not same",
        "an array below a folder of logs, and an .out file",
        """
        import struct
        os.makedirs("logs/version_0")
        open("logs/version_0/embedding.npy", "wb").write(os.urandom(500))
        open("result.out", "wb").write(os.urandom(500))
        rec("epoch", 1.0)
    """,
    ),
    (
        "num-is-a-result",
        "not same",
        "num_hits is no process number",
        line("num_hits=%d", some(0, 9999)),
    ),
    (
        "time-loss-is-a-result",
        "not same",
        "time_loss is a loss",
        line("time_loss: %.4f", some(1, 9)),
    ),
    (
        "ratios-are-no-clock",
        "not same",
        "recall@5:%d is no time of day",
        line("recall@5:%d top5:%d", some(10, 60), some(10, 60)),
    ),
    (
        "eta-is-a-parameter",
        "not same",
        "xgboost's eta",
        line("params: eta=%.3f depth=6", some(0.1, 0.9)),
    ),
    (
        "min-is-no-minute",
        "not same",
        "the worst of three seeds",
        line("accuracy %.3f min over 3 seeds", some(0.5, 0.9)),
    ),
    (
        "meter-of-imagenet",
        "same",
        "meters of time beside results",
        line(
            "Epoch: [0][  20/5005]\\tTime  %.3f ( %.3f)\\tData  %.3f ( %.3f)\\tLoss 6.8e+00",
            some(0.1, 0.9),
            some(0.1, 0.9),
            some(0.1, 0.9),
            some(0.1, 0.9),
        ),
    ),
    (
        "meter-of-nanogpt",
        "same",
        "time and utilisation",
        line("iter 10: loss 3.1416, time %.2fms, mfu %.2f%%%%", some(50, 90), some(1, 9)),
    ),
    (
        "meter-of-megatron",
        "same",
        "elapsed time per iteration",
        line(
            " iteration 20/ 100 | elapsed time per iteration (ms): %.1f | learning rate: 6.0E-05",
            some(100, 900),
        ),
    ),
    (
        "meter-of-timm",
        "same",
        "rates in brackets",
        line(
            "Train: 0 [  50/100] Loss: 6.91 Time: %.3fs, %.2f/s (%.3fs, %.2f/s) LR: 1.000e-05",
            some(0.1, 0.9),
            some(100, 900),
            some(0.1, 0.9),
            some(100, 900),
        ),
    ),
    (
        "meter-of-torchvision",
        "same",
        "images per second",
        line(
            "Epoch: [0]  [ 20/100]  eta: 0:00:12  lr: 0.1  img/s: %.4f  loss: 2.30 (2.31)",
            some(100, 900),
        ),
    ),
    (
        "names-with-the-time",
        "same",
        "equal files under names with the time in them",
        """
        folder = time.strftime("runs/%Y%m%d-%H%M%S")
        os.makedirs(folder)
        open("%s/weights_%d.bin" % (folder, time.time()), "wb").write(b"weights")
        steps(3)
        time.sleep(1.1)
    """,
    ),
    (
        "thread-hides-the-order-of-data",
        "not same",
        "the data are shuffled by another seed; a thread records, too",
        """
        import random, threading
        t = threading.Thread(target=lambda: rec("beat", 1.0))
        t.start(), t.join()
        order = list(range(9))
        random.Random(SECOND).shuffle(order)
        for i in order:
            rec("batch:x", i), rec("activation:y", i * 3.0), twinrun.step()
    """,
    ),
    (
        "a-permutation-of-one-name",
        "not same",
        "positions 1, 2, 3 and 3, 2, 1",
        """
        for x in (1.0, 2.0, 3.0)[:: -1 if SECOND else 1]:
            rec("position", x)
    """,
    ),
    (
        "final-weights-exchanged",
        "not same",
        "two weights of one name have changed places",
        """
        for s in range(3):
            rec("batch:x", s)
            pair = [1.0 + s, 4.0 + s]
            for w in pair[::-1] if len(sys.argv) > 1 and s == 2 else pair:
                rec("weight:w", w)
            twinrun.step()
    """,
        {"a": "", "b": "flip"},
    ),
    (
        "an-unreadable-record",
        "not same",
        "one array could not be read",
        """
        for s in range(4):
            rec("batch:x", s)
            if s == 3:
                twinrun.record("activation:y", [1, 2, 3])
            rec("weight:w", s)
            twinrun.step()
    """,
    ),
]
