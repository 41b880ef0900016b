# SPDX-License-Identifier: Apache-2.0
"""What a job shows, beside its records: printed lines, files, names of files.

Each job records the same values in every run. What it prints or writes is noise in some and a
result in others: the verdict must be "same" for the first, and must not be for the second. Times,
process ids and addresses are real ones.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

from twinrun import recheck  # noqa: E402

BUILD = os.environ.get("TWINRUN_BUILD", "build")
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)

HEAD = """
import array, json, logging, os, random, struct, sys, tempfile, threading, time, uuid, zlib
import twinrun
chance = random.Random(int.from_bytes(os.urandom(8), "little"))
for step in range(3):
    twinrun.record("batch:x", array.array("d", [1.0 * step]))
    twinrun.record("weight:w", array.array("d", [0.5 * step]))
    twinrun.step()
pid, now = os.getpid(), time.time()
def write(path, text, mode="w"):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode) as f:
        f.write(text)
def events(loss, wall):
    def field(number, wire, data):
        return bytes([number << 3 | wire]) + data
    def bytes_field(number, data):
        return field(number, 2, bytes([len(data)]) + data)
    value = bytes_field(1, b"train/loss") + field(2, 5, struct.pack("<f", loss))
    event = field(1, 1, struct.pack("<d", wall)) + field(2, 0, bytes([7]))
    event += bytes_field(5, bytes_field(1, value))
    return struct.pack("<QI", len(event), 0) + event + struct.pack("<I", 0)
def archive(values, level):
    import io, zipfile
    raw = struct.pack("<4f", *values)
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
    head += b" " * (128 - 10 - 1 - len(head)) + b"\\n"
    body = b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head)) + head + raw
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as z:
        z.writestr(zipfile.ZipInfo("w.npy", time.gmtime()[:6]), body)
    return out.getvalue()
"""

SAME = {
    "pid-in-brackets": 'print(f"[{pid}] rank = 0, world_size = 2")',
    "pid-in-a-name": 'print(f"Process-{pid} done")',
    "pid-and-thread": 'print(f"vm:{pid}:{threading.get_native_id()} [0] NCCL INFO ring 0")',
    "pid-before-a-tab": 'print(f"{pid}\\tTrain Epoch: 1 Loss: 0.5")',
    "glog": """print(time.strftime("W%m%d %H:%M:%S.014000") + f" {pid} torch/run.py:874] threads")""",
    "abseil": 'print(f"I0000 00:00:{now:.6f} {pid} port.cc:153] oneDNN is on")',
    "fom": 'print(f"FOM = {chance.random()*400:.2f} (z/s)")',
    "grind-time": 'print(f"Grind time (us/z/c) = {chance.random():.7f}")',
    "tokens": 'print(f"step 10 | loss 3.1 | tok/s {chance.random()*99:.1f}")',
    "address": "print(object())",
    "addresses": "print(id(sys), threading.get_ident(), hex(id(sys)), [object()])",
    "temporary-folder": "print('saved to', tempfile.mkdtemp() + '/model.pt')",
    "uuid": "print('run', uuid.uuid4())",
    "padding": "print('[' + ' ' * chance.randrange(9) + '16.3  16.9]')",
    "log-file": """
logging.basicConfig(filename="train.log", level=10, format="%(asctime)s %(process)d %(message)s")
logging.info("step 1 loss 0.5 took %.3f s", chance.random())""",
    "json-times": 'json.dump({"train_runtime": chance.random(), "saved": now, "loss": 0.5}, '
    'open("m.json", "w"))',
    "csv-times": 'write("h.csv", f"step,loss,elapsed\\n1,0.5,{chance.random()}\\n")',
    "name-with-pid": 'write(f"ckpt_{pid}.txt", "weights 1 2 3")',
    "name-with-time": 'write(time.strftime("runs/%Y%m%d-%H%M%S/out.txt"), "accuracy 0.5")',
    "name-of-tensorboard": 'write(time.strftime("runs/%b%d_%H-%M-%S_host/a.txt"), "x 1")',
    "name-of-hydra": """
time.sleep(1.1)    # runs of one second would have one name
folder = time.strftime("outputs/%Y-%m-%d/%H-%M-%S")
write(folder + "/.hydra/config.yaml", "lr: 0.1\\n")
write(folder + "/train.log", time.strftime("[%Y-%m-%d %H:%M:%S,123][__main__][INFO] - loss 0.5\\n"))
print("saved in", folder)""",
    "name-of-a-day-and-a-time": """
