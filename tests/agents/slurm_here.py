# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of four nodes on one machine (Debian: slurm-wlm), for tests: started in a folder,
stopped by the pid files in it. Neither munge, systemd nor root is needed.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from free_ports import free_ports

NODES = ["n1", "n2", "n3", "n4"]
# Debian puts the daemons where only root's PATH looks.
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

CONF = """\
ClusterName=here
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
CryptoType=crypto/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
FirstJobId=41001
SlurmdTimeout=10
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{second}] CPUs={cpus} RealMemory=1000 Feature=old
NodeName=n[3-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{third}-{last}] CPUs={cpus} RealMemory=1000 Feature=new
PartitionName=p Nodes=ALL Default=YES State=UP
"""


def missing():
    """Why there can be no Slurm here; "" when there can."""
    lacks = [
        p for p in ("slurmctld", "slurmd", "sbatch", "squeue") if not shutil.which(p, path=PATH)
    ]
    return f"no {', '.join(lacks)} (Debian: slurm-wlm)" if lacks else ""


class Slurm:
    """A cluster. `environment` is what its programs need."""

    def __init__(self, cpus=2):
        # a short path: sockets have short names
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}
        ports = free_ports(5)
        import getpass

        text = CONF.format(
            folder=self.folder,
            user=getpass.getuser(),
            controller=ports[0],
            first=ports[1],
            second=ports[2],
            third=ports[3],
            last=ports[4],
            cpus=cpus,
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "state").mkdir()
        for node in NODES:
            (self.folder / f"spool.{node}").mkdir()
            (self.folder / f"tmp.{node}").mkdir()  # PMIx makes folders of one name on each

    def call(self, *argv, check=True):
        done = subprocess.run(
            argv,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode != 0:
            raise OSError(f"{argv}: {done.stdout}{done.stderr}{self.logs()}")
        return done.stdout

    def start_node(self, node):
        self.call("slurmd", "-N", node)

    def start(self):
        self.call("slurmctld", "-c")
        for node in NODES:
            self.start_node(node)
        until = time.monotonic() + 60
        while not self.is_up():
            if time.monotonic() > until:
                raise OSError("the nodes are not idle: " + self.logs())
            time.sleep(0.1)

    def is_up(self):
        """All nodes idle, and each of them ours: another cluster's daemon answers, too, where two
        have taken one port.
        """
        states = self.call("sinfo", "-h", "-N", "-o", "%t", check=False).split()
        taken = [n for n in NODES if "Unable to bind" in self.log_of(n)]
        if taken:
            raise OSError(f"the ports of {taken} are taken")
        pids = all((self.folder / f"slurmd.{n}.pid").exists() for n in NODES)
        return pids and states == ["idle"] * len(NODES)

    def log_of(self, node):
        path = self.folder / f"slurmd.{node}.log"
        return path.read_text() if path.exists() else ""

    def logs(self):
        return "\n".join(p.read_text()[-2000:] for p in self.folder.glob("*.log"))

    def end(self, name, how=signal.SIGTERM):
        """Ends the daemon of this pid file, and waits until it is gone."""
        path = self.folder / f"{name}.pid"
        try:
            pid = int(path.read_text())
            os.kill(pid, how)
        except (OSError, ValueError):
            return
        until = time.monotonic() + 3
        while time.monotonic() < until and os.path.exists(f"/proc/{pid}"):
            time.sleep(0.05)
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGKILL)

    def stop(self):
        self.call("scancel", "-u", str(os.getuid()), check=False)
        for node in NODES:
            self.end(f"slurmd.{node}")
        self.end("slurmctld")
        shutil.rmtree(self.folder, ignore_errors=True)


def started(cpus=2):
    """A cluster that is up. What one finds taken, the next finds elsewhere."""
    for attempt in range(3):
        cluster = Slurm(cpus)
        try:
            cluster.start()
            return cluster
        except OSError:
            cluster.stop()
            if attempt == 2:
                raise
    return None
