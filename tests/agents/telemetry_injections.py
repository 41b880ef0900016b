# SPDX-License-Identifier: Apache-2.0
"""What the tests of telemetry do to a job from outside while it runs: other processes on its
processor, a quota, a slow network, fewer workers; and a witness of what others did to it meanwhile.
"""

import errno
import os
import re
import shlex
import socket
import struct
import subprocess
import threading
import time

import pytest

from launch_helper import wait_for
from telemetry_runs import JOB, TWINRUN, newest

GROUPS = "/sys/fs/cgroup/cpu"


class Server:
    """Answers requests for n bytes; with `seconds` set each answer takes that long: a bandwidth of
    n / seconds.
    """

    def __init__(self):
        self.seconds = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            connection, _ = self.socket.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            blob = bytes(1 << 20)
            while True:
                wanted = connection.recv(4)
                if len(wanted) < 4:
                    return
                if self.seconds:
                    time.sleep(self.seconds)
                connection.sendall(blob[: struct.unpack("<I", wanted)[0]])
        except OSError:
            return

    def close(self):
        self.socket.close()


def make_group(name):
    """A control group with a processor share that keeps other people's load out. None where groups
    cannot be made.
    """
    path = os.path.join(GROUPS, name)
    try:
        os.mkdir(path)
        with open(path + "/cpu.shares", "w") as f:
            f.write("262144")
        return path
    except OSError:
        return None


def remove_group(path):
    """Once the last process in it is gone, which may be a moment after its parent knows that it
    ended.
    """

    def gone():
        try:
            os.rmdir(path)
        except OSError as error:
            assert error.errno == errno.EBUSY, error
            return False
        return True

    wait_for(gone)


def set_quota(group, microseconds):
    with open(group + "/cpu.cfs_quota_us", "w") as f:
        f.write(str(microseconds))


def move_to(group):
    """This process, and what it starts from then on."""
    with open(group + "/cgroup.procs", "w") as f:
        f.write(str(os.getpid()))


def own_group():
    return GROUPS + re.search(r":(?:.*,)?cpu(?:,.*)?:(.*)", open("/proc/self/cgroup").read()).group(
        1
    ).rstrip("/")


def in_group(group, command):
    return (
        ["sh", "-c", 'echo $$ >%s/cgroup.procs && exec "$@"' % group, "sh", *command]
        if group
        else command
    )


def descendants(pid):
    """Processes below this one that are there now."""
    try:
        children = [
            int(c)
            for t in os.listdir("/proc/%d/task" % pid)
            for c in open("/proc/%d/task/%s/children" % (pid, t)).read().split()
        ]
    except OSError:
        return []
    return children + [d for c in children for d in descendants(c)]


class Host(threading.Thread):
    """Did anybody take the job's processor away? The host, or, with `launcher`, other processes
    than those below it that are held on this processor: own samples of /proc beside the run; the
    classifier has no part in it.
    """

    WINDOW_S, SHARE = 0.2, 0.1

    def __init__(self, cpu, launcher=None):
        super().__init__(daemon=True)
        self.cpu, self.launcher, self.samples, self.done = cpu, launcher, [], threading.Event()
        self.began = time.monotonic()
        self.start()

    def own(self):
        """Ticks of the job on this processor; None before it is there and when it is gone."""
        ticks = None
        for pid in descendants(self.launcher):
            try:
                if os.sched_getaffinity(pid) == {self.cpu}:
                    words = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
                    ticks = (
                        (ticks or 0) + int(words[11]) + int(words[12]) if words[0] != "Z" else None
                    )
            except OSError:
                return None
        return ticks

    def run(self):
        while not self.done.wait(0.02):
            now, (_name, *words) = (
                time.monotonic(),
                next(
                    line.split()
                    for line in open("/proc/stat")
                    if line.startswith("cpu%d " % self.cpu)
                ),
            )
            taken = int(words[7])
            if self.launcher:
                own = self.own()
                taken = (
                    None
                    if own is None
                    else taken + sum(int(words[k]) for k in (0, 1, 2, 5, 6)) - own
                )
            if taken is not None:
                self.samples.append((now, taken / os.sysconf("SC_CLK_TCK")))

    def interfered(self, until=None):
        """More than a tenth of some 0.2 s, which is what a slow stretch takes at least. until:
        seconds since the beginning.
        """
        self.done.set()
        self.join()
        samples = [s for s in self.samples if until is None or s[0] < self.began + until]
        later = iter(samples)
        b = next(later, None)
        for a in samples:
            while b and b[0] - a[0] < self.WINDOW_S:
                b = next(later, None)
            # a tick of 10 ms is as fine as it gets
            if b and b[1] - a[1] > self.SHARE * (b[0] - a[0]) + 0.01:
                return True
        return False


