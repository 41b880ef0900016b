# SPDX-License-Identifier: Apache-2.0
"""Cases in what a job shows: lines, files, names (id, expected, why, job), as in own.py."""

CASES = [
    (
        "npz-alone",
        "not same",
        "the only result is an archive of arrays, and it differs",
        """
        import io, zipfile, struct
        with zipfile.ZipFile("result.npz", "w") as z:
            head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
            head += b" " * (118 - len(head) - 1) + b"\\n"
            data = struct.pack("<2d", 1.0, 2.0 + SECOND * 1e-9)
            magic = b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head))
            z.writestr("w.npy", magic + head + data)
    """,
    ),
    (
        "json-nested",
        "not same",
        "a number deep in lists of a JSON file",
        """
        import json
        tree = {"runs": [{"scores": [[0.1, 0.2], [0.3, 0.4 + 0.1 * SECOND]]}], "name": "x"}
        json.dump(tree, open("scores.json", "w"))
        steps(2)
    """,
    ),
    (
        "secret-beside-a-time",
        "not same",
        "copies hide secrets, so beside a time a secret that differs is not known",
        """
        import time
        token = "ghp_" + ("a1B2" if SECOND else "c3D4") * 9
        open("conf.txt", "w").write("saved at %f\\ntoken %s\\n" % (time.time(), token))
        open("conf.json", "w").write('{"token": "%s", "a": 1}' % token if SECOND else '{"a": 1, "token": "%s"}' % token)
        steps(2)
    """,
    ),
    (
        "json-keys-in-another-order",
        "same",
        "the same object, its keys in another order",
        """
        import json
        keys = ["accuracy", "loss"]
        json.dump({k: 0.5 for k in (keys[::-1] if SECOND else keys)}, open("metrics.json", "w"))
        steps(2)
    """,
    ),
    (
        "json-keys-in-another-order-and-times",
        "same",
        "the same objects, their keys in another order, in one of which the time stands",
        """
        import json, time
        tree = {"train_runtime": time.time() % 7, "b": {"x": [1, {"q": 2, "p": 3}], "a": None}}
        tree = {k: tree[k] for k in sorted(tree, reverse=SECOND)}
        tree["b"] = {k: tree["b"][k] for k in sorted(tree["b"], reverse=SECOND)}
        json.dump(tree, open("metrics.json", "w"), indent=1)
        with open("log.jsonl", "w") as f:
            for i in range(4):
                f.write(json.dumps({"a": i, "b": -i} if SECOND else {"b": -i, "a": i}) + "\\n")
        steps(2)
    """,
    ),
    (
        "json-values-of-two-keys-changed-places",
        "differ",
        "the same keys and the same numbers, each under the other's key",
        """
        import json
        values = {"b": 0.25, "a": 0.5} if SECOND else {"a": 0.25, "b": 0.5}
        json.dump(values, open("metrics.json", "w"))
        steps(2)
    """,
    ),
    (
        "json-list-in-another-order",
        "differ",
        "a list's order is part of what it says, whatever stands around it",
        """
        import json
        values = {"b": [2, 1], "a": 0} if SECOND else {"a": 0, "b": [1, 2]}
        json.dump(values, open("metrics.json", "w"))
        steps(2)
    """,
    ),
    (
        "json-same-key-twice",
        "not same",
        "of a key that stands twice readers take the last",
        """
        open("m.json", "w").write('{"x": 1, "x": 2}' if SECOND else '{"x": 2, "x": 1}')
        steps(2)
    """,
    ),
    (
        "home-is-the-working-folder",
        "same",
        "what twinrun keeps in its home is no result of the job",
        """
        import os
        os.makedirs("runs/mine", exist_ok=True)
        open("runs/mine/out.txt", "w").write("accuracy 0.5")
        steps(2)
    """,
        {"here": True},
    ),
    (
        "home-is-the-working-folder-and-a-result-differs",
        "differ",
        "a result in the job's own folder of the name that twinrun uses in its home",
        """
        import os
        os.makedirs("runs/mine", exist_ok=True)
        open("runs/mine/out.txt", "w").write("accuracy %g" % (0.5 + SECOND))
        steps(2)
    """,
        {"here": True},
    ),
    (
        "csv-row-order",
        "not same",
        "two rows of a table have changed places",
        """
        rows = ["a,0.1", "b,0.2", "c,0.3"]
        if SECOND:
            rows[1], rows[2] = rows[2], rows[1]
        open("predictions.csv", "w").write("name,p\\n" + "\\n".join(rows) + "\\n")
        steps(2)
    """,
    ),
    (
        "pickle",
        "not same",
        "a file in a format that is not read",
        """
        import pickle
        pickle.dump({"w": [1.0, 2.0 + SECOND]}, open("state.pkl", "wb"))
        steps(2)
    """,
    ),
    (
        "a-file-more",
        "not same",
        "the second run writes a file that the first has not",
        """
        open("model.bin", "wb").write(b"weights")
        if SECOND:
            open("model-best.bin", "wb").write(b"weights")
        steps(2)
    """,
    ),
    (
        "results-in-a-log",
        "not same",
        "a loss in a log file",
        """
        open("train.log", "w").write("epoch 1 loss %.3f\\n" % (0.5 + 0.25 * SECOND))
        steps(2)
    """,
    ),
    (
        "times-in-a-log",
        "same",
        "a log file with clock, pid and duration",
        """
        line = "%s [%d] epoch 1 loss 0.500 in %.3fs\\n"
        now, took = time.strftime("%Y-%m-%d %H:%M:%S"), 0.1 + 0.3 * SECOND
        open("train.log", "w").write(line % (now, os.getpid(), took))
        steps(2)
    """,
    ),
    (
        "fewer-lines",
        "not same",
        "a line of results is missing",
        """
        for epoch in range(3 - SECOND):
            print("epoch %d loss %.3f" % (epoch, 1.0 / (epoch + 1)))
        steps(2)
    """,
    ),
    (
        "one-ulp-printed",
        "not same",
        "the last digit of a printed result",
        """
        print("final loss", 0.1 + 0.2 if SECOND else 0.3)
        steps(2)
    """,
    ),
    (
        "empty-lines-above",
        "not same",
        "the sentence counts lines as an editor does, the claim those that say something",
        """
        print("\\n\\nbegins\\n\\nfinal loss", 0.6 if SECOND else 0.3)
        steps(2)
    """,
    ),
    (
        "results-exchanged",
        "not same",
        "two epochs have each other's loss",
        """
        losses = [0.5, 0.25][::-1 if SECOND else 1]
        for epoch, loss in enumerate(losses):
            print("epoch %d: loss %.2f" % (epoch, loss))
        steps(2)
    """,
    ),
    (
        "confusion-matrix",
        "not same",
        "one entry of a printed matrix",
        """
        print("[[50  2]\\n [ %d 46]]" % (2 + SECOND))
        steps(2)
    """,
    ),
    (
        "seed-printed",
        "not same",
        "the jobs say themselves that they were seeded differently",
        """
        print("using seed=%d" % (41 + SECOND))
        steps(2)
    """,
    ),
    (
        "stderr-result",
        "not same",
        "the result goes to stderr",
        """
        print("val_acc=%.4f" % (0.9312 - 0.01 * SECOND), file=sys.stderr)
        steps(2)
    """,
    ),
    (
        "predicted-word",
        "not same",
        "the prediction is a word",
        """
        print("prediction: %s" % ("dog" if SECOND else "cat"))
        steps(2)
    """,
    ),
    (
        "progress-bar",
        "same",
        "a bar that overwrites itself, with rates",
        """
        for i in range(1, 4):
            rate, left = 3.1 + 0.7 * SECOND, 7 - SECOND
            bar = "\\r%3d%%|###   | %d/3 [00:0%d<00:0%d, %.2fit/s, loss=0.5]"
            print(bar % (33 * i, i, i, left, rate), end="")
        print()
        steps(2)
    """,
    ),
    (
        "log-prefixes",
        "same",
        "clock and pid before every line",
        """
        for i in range(3):
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            print("%s,123 - root[%d] - INFO - step %d loss 0.5" % (now, os.getpid(), i))
        steps(2)
    """,
    ),
    (
        "memory-in-megabytes",
        "same",
        "a size with its unit",
        """
        print("max memory allocated: %.1f MB" % (511.2 + 3.7 * SECOND))
        steps(2)
    """,
    ),
    (
        "a-folder-with-the-pid",
        "same",
        "equal files in a folder with the pid in its name",
        """
        os.makedirs("out_%d" % os.getpid())
        open("out_%d/model.bin" % os.getpid(), "wb").write(b"weights")
        steps(2)
    """,
    ),
    (
        "a-name-with-a-score",
        "not same",
        "the score stands in the name of a checkpoint",
        """
        open("epoch=1-val_loss=%.2f.bin" % (0.41 + 0.02 * SECOND), "wb").write(b"weights")
        steps(2)
    """,
    ),
    (
        "link-leads-elsewhere",
        "inconclusive",
        "the best checkpoint is a link, and leads to another one",
        """
        for k in (1, 2):
            open("epoch_%d.txt" % k, "w").write("weights of epoch %d" % k)
        if os.path.lexists("best"):
            os.unlink("best")
        os.symlink("epoch_%d.txt" % (1 + SECOND), "best")
        steps(2)
    """,
    ),
    (
        "link-became-a-file",
        "inconclusive",
        "what is a link in one run is a file in the other",
        """
        open("weights.txt", "w").write("1.5")
        if SECOND:
            open("best", "w").write("1.5")
        else:
            os.symlink("weights.txt", "best")
        steps(2)
    """,
    ),
    (
        "link-to-a-name-with-the-time",
        "same",
        "the newest run's folder carries the time in its name, and a link leads to it",
        """
        import time
        name = "run-" + time.strftime("%Y%m%d-%H%M%S")
        os.makedirs(name)
        open(name + "/config.txt", "w").write("layers 3")
        if os.path.lexists("latest"):
            os.unlink("latest")
        os.symlink(name, "latest")
        steps(2)
    """,
    ),
]
