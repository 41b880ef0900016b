# SPDX-License-Identifier: Apache-2.0
"""Runs that a Kubernetes cluster makes (--on k8s:FILE): the real kubectl before an API that this
machine plays (k8s_here.py).
"""

import json
import os
import signal
import sys
import time

import k8s_here
import pytest
from conftest import FULL
from test_engine import JOB, nodes_of, notes, nothing_left

POD = """\
kind: Pod
apiVersion: v1
metadata:
  namespace: team-a
  labels: {queue: mine}
spec:
  containers:
    - name: job
      image: registry.example/train:1
      env: [{name: FROM_POD, value: a $(HOME) b}]
      volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, persistentVolumeClaim: {claimName: shared}}]
"""


ALSO_FULL = pytest.mark.skipif(not FULL, reason="its like is tested without --full")
COUNT = 10_000 if FULL else 1_500


@pytest.fixture
def cluster(tmp_path):
    why = k8s_here.missing()
    if why:
        assert not FULL, why
        pytest.skip(why)
    made = k8s_here.Cluster(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def check(twinrun, script, cluster):
    """check(...options, runs=, env=, pod=) -> Result of `twinrun check --on k8s:pod.yaml`."""
    script("job.py", JOB)

    def call(*options, runs=3, env=None, pod=POD):
        script("pod.yaml", pod)
        return twinrun(
            *("check", "--json", "--no-cases", "--no-zoom", "--runs", runs),
            *("--on", "k8s:pod.yaml", *options, "--", sys.executable, "job.py"),
            env={**cluster.environment, "TWINRUN_ENGINE_GRACE": "0.5", **(env or {})},
        )

    return call


def test_side_by_side(check, cluster, home):
    done = check(runs=5)
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert set(nodes_of(home).values()) == set(k8s_here.NODES)
    assert "the runs were made by k8s on 4 nodes" in notes(done)
    assert [j["spec"]["completions"] for j in cluster.seen] == [1, 4]
    assert not cluster.jobs and not cluster.pods and nothing_left(home)


def test_a_pod_has_its_own_environment_and_the_callers(check, cluster, home, script):
    show = "print(*(os.environ.get(n, '-') for n in ('FROM_POD', 'FROM_CALLER', 'BOTH')))"
    script("job.py", JOB + show)
    pod = POD.replace("env: [", "env: [{name: BOTH, value: pod}, ")
    done = check(runs=2, env={"FROM_CALLER": "yes", "BOTH": "caller"}, pod=pod)
    assert done.rc == 0, done
    for folder in (home / "runs").iterdir():
        # the cluster expands what stands in a value, as it does in a command
        assert (folder / "stdout").read_text().endswith("a $(HOME) b yes pod\n")
        node = json.loads((folder / "run.json").read_text())["node"]
        assert node["engine"] == "k8s" and node["job"].startswith("twinrun-")


@pytest.mark.parametrize(
    ("place", "allowed"),
    [
        pytest.param("pin:n2", {"n2"}, marks=ALSO_FULL),
        ("avoid:n1,n2", {"n3", "n4"}),
        ("type:kubernetes.io/arch=amd64,disk=fast", {"n3"}),
        ("same-type", {"n1", "n2", "n3"}),
    ],
)
def test_place(check, cluster, home, place, allowed):
    cluster.nodes["n3"]["metadata"]["labels"]["disk"] = "fast"
    cluster.nodes["n4"] = k8s_here.node("n4", instance="small")
    if place == "same-type":  # the first run goes to the second of the allowed nodes
        cluster.nodes["n4"]["metadata"]["labels"]["nvidia.com/gpu.product"] = "A100"
    done = check("--place", place, runs=3 if place == "same-type" else 2)
    assert done.rc == 0 and set(nodes_of(home).values()) <= allowed, done
    valid(cluster.seen)


RICH = """kind: Pod
apiVersion: v1
metadata: {name: train, annotations: {a: b}}
spec:
  nodeSelector: {kubernetes.io/arch: amd64}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions: [{key: disk, operator: In, values: [fast]}]
          - matchFields: [{key: metadata.name, operator: In, values: [n2]}]
  tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
  securityContext: {runAsUser: 0}
  restartPolicy: Never
  containers:
    - {name: log, image: registry.example/log:1}
    - name: twinrun
      image: registry.example/train@sha256:0000
      command: [sleep]
      args: [infinity]
      env: [{name: TWINRUN_NODE, value: n9}]
      resources: {limits: {nvidia.com/gpu: 1}}
"""


def valid(manifests):
    """The cluster's own schemas, by a program of others; without it the test says less."""
    validate = (
        pytest.importorskip("kubernetes_validate")
        if not FULL
        else __import__("kubernetes_validate")
    )
    for version in ("1.29", "1.32", "1.37"):
        for manifest in manifests:
            validate.validate(manifest, version, strict=True)


def test_what_a_pod_brings_stays(check, cluster, home):
    cluster.nodes["n3"]["metadata"]["labels"]["disk"] = "fast"
    done = check("--place", "avoid:n3,n4", runs=2, pod=RICH)
    assert done.rc == 0 and set(nodes_of(home).values()) == {"n2"}, done
    job = cluster.seen[0]
    assert job["metadata"]["annotations"] == {"a": "b"}
    assert job["metadata"]["namespace"] == "default"
    spec = job["spec"]["template"]["spec"]
    log, ours = spec["containers"]
    assert log == {"name": "log", "image": "registry.example/log:1"}
    assert ours["command"][:2] == ["/bin/sh", "-c"] and "args" not in ours
    assert [e["name"] for e in ours["env"]] == ["TWINRUN_NODE"]
    assert "valueFrom" in ours["env"][0] and ours["resources"]["limits"] == {"nvidia.com/gpu": 1}
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in required["nodeSelectorTerms"]:  # alternatives: each has to leave the nodes out
        left_out = [f["values"] for f in term["matchFields"] if f["operator"] == "NotIn"]
        assert left_out == [["n3"], ["n4"]]
    assert spec["securityContext"] == {"runAsUser": 0} and spec["restartPolicy"] == "Never"
    assert job["spec"]["backoffLimitPerIndex"] == 0 and "podFailurePolicy" not in job["spec"]
    valid(cluster.seen)


# ---------------------------------------------------------------- what goes wrong


def test_evicted_and_lost_runs_are_made_again(check, cluster, home):
    cluster.faults = {1: "evicted", 2: "lost", 3: "nothing"}
    done = check(runs=5, env={"JOB_S": "1"})
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert "3 runs had to be made again and count for nothing: 3 lost" in notes(done)
    assert not cluster.jobs and nothing_left(home)


@pytest.mark.parametrize("fault", ["elsewhere", "lies"])
def test_a_run_on_another_node(check, cluster, fault):
    cluster.faults, cluster.always = {0: fault}, True
    options = ("--place", "pin:n2") if fault == "elsewhere" else ()
    done = check(*options, env={"JOB_S": "4"} if fault == "lies" else None)
    assert done.rc == 2 and "a node that was not asked for" in done.err, done


def test_a_pod_that_is_started_twice(check, cluster):
    cluster.faults = {0: "twice"}
    done = check(runs=2)
    assert done.rc == 0 and done.json["outcome"] == "same", done


def test_a_pod_that_does_not_see_our_files(check, cluster):
    cluster.faults, cluster.always = {0: "blind"}, True
    done = check()
    assert done.rc == 2 and "has to be mounted at the same paths" in done.err, done


def test_lists_that_fail_or_make_no_sense(check, cluster):
    cluster.away, cluster.broken = 1, b'{"kind": "PodList", "items": [{"metadata": 1}, 2, '
    done = check(runs=2, env={"JOB_S": "4"})
    assert done.rc == 0 and "made again" not in notes(done), done


def test_a_cluster_that_would_repeat_runs(check, cluster, home):
    cluster.old = True
    done = check()
    assert done.rc == 2 and "Kubernetes 1.29 or newer is needed" in done.err, done
    assert not cluster.jobs and nothing_left(home)


def test_a_job_that_is_refused(check):
    done = check(pod=POD.replace("queue: mine", "queue: full"))
    assert done.rc == 2 and "the queue is full" in done.err, done


def test_an_account_that_may_not_list_nodes(check, cluster, home):
    cluster.lists_nodes = False
    done = check("--place", "pin:n3", runs=2)
    assert done.rc == 0 and set(nodes_of(home).values()) == {"n3"}, done


def test_many_nodes_and_names_that_none_can_have(check, cluster, home):
    odd = ["a,b", "-n9", "N1", "a b", "x\ny", "\u001b[31m", "é" * 300, ""]
    cluster.nodes = {n: k8s_here.node(n) for n in [*odd, *(f"m{i}" for i in range(COUNT))]}
    done = check("--place", f"pin:m{COUNT - 9}", runs=2)
    assert done.rc == 0 and set(nodes_of(home).values()) == {f"m{COUNT - 9}"}, done


def test_a_cluster_that_is_not_there(check, cluster):
    cluster.stop()
    done = check()
    assert done.rc == 2 and "kubectl create said: " in done.err and "refused" in done.err, done


@pytest.mark.skipif(not FULL, reason="waits for a minute")
def test_a_kubectl_that_does_not_answer(check, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    done = check(env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert done.rc == 2 and "no answer within 60 s; try kubectl get nodes" in done.err, done


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (POD.replace("kind: Pod", "kind: Job").replace("v1", "batch/v1"), "expected one manifest"),
        (POD + "  restartPolicy: Always\n", 'restartPolicy Never or none, found "Always"'),
        (RICH.replace("twinrun", "train"), "one that is called twinrun, found 2"),
        (POD + "---\n" + POD, "expected one manifest of kind Pod, found 2"),
        ("kind: [", "kubectl create said: "),
        ("kind: Pod\napiVersion: v1\nspec: 7\n", "expected one container"),
    ],
)
def test_manifests_that_are_none(check, pod, words):
    done = check(pod=pod)
    assert done.rc == 2 and words in done.err, done


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--on", "k8s"), "expected k8s:FILE"),
        (("--on", "k8s:nowhere.yaml"), 'found no file "nowhere.yaml"'),
        (("--on", "k8s:pod.yaml", "--hosts", "a"), "--hosts is for --on cmd"),
        (("--on", "k8s:pod.yaml", "--place", "pin:n9"), "it leaves no node"),
        (("--on", "k8s:pod.yaml", "--place", "type:fast"), "expected labels of nodes"),
        (("--on", "k8s:pod.yaml", "--place", "type:disk=fast"), "no node has the labels disk=fast"),
    ],
)
def test_bad_use(twinrun, cluster, script, options, words):
    script("pod.yaml", POD)
    done = twinrun("check", *options, "--", "true", env=cluster.environment)
    assert done.rc == 2 and words in done.err, done