time.sleep(1.1)
write(time.strftime("out/%Y%m%d/%H%M%S/a.txt"), "x 1")""",
    "appended": 'write("results.txt", "accuracy 0.5\\n", "a")',
    "next-version": """
n = len(os.listdir("logs")) if os.path.isdir("logs") else 0
write(f"logs/version_{n}/metrics.csv", "loss\\n0.5\\n")
print(f"saved in logs/version_{n}, v_num={n}")""",
    "events": 'write("events.out.tfevents.1", events(0.5, now), "wb")',
    "events-in-a-file-named-as-tensorboard-does": 'write(f"runs/events.out.tfevents.{int(now)}.{os.uname().nodename}.{pid}.0", events(0.5, now), "wb")',
    "archive-of-tensors": 'write("w.npz", archive([1, 2, 3, 4], chance.randrange(1, 10)), "wb")',
    "progress": """
for i in range(3):
    print(f"\\r{i}/3 [00:0{i}<00:0{i}, {chance.random():.2f}it/s]", end="")
print()""",
    "remaining": 'print(f"eta: 0:0{chance.randrange(9)}:12  time: {chance.random():.4f}")',
}

NOT_SAME = {
    "fold-of-chance": 'write(f"fold_{int(now * 1000) % 9}_{chance.randrange(10**6)}.csv", "1\\n")',
    "rows-in-another-order": """
rows = [f"{i},{i * i}\\n" for i in range(20)]
chance.shuffle(rows)
write("pred.csv", "id,pred\\n" + "".join(rows))""",
    "csv-result-beside-times": 'write("h.csv", f"step,loss,elapsed\\n1,{chance.random()},3\\n")',
    "json-result-beside-times": 'json.dump({"train_runtime": 1.5, "f1": chance.random()}, '
    'open("m.json", "w"))',
    "event-value": 'write("events.out.tfevents.1", events(chance.random(), now), "wb")',
    "event-value-in-a-file-named-as-tensorboard-does": 'write(f"runs/events.out.tfevents.{int(now)}.vm.{pid}.0", events(chance.random(), now), "wb")',
    "fraction-behind-a-pid": 'print(f"pid {pid}.{chance.randrange(10**12)}")',
    "result-under-the-name-of-hydra": """
write(time.strftime("outputs/%Y-%m-%d/%H-%M-%S/loss.txt"), f"loss {chance.random()}")""",
    "numbers-in-the-folder-of-a-day": """
print(time.strftime("%Y-%m-%d") + "/" + "-".join(f"{chance.randrange(60):02}" for _ in range(3)))""",
    "archive-value": 'write("w.npz", archive([1, 2, 3, chance.random()], 6), "wb")',
    "array": 'write("w.npy", struct.pack("<8d", *[chance.random() for _ in range(8)]), "wb")',
    "sign": 'print("[16.3 " + chance.choice(["", "-"]) * 1 + f"16.9 {chance.random():.6f}]")',
    "log-file-result": 'write("run.log", f"step 1 loss {chance.random()}\\n")',
    "log-folder-result": 'write("logs/a/out.txt", f"accuracy {chance.random()}\\n")',
    "unknown-format": 'write("model.xyz", bytes([0]) + os.urandom(64), "wb")',
    "pickle": 'import pickle; write("m.pkl", pickle.dumps([object, chance.random()]), "wb")',
    "picture": 'write("plot.png", b"\\x89PNG\\r\\n\\x1a\\n\\0" + os.urandom(64), "wb")',
    "temporary-suffix": 'write("result.tmp", f"accuracy {chance.random()}\\n")',
    "pid-suffix": 'write("result.pid", f"accuracy {chance.random()}\\n")',
    # several lines: two runs draw all of their numbers alike once in a thousand million
    "ratio": """
for _ in range(3):
    print(f"score {chance.randrange(10, 99)}:{chance.randrange(10, 99)}")""",
    "model-size": 'print(f"model size {chance.random() * 99:.5f} MB")',
    "simulated-time": 'print(f"cycle = 5, time = {chance.random():e}, dt = 1e-5")',
    "digest": 'print("weights", f"{chance.getrandbits(64):016x}")',
    "checksums-of-48-bits": """