def injected(home, kind, rng, seconds, watch):
    """One run of the job with one thing done to it at a random time; watch(processor, launcher) is
    called as it begins. Returns (folder, onset).
    """
    onset, length = rng.uniform(0.25, 0.5) * seconds, rng.uniform(0.25, 0.4) * seconds
    cpu = rng.choice(sorted(os.sched_getaffinity(0)))
    group, server, hog, back = make_group("twinrun-test-%d" % os.getpid()), None, None, None
    place = ["taskset", "-c", str(cpu)]
    command = [*place, JOB, "--seconds", str(seconds), "--spin", str(rng.randint(500000, 1500000))]
    if kind in ("network", "quiet-network"):
        server = Server()
        if group:  # else the job's share starves its server, and the steps do wait for the network
            back = own_group()
            move_to(group)
        command += ["--port", str(server.port), "--bytes", str(rng.choice([32768, 65536, 131072]))]
    if kind in ("workers", "quiet-workers"):
        first, then = rng.choice([(6, 3), (6, 2), (4, 2), (8, 4)])
        command += ["--workers", str(first), "--share-us", "24000"]
        command += (
            ["--then", str(then), "--at-ms", str(int(onset * 1e3))] if kind == "workers" else []
        )
    try:
        job = subprocess.Popen(
            [
                TWINRUN,
                "record",
                "-q",
                "--level",
                "steps",
                "--",
                *map(str, in_group(group, command)),
            ],
            env=dict(os.environ, TWINRUN_HOME=str(home)),
        )
        watch(cpu, job.pid)
        time.sleep(onset)
        if kind == "hog":
            hog = subprocess.Popen(
                [str(w) for w in in_group(group, [*place, JOB, "--hog", "--seconds", str(length)])]
            )
        elif kind == "quota":
            set_quota(group, rng.randint(25000, 55000))
        elif kind == "network":
            server.seconds = rng.uniform(0.003, 0.008)
        time.sleep(length)
        if kind == "quota":
            set_quota(group, -1)
        elif kind == "network":
            server.seconds = 0
        assert job.wait() == 0
    finally:
        if hog:
            hog.wait()
        if server:
            server.close()
        if back:
            move_to(back)
        if group:
            remove_group(group)
    return newest(home), onset


def can_do(kind):
    return kind != "quota" or os.access(GROUPS, os.W_OK)


ENOUGH, TOO_MUCH = 4, 5


def until_right(attempt):
    """attempt(number) -> (answer, is it right, was the run disturbed). A wrong answer counts when
    the run was left alone, which is not for the classifier to say: it is right on 95% of such runs
    (test_campaign), so four wrong ones are no chance (6e-6). Where no run is left alone nothing is
    shown.
    """
    wrong, disturbed = [], []
    for number in range(ENOUGH + TOO_MUCH):
        answer, right, meant_something_else = attempt(number)
        if right:
            return answer
        (disturbed if meant_something_else else wrong).append(answer)
        assert len(wrong) < ENOUGH, wrong
        if len(disturbed) == TOO_MUCH:
            break
    pytest.skip("this machine does not leave a job alone for some seconds: %s" % disturbed)


class Barrier:
    """Answers when all ranks have asked: what an all-reduce that sleeps does to them."""

    def __init__(self, ranks):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, args=(ranks,), daemon=True).start()

    def serve(self, ranks):
        try:
            peers = [self.socket.accept()[0] for _ in range(ranks)]
            for peer in peers:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while all(len(peer.recv(4)) == 4 for peer in peers):
                for peer in peers:
                    peer.sendall(bytes(64))
        except OSError:
            pass
        for peer in peers:
            peer.close()

    def close(self):
        self.socket.close()


def ranks_run(home, kind, rng, steps, mpi=False):
    """Two ranks on a processor each, in step; something is done to one of them from begin to end.
    Returns (folder, rank, was something else done as well).
    """
    slow, spin = rng.randint(0, 1), rng.randint(1000000, 2000000)
    cpus = rng.sample(sorted(os.sched_getaffinity(0)), 2)
    groups = [make_group("twinrun-test-%d-%d" % (os.getpid(), k)) for k in range(2)]
    barrier = None if mpi else Barrier(2)
    back, hog = own_group() if groups[0] else None, None
    try:
        if groups[0]:
            move_to(groups[1 - slow])  # the barrier is answered with the job's share
        if kind == "quota":
            set_quota(groups[slow], 50000)
        if kind == "hog":
            hog = subprocess.Popen(
                [
                    str(w)
                    for w in in_group(
                        groups[slow],
                        ["taskset", "-c", str(cpus[slow]), JOB, "--hog", "--seconds", "60"],
                    )
                ]
            )
        place = lambda r: in_group(groups[r], ["taskset", "-c", str(cpus[r])])
        if mpi:
            words = "case $OMPI_COMM_WORLD_RANK in %s esac" % " ".join(
                "%d) exec %s;;" % (r, shlex.join([*place(r), str(mpi), str(steps), str(spin)]))
                for r in range(2)
            )
            command = [
                "mpirun.openmpi",
                "--allow-run-as-root",
                "--oversubscribe",
                "--bind-to",
                "none",
                "-np",
                "2",
                "sh",
                "-c",
                words,
            ]
        else:
            amount = lambda r: int(spin * (1.5 if kind == "work" and r == slow else 1))
            command = [
                "sh",
                "-c",
                " & ".join(
                    "RANK=%d WORLD_SIZE=2 %s"
                    % (
                        r,
                        shlex.join(
                            [
                                *place(r),
                                *map(
                                    str,
                                    [
                                        JOB,
                                        "--steps",
                                        steps,
                                        "--spin",
                                        amount(r),
                                        "--port",
                                        barrier.port,
                                        "--bytes",
                                        64,
                                    ],
                                ),
                            ]
                        ),
                    )
                    for r in range(2)
                )
                + " & wait",
            ]
        env = dict(
            os.environ, TWINRUN_HOME=str(home), OMPI_MCA_btl_vader_single_copy_mechanism="none"
        )
        job = subprocess.Popen(
            [TWINRUN, "record", "-q", "--level", "steps", "--", *command], env=env
        )
        hosts = [Host(cpus[k], job.pid) for k in range(2) if k != slow or kind != "hog"]
        assert job.wait(300) == 0
    finally:
        if hog:
            hog.kill()
            hog.wait()
        if barrier:
            barrier.close()
        if back:
            move_to(back)
        for group in groups:
            if group:
                remove_group(group)
    return newest(home), slow, any([h.interfered() for h in hosts])