def test_taints_keep_runs_away(twinrun, cluster, script):
    """A node that takes no pod of ours is none to choose."""
    taint = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    cluster.nodes["n2"] = k8s_here.node("n2", spec=taint)
    cluster.nodes["n3"] = k8s_here.node("n3", ready="Unknown")
    for name, pod in (("n2", POD), ("n3", POD)):
        script("pod.yaml", pod)
        done = twinrun(
            *("check", "--on", "k8s:pod.yaml", "--place", f"pin:{name}", "--", "true"),
            env=cluster.environment,
        )
        assert done.rc == 2 and "it leaves no node that is ready" in done.err, done


def test_ctrl_c_deletes_the_jobs(cluster, build, start, home, script, work):
    script("job.py", JOB)
    script("pod.yaml", POD)
    process = start(
        [
            *(build / "cmd" / "twinrun", "check", "--on", "k8s:pod.yaml", "--runs", "6", "--"),
            *(sys.executable, "job.py"),
        ],
        cwd=work,
        env={**os.environ, **cluster.environment, "TWINRUN_HOME": str(home), "JOB_S": "2"},
    )
    until = time.monotonic() + 60
    while len(cluster.seen) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert nothing_left(home) and not cluster.jobs and not cluster.pods


@pytest.mark.skipif(not FULL, reason="some 40 runs")
def test_isolate_names_a_node_that_computes_otherwise(twinrun, cluster, script):
    script("job.py", JOB)
    script("pod.yaml", POD)
    done = twinrun(
        *("isolate", "--json", "--no-cases", "--jobs", 4, "--pin", "node,hash-seed"),
        *("--on", "k8s:pod.yaml", "--", sys.executable, "job.py"),
        env={**cluster.environment, "TWINRUN_ENGINE_GRACE": "1", "BAD_NODES": "n3"},
    )
    assert done.rc == 1 and [c["factor"] for c in done.json["causes"]] == ["node"], done
    assert "only runs on node n3 diverge" in notes(done), done
