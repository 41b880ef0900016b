# SPDX-License-Identifier: Apache-2.0
"""Mutants in what the job showed: lines, files, how it ended."""

from mutant_tools import harmful


def digits_of(data, result):
    """Places of digits in lines that hold `result`: numbers that mean something."""
    out, at = [], 0
    for line in data.split(b"\n"):
        for word in result:
            k = line.find(word)
            if k >= 0:
                end = k + len(word)
                while end < len(line) and (
                    line[end : end + 1].isdigit() or line[end : end + 1] in b".-"
                ):
                    if line[end : end + 1].isdigit():
                        out.append(at + end)
                    end += 1
        at += len(line) + 1
    return out


@harmful
def printed_result(copy, random):
    data = bytearray((copy.folder / "stdout").read_bytes())
    places = digits_of(data, (b"loss ", b"accuracy ", b"num_correct=", b"total "))
    if not places:
        return None
    at = random.choice(places)
    data[at] = ord("0") + (data[at] - ord("0") + random.randrange(1, 10)) % 10
    copy.stream("stdout", bytes(data))
    return "byte %d of stdout" % at


@harmful
def printed_results_exchanged(copy, random):
    """Two lines exchange their numbers: as a bag of lines nothing would have changed."""
    lines = (copy.folder / "stdout").read_bytes().split(b"\n")
    word = random.choice((b"loss ", b"accuracy "))
    places = [i for i, line in enumerate(lines) if word in line]
    if len(places) < 2:
        return None
    i, k = random.sample(places, 2)
    (x, p), (y, q) = lines[i].split(word, 1), lines[k].split(word, 1)
    p, rest_p = (p.split(b" ", 1) + [b""])[:2]
    q, rest_q = (q.split(b" ", 1) + [b""])[:2]
    if p == q:
        return None
    lines[i], lines[k] = x + word + q + b" " + rest_p, y + word + p + b" " + rest_q
    copy.stream("stdout", b"\n".join(l.rstrip() for l in lines))
    return "lines %d and %d" % (i + 1, k + 1)


@harmful
def exit_code(copy, random):
    run = copy.run
    run["exit_code"] = random.choice((1, 2, 77, 255))
    copy.run = run
    return "exit code %d" % run["exit_code"]


@harmful
def killed(copy, random):
    run = copy.run
    run.update(outcome="signaled", signal=11, exit_code=139)
    copy.run = run
    return "signal 11"


@harmful
def interrupted(copy, random):
    run = copy.run
    run["outcome"] = "interrupted"
    copy.run = run
    return "interrupted"


@harmful
def result_file(copy, random):
    files = [f["path"] for f in copy.run["files"] if not f["path"].endswith(".pt")]
    if not files:
        return None
    path = random.choice(files)
    data = bytearray((copy.folder / "work" / path).read_bytes())
    numbers = [i for i, c in enumerate(data) if chr(c).isdigit()]
    if path.endswith((".json", ".csv")):
        at = random.choice(numbers)
        data[at] = ord("0") + (data[at] - ord("0") + 1) % 10
    elif path.endswith(".npy"):
        at = random.randrange(128, len(data))
        data[at] ^= 1 << random.randrange(8)
    else:
        return None
    copy.file(path, bytes(data))
    return "%s: byte %d" % (path, at)


@harmful
def files_exchanged(copy, random):
    run = copy.run
    if len(run["files"]) < 2:
        return None
    x, y = random.sample(run["files"], 2)
    for key in ("sha256", "bytes", "kept"):
        x[key], y[key] = y.get(key), x.get(key)
    p, q = ((copy.folder / "work" / f["path"]).read_bytes() for f in (x, y))
    copy.write("work/" + x["path"], q)
    copy.write("work/" + y["path"], p)
    copy.run = run
    return "%s and %s" % (x["path"], y["path"])


@harmful
def file_not_written(copy, random):
    run = copy.run
    if not run["files"]:
        return None
    gone = run["files"].pop(random.randrange(len(run["files"])))
    (copy.folder / "work" / gone["path"]).unlink()
    copy.run = run
    return gone["path"]


@harmful
def not_observed(copy, random):
    run = copy.run
    run["agents"] = False
    copy.run = run
    for name in copy.traces():
        (copy.folder / name).unlink()
    return "no agents"
