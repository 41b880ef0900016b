# SPDX-License-Identifier: Apache-2.0
"""What somebody who did not build this tried, and the verdicts that were wrong (as in own.py)."""

CASES = [
    (
        "table-with-other-line-ends",
        "differ",
        "Python's csv writer ends its lines with CR LF; only the last cell was compared",
        """
        import csv
        with open("results.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["epoch", "loss", "accuracy"])
            for epoch in range(4):
                w.writerow([epoch, 0.5 + 0.125 * (SECOND and epoch == 2), 0.25])
        steps(2)
    """,
    ),
    (
        "table-with-other-line-ends-equal",
        "same",
        "the same with nothing but another time",
        """
        import csv, random
        with open("results.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["epoch", "loss", "seconds"])
            for epoch in range(4):
                w.writerow([epoch, 0.5, "%.3f" % random.SystemRandom().random()])
        steps(2)
    """,
    ),
    (
        "table-with-semicolons",
        "differ",
        "the loss stands before a column of times; the heading's last word is no name of it",
        """
        with open("results.csv", "w") as f:
            f.write("loss;time\\n")
            for epoch in range(4):
                f.write("%.4f;3\\n" % (0.5 + 0.125 * (SECOND and epoch == 2)))
        steps(2)
    """,
    ),
    (
        "table-with-semicolons-times",
        "same",
        "a column of times in a table with semicolons",
        """
        import random
        with open("results.csv", "w") as f:
            f.write("epoch;time;loss\\n")
            for epoch in range(4):
                f.write("%d;%.3f;0.25\\n" % (epoch, random.SystemRandom().random()))
        steps(2)
    """,
    ),
    (
        "file-with-carriage-returns",
        "differ",
        "lines that end with CR alone are lines, and no progress bar",
        """
        with open("scores.txt", "w", newline="") as f:
            for epoch in range(4):
                f.write("loss %.4f\\r" % (0.5 + 0.125 * (SECOND and epoch == 2)))
        steps(2)
    """,
    ),
    (
        "thread-ids-in-decimal",
        "same",
        "Python prints its threads with the address of their stack, in decimal",
        """
        import threading
        print(threading.current_thread(), threading.get_ident())
        steps(2)
    """,
    ),
    (
        "duration-in-parts",
        "same",
        "hours, minutes and seconds",
        """
        print("Training completed in 0h %dm %ds" % ((1, 12) if SECOND else (0, 55)))
        steps(2)
    """,
    ),
    (
        "archives-behind-one-another",
        "not same",
        "torch.distributed.checkpoint writes archive behind archive; the last one's list was read in the first",
        """
        import io, struct, zipfile
        def archive(value):
            head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
            head += b" " * (118 - len(head) - 1) + b"\\n"
            magic = b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head))
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as z:
                z.writestr("w.npy", magic + head + struct.pack("<2d", 1.0, value))
            return out.getvalue()
        open("model.distcp", "wb").write(archive(1.0) + archive(2.0 + SECOND))
        steps(2)
    """,
    ),
]