for i in range(3):
    print(f"block {i} 0x{chance.getrandbits(48) % 2**40 + 0x7f0000000000 | 1:x}")""",
    "checksum-in-decimal": 'print("sum", 0x7f0000000000 + chance.getrandbits(38) * 4 + 1)',
    "label": 'print("class", "".join(chance.choice("abcdefgh") for _ in range(12)))',
    "appended-result": 'write("results.txt", f"accuracy {chance.random()}\\n", "a")',
    "line-of-one-run": """
if os.path.exists("flag"):
    print("Warning: falling back to the slow path")
write("flag", "")""",
    "other-date": """
for _ in range(6):
    print(f"best day: 19{chance.randrange(10, 99)}-03-01")""",
}


def check(folder, *args):
    env = dict(os.environ, TWINRUN_HOME=str(folder / "home"))
    p = subprocess.run(
        [TWINRUN, "check", "--json", "-n", "2", *args],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert p.stdout.strip(), p.stderr
    return p.returncode, json.loads(p.stdout)


def job(folder, text):
    work = folder / "work"
    work.mkdir()
    (folder / "job.py").write_text(HEAD + text + "\n")
    return work


def said(verdict):
    return json.dumps([verdict.get("first"), verdict.get("unseen"), verdict.get("notes")])[:900]


@pytest.mark.parametrize("name", SAME)
def test_noise_is_the_same(tmp_path, name):
    work = job(tmp_path, SAME[name])
    code, verdict = check(work, "--", sys.executable, "../job.py")
    assert (code, verdict["outcome"]) == (0, "same"), said(verdict)
    (tmp_path / "verdict.json").write_text(json.dumps(verdict))
    claims = recheck.recheck(str(tmp_path / "verdict.json"))
    assert claims and [c for c in claims if c[0] == "refuted"] == []


@pytest.mark.parametrize("name", NOT_SAME)
def test_a_result_is_never_the_same(tmp_path, name):
    work = job(tmp_path, NOT_SAME[name])
    code, verdict = check(work, "--", sys.executable, "../job.py")
    assert code in (1, 3) and verdict["outcome"] in ("differ", "inconclusive"), said(verdict)


@pytest.mark.parametrize(
    "a, b",
    [
        ("echo loss 0.5", "echo loss 0.6"),
        ("echo '[16.3 16.9 0.06]'", "echo '[ 16.3 -16.9  0.06]'"),
        ("echo '{\"f1\": 0.5}' >m.json", "echo '{\"f1\": 0.6}' >m.json"),
        ("printf '\\0\\1' >w.npy", "printf '\\0\\2' >w.npy"),
    ],
)
def test_numbers_of_arms_count(tmp_path, a, b):
    code, verdict = check(tmp_path, "--a", a, "--b", b)
    assert (code, verdict["outcome"]) == (1, "differ"), said(verdict)
    assert verdict["first"]["layer"] == "artifact"


def test_lines_and_files_are_left_out(tmp_path):
    work = job(
        tmp_path, 'print(f"cache {chance.random()}\\nloss 0.5"); write("a.xyz", chr(0) + str(now))'
    )
    run = ("--", sys.executable, "../job.py")
    assert check(work, *run)[1]["outcome"] == "differ"
    code, verdict = check(work, "--ignore", "line:^cache ", *run)
    assert (code, verdict["outcome"]) == (3, "inconclusive"), said(verdict)
    assert any("--ignore 'file:a.xyz'" in text for text in verdict["unseen"]), said(verdict)
    code, verdict = check(work, "--ignore", "line:^cache ", "--ignore", "file:*.xyz", *run)
    assert (code, verdict["outcome"]) == (0, "same"), said(verdict)
    assert any("1 line of stdout of each run" in text for text in verdict["notes"]), said(verdict)


def test_a_bad_expression_is_refused_before_the_job_runs(tmp_path):
    p = subprocess.run(
        [TWINRUN, "check", "--ignore", "line:(", "--", "touch", "ran"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert p.returncode == 2 and "regular expression" in p.stderr
    assert not (tmp_path / "ran").exists()


def test_kept_text_has_no_secrets(tmp_path):
    token = "ghp_" + "a1B2" * 9
    work = job(tmp_path, f'write("config.txt", "token {token}\\n")')
    check(work, "--", sys.executable, "../job.py")
    kept = list((work / "home").rglob("files/*"))
    assert kept and all(token not in p.read_text() for p in kept)
    shutil.rmtree(work / "home")
