# SPDX-License-Identifier: Apache-2.0
"""twinrun manifest: what it writes is held against the clusters' own schemas and a real sbatch; what
it finds, against manifests that differ from a good one in one place.
"""

import copy
import json
import os
import subprocess
import sys

import pytest
import yaml
from conftest import FULL
from image_helper import Layout
from package_helper import repack

DIGEST = "0123456789abcdef" * 4
IMAGE = f"registry.example/train@sha256:{DIGEST}"
WHOLE = ("-i", IMAGE, "-p", "node.kubernetes.io/instance-type=p4d.24xlarge", "-g", 8, "-c", 96)
WHOLE += ("--driver", "550.54.15", "-d", "corpus:/data", "--snapshot", DIGEST, "-s", 7)
WHOLE += ("--run-id", "lr3-a")
# words that YAML, a shell or Kubernetes could make something else of
ODD = ["python", "t.py", "--lr", "1e-3", "yes", "012", "$(HOME)", "$HOME", "it's", 'a "b"', "", "-"]
ODD += ["a: b", "# no", "é\u202e", "line\nline", "{a}", "null", "~", "*x", "%d", "\\n", "!x"]


@pytest.fixture
def write(twinrun):
    """write(kind, ...options, command=) -> (Result, text)"""

    def call(kind, *options, command=("python", "train.py")):
        done = twinrun("manifest", "write", kind, *options, "--", *command)
        return done, done.out

    return call


@pytest.fixture
def lint(twinrun, work):
    """lint(text, ...options) -> Result with the parsed answer"""

    def call(text, *options, name="job.yaml"):
        (work / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return twinrun("manifest", "lint", "--json", *options, name)

    return call


def states(done):
    """rule -> its states, worst first"""
    out = {}
    for f in done.json["files"][0]["rules"]:
        out.setdefault(f["rule"], []).append(f["state"])
    return out


# ---------------------------------------------------------------- the clusters' own schemas


def strict(model):
    """The schema of a model of the cluster's own client, with every field that it does not know
    refused: those clients take any."""
    schema = model.model_json_schema(by_alias=True)
    simple = {"float": "number", "str": "string", "int": "integer"}
    for part in [schema, *schema.get("$defs", {}).values()]:
        fields = part.get("properties", {})
        if "one_of_schemas" in fields:  # a value of one of several types, wrapped in Python
            types = [simple[t] for t in fields["one_of_schemas"]["default"]]
            part.clear()
            part["type"] = types
        elif fields:
            part["additionalProperties"] = False
    return schema


def needed(name):
    return __import__(name, fromlist=["x"]) if FULL else pytest.importorskip(name)


def validator(kind):
    """A function that fails where a document is not what the cluster's schema says."""
    if kind == "k8s":
        validate = needed("kubernetes_validate").validate
        return lambda d: [validate(d, v, strict=True) for v in ("1.29", "1.32", "1.37")]
    schemas = {}
    if kind == "argo":
        schemas["Workflow"] = strict(needed("hera.workflows.models").Workflow)
    else:
        models = needed("kubeflow_trainer_api.models")
        schemas["TrainJob"] = strict(models.TrainerV1alpha1TrainJob)
        schemas["TrainingRuntime"] = strict(models.TrainerV1alpha1TrainingRuntime)
    check = needed("jsonschema").validate
    return lambda d: check(d, schemas[d["kind"]])


def pods_of(document):
    """Each mapping that is a container's."""
    if isinstance(document, dict):
        if "command" in document:
            yield document
        for value in document.values():
            yield from pods_of(value)
    elif isinstance(document, list):
        for value in document:
            yield from pods_of(value)


@pytest.mark.parametrize("kind", ["argo", "k8s", "trainjob"])
@pytest.mark.parametrize("options", [WHOLE, WHOLE + ("-r", 3, "--namespace", "ml"), ()])
def test_schemas(write, kind, options):
    valid = validator(kind)
    nodes = () if kind == "argo" else ("-N", 4)
    done, text = write(kind, *options, *nodes, command=ODD)
    assert done.rc == (0 if options else 1), done
    documents = list(yaml.safe_load_all(text))
    assert len(documents) == (2 if kind == "trainjob" else 1)
    for d in documents:
        if options:
            valid(d)
        for container in pods_of(d):
            # what Kubernetes makes of it: $$( is $(, and nothing is left to fill in
            words = [w.replace("$$(", "\0(") for w in container["command"]]
            assert not any("$(" in w for w in words)
            assert [w.replace("\0(", "$(") for w in words] == ODD


@pytest.mark.parametrize("kind", ["argo", "k8s", "trainjob"])
def test_the_schemas_refuse(write, kind):
    """The oracle itself: a field that is misspelt, or of another type, does not pass."""
    valid = validator(kind)
    good = list(yaml.safe_load_all(write(kind, *WHOLE)[1]))[-1]
    valid(good)
    spec = good["spec"]
    inner = {"argo": "entrypoint", "k8s": "template", "trainjob": "runtimeRef"}[kind]
    for change in ("rename", "retype"):
        bad = copy.deepcopy(good)
        value = bad["spec"].pop(inner)
        bad["spec"][inner + "s" if change == "rename" else inner] = (
            value if change == "rename" else 7
        )
        with pytest.raises(Exception):  # each validator has its own
            valid(bad)
    assert inner in spec


# ---------------------------------------------------------------- Slurm


SLURM = ("-i", IMAGE, "-p", "a100", "-g", 8, "-c", 96, "--driver", "550.54.15", "-s", 7)
SLURM += ("-d", "/corpus/v3:/data", "--run-id", "lr3-a", "--snapshot", DIGEST)


@pytest.mark.parametrize("options", [SLURM, SLURM + ("-r", 2, "-N", 3), ()])
def test_a_shell_reads_the_script(write, work, options):
    done, text = write("slurm", *options, command=ODD)
    assert done.rc == (0 if options else 1), done
    (work / "job.sbatch").write_text(text)
    subprocess.run(["bash", "-n", "job.sbatch"], cwd=work, check=True)
    # and the last line's words are the command's
    last = text.split("exec srun ", 1)[1]
    shown = subprocess.run(
        ["bash", "-c", 'printf "%s\\0" ' + last], capture_output=True, check=True, timeout=20
    ).stdout.decode()
    assert shown.split("\0")[:-1][-len(ODD) :] == ODD


def test_sbatch_takes_it(write, slurm, work):
    done, text = write("slurm", "-p", "new", "-N", 2, "-c", 1, "-s", 7, "--run-id", "x")
    (work / "job.sbatch").write_text(text)
    said = subprocess.run(
        ["sbatch", "--test-only", "job.sbatch"],
        cwd=work,
        env={**os.environ, **slurm.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode == 0, said.stderr
    assert "using 2 processors on nodes n[3-4]" in said.stderr, said.stderr  # the constraint's


def test_the_job_has_what_the_script_says(write, slurm, work):
    # a file for each task: what two print into one may be mixed
    program = "import os, sys, json; json.dump([dict(os.environ), sys.argv[1:]], "
    program += "open('out.' + os.environ['SLURM_PROCID'], 'w'))"
    done, text = write(
        *("slurm", "-p", "old", "-N", 2, "-c", 1, "-s", 7, "--run-id", "x"),
        command=[sys.executable, "-c", program, *[w for w in ODD if w != "é\u202e"]],
    )
    (work / "job.sbatch").write_text(text)
    subprocess.run(
        ["sbatch", "--wait", "job.sbatch"],
        cwd=work,
        env={**os.environ, **slurm.environment, "CALLERS": "own"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    for task in range(2):
        env, argv = json.loads((work / f"out.{task}").read_text())
        assert argv == [w for w in ODD if w != "é\u202e"]
        assert env["SEED"] == env["PYTHONHASHSEED"] == "7" and env["RUN_ID"] == "x"
        assert env["OMP_NUM_THREADS"] == "1" and "CALLERS" not in env


# ---------------------------------------------------------------- rules of manifests

POD = """\
nodeSelector: {node.kubernetes.io/instance-type: p4d.24xlarge,
  nvidia.com/cuda.driver-version.full: 550.54.15}
restartPolicy: Never
volumes: [{name: data, persistentVolumeClaim: {claimName: corpus}}]
containers:
  - name: train
    image: IMAGE
    command: [python, train.py]
    env: [{name: PYTHONHASHSEED, value: "0"}, {name: SEED, value: "7"}, {name: RUN_ID, value: a},
      {name: OMP_NUM_THREADS, value: "8"}]
    resources: {limits: {nvidia.com/gpu: 8}}
    volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
""".replace("IMAGE", IMAGE)


def job(pod, **spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"backoffLimit": 0, "template": {"spec": yaml.safe_load(pod)}, **spec},
    }


K8S_RULES = ["image", "pool", "driver", "snapshot", "seed", "run-id", "retry", "threads"]
TERM = "{key: %s, operator: In, values: [%s]}"
AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "{nodeSelectorTerms: [%s]}}}\n"
)
SELECTOR = "{node.kubernetes.io/instance-type: p4d.24xlarge,"
TYPE = "node.kubernetes.io/instance-type"


def with_affinity(*terms):
    return (SELECTOR, "{"), AFFINITY % ", ".join("{matchExpressions: [%s]}" % t for t in terms)


# rule, state, what is put in place of what in POD (and what is added)
ONE_CHANGE = [
    ("image", "broken", (IMAGE, "train:latest"), ""),
    ("image", "broken", (f"@sha256:{DIGEST}", ""), ""),
    ("image", "broken", (DIGEST, DIGEST[:-1]), ""),
    ("image", "broken", (DIGEST, DIGEST.upper()), ""),
    ("image", "broken", ("sha256:", "sha512:"), ""),
    ("image", "not known", (IMAGE, "'{{image}}'"), ""),
    ("image", "broken", ("name: train\n", "name: train\n"), "initContainers: [{image: busybox}]\n"),
    ("pool", "broken", (SELECTOR, "{"), ""),
    ("pool", "broken", (TYPE, "kubernetes.io/arch"), ""),
    ("pool", "not known", (TYPE, "team"), ""),
    ("pool", "broken", *with_affinity(TERM % (TYPE, "a, b"))),
    ("pool", "broken", *with_affinity(TERM % (TYPE, "a"), TERM % (TYPE, "b"))),
    ("pool", "broken", *with_affinity("{key: %s, operator: NotIn, values: [a]}" % TYPE)),
    ("pool", "holds", *with_affinity(TERM % (TYPE, "a"))),
    ("pool", "holds", (SELECTOR, "{"), "nodeName: n1\n"),
    ("driver", "broken", ("driver-version.full", "driver-version.major"), ""),
    (
        "driver",
        "holds",
        (
            "driver-version.full: 550.54.15",
            "driver.major: '5', "
            "nvidia.com/cuda.driver.minor: '4', nvidia.com/cuda.driver.rev: '1'",
        ),
        "",
    ),
    ("driver", "broken", ("driver-version.full: 550.54.15", "driver.major: '5'"), ""),
    ("snapshot", "broken", (", readOnly: true", ""), ""),
    ("snapshot", "broken", ("readOnly: true", "readOnly: false"), ""),
    ("snapshot", "broken", ("readOnly: true", "readOnly: 'true'"), ""),
    ("snapshot", "broken", ("persistentVolumeClaim: {claimName: corpus}", "emptyDir: {}"), ""),
    ("snapshot", "broken", ("name: data, mount", "name: other, mount"), ""),
    (
        "snapshot",
        "not known",
        ("persistentVolumeClaim: {claimName: corpus}", "hostPath: {path: /d}"),
        "",
    ),
    ("snapshot", "holds", ("{claimName: corpus}", "{claimName: corpus, readOnly: true}"), ""),
    ("seed", "broken", ('SEED, value: "7"', 'SEEDS, value: "7"'), ""),
    ("seed", "broken", ('PYTHONHASHSEED, value: "0"', "PYTHONHASHSEED, value: random"), ""),
    ("seed", "broken", ('{name: PYTHONHASHSEED, value: "0"},', ""), ""),
    ("seed", "not known", ('SEED, value: "7"', "SEED, valueFrom: {configMapKeyRef: {}}"), ""),
    ("seed", "not known", ('{name: SEED, value: "7"}', "{name: X, value: y}"), "ENVFROM"),
    ("seed", "holds", ('{name: SEED, value: "7"},', "{name: X, value: y},"), "ARGS"),
    ("run-id", "broken", ("RUN_ID", "RUNNING"), ""),
    ("run-id", "broken", ("value: a}", 'value: ""}'), ""),
    ("run-id", "holds", ("value: a}", "valueFrom: {fieldRef: {fieldPath: metadata.name}}}"), ""),
    ("retry", "broken", ("restartPolicy: Never", "restartPolicy: OnFailure"), ""),
    ("retry", "broken", ("restartPolicy: Never\n", ""), ""),
    ("threads", "broken", ("OMP_NUM_THREADS", "MKL_NUM_THREADS"), ""),
    ("threads", "broken", ('value: "8"', 'value: "0"'), ""),
    ("threads", "broken", ('value: "8"', "value: many"), ""),
    ("threads", "not known", ('value: "8"', "value: $(N)"), ""),
]


def test_a_good_one(lint):
    done = lint(json.dumps(job(POD)))
    assert done.rc == 0 and states(done) == {r: ["holds"] for r in K8S_RULES}, done
    assert done.json["outcome"] == "holds"


@pytest.mark.parametrize(("rule", "state", "change", "added"), ONE_CHANGE)
def test_one_change(lint, rule, state, change, added):
    pod = POD.replace(*change)
    assert pod != POD or added
    if added == "ENVFROM":
        pod = pod.replace(
            "    resources", "    envFrom: [{configMapRef: {name: x}}]\n    resources"
        )
    elif added == "ARGS":
        pod = pod.replace("    resources", "    args: [--seed, '7']\n    resources")
    else:
        pod += added
    done = lint(yaml.safe_dump(job(pod)))
    found = states(done)
    assert state in found[rule], done
    # what else could come of it: envFrom may also bring a name, and the number of threads
    others = {r for r in K8S_RULES if found[r] != ["holds"]} - {rule}
    assert not others, done
    assert done.rc == {"broken": 1, "not known": 3, "holds": 0}[state], done
    for f in done.json["files"][0]["rules"]:
        assert f["why"] and ("fix" in f) == (f["state"] != "holds")


def test_without_gpus_there_is_no_driver(lint):
    done = lint(yaml.safe_dump(job(POD.replace("nvidia.com/gpu: 8", "cpu: 8"))))
    assert done.rc == 0 and "driver" not in states(done), done


def test_retries_of_a_job(lint):
    good = job(POD)
    del good["spec"]["backoffLimit"]
    assert states(lint(yaml.safe_dump(good)))["retry"] == ["broken"]
    good["spec"]["backoffLimitPerIndex"] = 2
    assert states(lint(yaml.safe_dump(good)))["retry"] == ["holds"]


def argo(pod, **template):
    spec = yaml.safe_load(pod)
    spec.pop("restartPolicy")
    container = spec.pop("containers")[0]
    return {
        "kind": "Workflow",
        "metadata": {"generateName": "train-"},
        "spec": {
            "entrypoint": "all",
            "volumes": spec.pop("volumes"),
            "templates": [
                {"name": "all", "steps": [[{"name": "a", "template": "train"}]]},
                {"name": "train", **spec, "container": container, **template},
            ],
        },
    }


@pytest.mark.parametrize(
    ("template", "state"),
    [
        ({"retryStrategy": {"limit": "0"}}, "holds"),
        ({"retryStrategy": {"limit": 3}}, "holds"),
        ({"retryStrategy": {}}, "broken"),
        ({"retryStrategy": {"limit": "{{inputs.parameters.n}}"}}, "not known"),
        ({}, "not known"),
    ],
)
def test_retries_of_argo(lint, template, state):
    done = lint(yaml.safe_dump(argo(POD, **template)))
    found = states(done)
    assert found.pop("retry") == [state], done
    assert found == {r: ["holds"] for r in K8S_RULES if r != "retry"}, done
    assert done.json["files"][0]["jobs"] == 1


def test_a_runtime_that_is_not_there(lint, write):
    runtime, train_job = yaml.safe_load_all(write("trainjob", *WHOLE)[1])
    done = lint(yaml.safe_dump(train_job))
    found = states(done)
    for rule in ("pool", "snapshot", "retry", "driver"):
        assert found[rule] == ["not known"], done
    assert found["image"] == ["holds"] and done.rc == 3, done
    # a runtime of the same name and another kind is not the one that is asked for
    runtime["kind"] = "ClusterTrainingRuntime"
    done = lint(yaml.safe_dump_all([runtime, train_job]))
    assert done.rc == 3 and done.json["files"][0]["jobs"] == 2, done


def test_other_kinds(lint):
    pod = yaml.safe_load(POD)
    pods = {
        "CronJob": {"jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}},
        "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": pod}}}},
    }
    for kind, spec in pods.items():
        done = lint(yaml.safe_dump({"kind": kind, "metadata": {"name": "x"}, "spec": spec}))
        wanted = "holds" if kind == "CronJob" else "not known"
        assert states(done)["retry"] == [wanted], done
        assert states(done)["image"] == ["holds"], done
    both = yaml.safe_dump_all(
        [{"kind": "ConfigMap"}, job(POD), {"kind": "List", "items": [job(POD)]}]
    )
    found = lint(both).json["files"][0]
    assert (found["jobs"], found["other_documents"]) == (2, 1)


def test_lines_and_pool_labels(twinrun, lint, work):
    text = "# one\n---\nkind: Pod\nspec:\n" + "".join(
        "  " + line + "\n" for line in POD.replace(IMAGE, "x:1").replace(TYPE, "team").splitlines()
    )
    done = lint(text)
    lines = {f["rule"]: f["line"] for f in done.json["files"][0]["rules"]}
    numbered = text.splitlines()
    assert "image: x:1" in numbered[lines["image"] - 1]
    assert "nodeSelector" in numbered[lines["pool"] - 1]
    assert states(done)["pool"] == ["not known"]
    assert states(lint(text, "--pool-label", "team"))["pool"] == ["holds"]
    said = twinrun("manifest", "lint", "job.yaml")
    assert said.rc == 1 and f"job.yaml:{lines['image']}: image: broken: " in said.out, said
    assert "\n    why: " in said.out and "\n    fix: " in said.out


def test_anchors_and_merges(lint):
    text = yaml.safe_dump({"kind": "Pod", "spec": yaml.safe_load(POD)})
    merged = "base: &b\n" + "".join("  " + x + "\n" for x in POD.splitlines())
    merged += "kind: Pod\nspec: {<<: *b}\n"
    assert states(lint(merged)) == states(lint(text)) == {r: ["holds"] for r in K8S_RULES}


# ---------------------------------------------------------------- rules of scripts

SCRIPT = f"""#!/bin/bash
#SBATCH --nodes=2 -c 8
#SBATCH --gpus-per-node=a100:8   # and this is a comment
#SBATCH --no-requeue
#SBATCH --export=NIL
export PYTHONHASHSEED=0 SEED=7 RUN_ID=a
export OMP_NUM_THREADS=8
driver=$(srun nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u)
[ "$driver" = 550.54.15 ] || exit 64
srun apptainer exec --bind /snapshots/v3:/data:ro \\
    docker://{IMAGE} python train.py
"""
SCRIPT_RULES = K8S_RULES + ["directives"]
SCRIPT_CHANGES = [
    ("image", "broken", f"docker://{IMAGE}", "docker://train:latest"),
    (
        "image",
        "broken",
        f"apptainer exec --bind /snapshots/v3:/data:ro \\\n    docker://{IMAGE}",
        "env X=/a:/b:ro",
    ),
    ("image", "not known", f"docker://{IMAGE}", "train.sif"),
    ("image", "not known", f"docker://{IMAGE}", "docker://$IMAGE"),
    (
        "image",
        "holds",
        f"apptainer exec --bind /snapshots/v3:/data:ro \\\n    docker://{IMAGE}",
        f"--container-image={IMAGE} --container-mounts=/s:/data:ro",
    ),
    ("pool", "broken", "a100:8", "8"),
    ("pool", "not known", "a100:8", "8 -C fast"),
    ("pool", "broken", "a100:8", "8 --constraint=[a|b]"),
    ("pool", "holds", "a100:8", "8 --nodelist n[1-2]"),
    ("pool", "holds", "--gpus-per-node=a100:8", "--gres=gpu:a100:8"),
    ("driver", "broken", "driver_version", "name"),
    ("driver", "not known", "|| exit 64", "|| echo other"),
    ("snapshot", "broken", "/data:ro", "/data"),
    ("snapshot", "broken", "/data:ro", "/data:rom"),
    ("seed", "broken", " SEED=7", ""),
    ("seed", "broken", "PYTHONHASHSEED=0 ", ""),
    ("seed", "broken", "PYTHONHASHSEED=0 ", "PYTHONHASHSEED=random "),
    ("seed", "not known", " SEED=7", " SEED=$SLURM_ARRAY_TASK_ID"),
    ("seed", "holds", " SEED=7", " X=$(echo --seed 7)"),
    ("run-id", "broken", " RUN_ID=a", ""),
    ("run-id", "broken", " RUN_ID=a", " # RUN_ID=a"),
    ("retry", "broken", "#SBATCH --no-requeue\n", ""),
    ("retry", "broken", "#SBATCH --no-requeue", "##SBATCH --no-requeue"),
    ("retry", "holds", "--no-requeue", "--requeue"),
    ("threads", "broken", "export OMP_NUM_THREADS=8\n", ""),
    ("threads", "not known", "OMP_NUM_THREADS=8", "OMP_NUM_THREADS=$N"),
    ("threads", "holds", "OMP_NUM_THREADS=8", "OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK"),
    ("directives", "broken", "#SBATCH --export=NIL\n", ""),
    ("directives", "broken", "=NIL", "=ALL,X=1"),
    ("directives", "broken", "srun apptainer", "#SBATCH --mem=1G\nsrun apptainer"),
]


def test_a_good_script(lint):
    done = lint(SCRIPT)
    assert done.rc == 0 and states(done) == {r: ["holds"] for r in SCRIPT_RULES}, done


@pytest.mark.parametrize(("rule", "state", "old", "new"), SCRIPT_CHANGES)
def test_one_change_of_a_script(lint, rule, state, old, new):
    assert SCRIPT.count(old) == 1
    done = lint(SCRIPT.replace(old, new))
    found = states(done)
    assert state in found.pop(rule), done
    assert found == {r: ["holds"] for r in SCRIPT_RULES if r != rule}, done
    assert done.rc == {"broken": 1, "not known": 3, "holds": 0}[state], done


def test_a_feature_of_one_type(lint):
    text = SCRIPT.replace("a100:8", "8 -C 'ib&fast'")
    assert states(lint(text))["pool"] == ["not known"]
    assert states(lint(text, "--pool-label", "fast"))["pool"] == ["holds"]
    assert states(lint(text, "--pool-label", "fas"))["pool"] == ["not known"]


def test_every_rule_has_a_case_of_each_kind():
    for rule in SCRIPT_RULES:
        assert {"broken"} <= {s for r, s, *_ in ONE_CHANGE + SCRIPT_CHANGES if r == rule}, rule


# ---------------------------------------------------------------- the image of a package

OTHER = "f" * 64


@pytest.fixture
def package(twinrun, work):
    """package(**of_its_image): a package whose image came from a registry."""
    Layout(work / "image", [])
    assert twinrun("record", "--", "true").rc == 0
    assert twinrun("pack", "last", "-o", "P", "--data", "none", "--image", "oci:image").rc == 0
    path = work / "P" / "data" / "environment" / "environment.json"
    packed = json.loads(path.read_text())
    name = {"reference": "registry.example/train", "digest": f"sha256:{DIGEST}"}

    def call(image=None, **more):
        named = {**packed["image"], **name, **more} if image is None else image
        path.write_text(json.dumps({**packed, "image": named}))
        repack(work / "P")
        return "P"

    return call


@pytest.mark.parametrize("kind", ["argo", "k8s", "trainjob", "slurm"])
def test_the_image_comes_from_a_package(write, lint, package, kind):
    whole = WHOLE if kind != "slurm" else SLURM
    at = whole.index("-i")
    without = whole[:at] + whole[at + 2 :]
    done, text = write(kind, *without, "--package", package())
    assert text == write(kind, *whole)[1] and done.rc == write(kind, *whole)[0].rc, done
    assert states(lint(text, "--package", "P"))["package"] == ["holds"]
    # an image of one's own beside the package: it is written, and said
    done, text = write(kind, *whole[:at], "-i", IMAGE.replace(DIGEST, OTHER), *whole[at + 2 :],
                       "--package", "P")  # fmt: skip
    assert done.rc == 1 and OTHER in text
    assert f"expected the image that the package names, sha256:{DIGEST}, found" in done.err


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        ("", "", "holds"),
        ("registry.example/train", "mirror.example/t", "holds"),  # its bytes are the same
        (DIGEST, OTHER, "broken"),
        (IMAGE, "train:latest", "not known"),
        (IMAGE, "'{{image}}'", "not known"),
    ],
)
def test_an_image_that_is_not_the_package_s(lint, package, old, new, state):
    for text, rules in ((POD, K8S_RULES), (SCRIPT, SCRIPT_RULES)):
        changed = text.replace(old, new) if old else text
        changed = changed if text == SCRIPT else yaml.safe_dump(job(changed))
        found = states(lint(changed, "--package", package()))
        assert found["package"] == [state], (changed, found)
        assert set(found) == {*rules, "package"}


def test_of_several_images_one_is_the_package_s(lint, package):
    """A side car has another one; so has what starts first. A manifest for one platform counts."""
    beside = f"registry.example/logs@sha256:{OTHER}"
    pod = POD + f"initContainers: [{{image: '{beside}'}}]\n"
    assert states(lint(yaml.safe_dump(job(pod)), "--package", package()))["package"] == ["holds"]
    done = lint(yaml.safe_dump(job(POD)), "--package", package(digest=f"sha256:{OTHER}",
                manifest=f"sha256:{DIGEST}"))  # fmt: skip
    assert states(done)["package"] == ["holds"]
    # none at all, and one that is in another object
    script = SCRIPT.replace(f"apptainer exec --bind /snapshots/v3:/data:ro \\\n    docker://{IMAGE}",
                            "env")  # fmt: skip
    assert script != SCRIPT
    done = lint(script, "--package", package())
    assert states(done)["package"] == ["broken"] and "found none" in done.out
    # in the JSON the fix is what to write
    done = lint(SCRIPT.replace(DIGEST, OTHER), "--package", "P")
    fix = next(f["fix"] for f in done.json["files"][0]["rules"] if f["rule"] == "package")
    assert fix == IMAGE and done.rc == 1


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ({}, "expected a package that names its image, found one without"),
        ({"digest": "x", "id": "y"}, 'expected an image with "id" and "digest"'),
        ("moved", f"its run was made in sha256:{OTHER}: pack it again"),
        ("nowhere", "came from no registry"),
    ],
)
def test_a_package_that_gives_no_image(write, lint, package, image, why):
    if image == "moved":
        package(moved=True, recorded=f"sha256:{OTHER}")
    elif image == "nowhere":
        package(reference=None)
    else:
        package(image)
    done, text = write("k8s", "--package", "P")
    assert done.rc == 2 and why in done.err and text == "", done
    if image == "nowhere":  # with a name of one's own it can be written, and is held against it
        assert "package" not in write("k8s", "-i", IMAGE, "--package", "P")[0].err
        assert states(lint(SCRIPT, "--package", "P"))["package"] == ["holds"]
    else:
        assert why in lint(SCRIPT, "--package", "P").err
    assert "expected a package" in write("k8s", "--package", ".")[0].err


def test_a_package_is_verified_before_it_is_believed(write, lint, package, twinrun, work):
    """Its files against its manifests, and its signature against whom the user trusts."""
    package()
    for name in "ana", "eve":
        assert twinrun("sign", "--new-key", f"{name}.key").rc == 0
    pack = ("pack", "last", "--data", "none", "--image", "oci:image", "--key", "ana.key")
    assert twinrun(*pack, "-o", "S").rc == 0

    def refused(folder, why, *more):
        done, text = write("k8s", "-i", IMAGE, "--package", folder, *more)
        assert done.rc == 2 and text == "" and why in done.err, done
        done = lint(SCRIPT, "--package", folder, *more)
        assert done.rc == 2 and why in done.err and not done.out
        assert "expected a package that is as it was made" in done.err

    by_ana, by_eve = ("--key", "ana.key.pub"), ("--key", "eve.key.pub")
    for trusted in (), by_ana:
        assert IMAGE in write("k8s", "-i", IMAGE, "--package", "S", *trusted)[1]
    refused("S", "not to be trusted", *by_eve)
    refused("P", "signature", *by_ana)
    # somebody puts another image into it
    path = work / "S" / "data" / "environment" / "environment.json"
    path.write_text(path.read_text().replace("sha256:", "sha256:0", 1))
    refused("S", "data/environment/environment.json")
    refused("S", "data/environment/environment.json", *by_ana)
    # and makes its manifests fit: for that there is no signature
    repack(work / "S")
    refused("S", "signature", *by_ana)
    assert "expected --package" in write("k8s", *by_ana)[0].err


# ---------------------------------------------------------------- what cannot be read

BROKEN = {
    "nothing": (b"", "expected a job"),
    "no job": (b"kind: ConfigMap\n", "found 1 other document"),
    "text": (b"hello\n", "expected a job"),
    "key twice": (b"kind: Pod\nspec: {a: 1, a: 2}\n", "line 2: the same key twice"),
    "bomb": (
        b"a0: &a0 [x]\n"
        + b"".join(
            b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 40)
        ),
        "aliases that stand for more than 200,000 values",
    ),
    "itself": (b"a: &a\n  b: *a\n", "line 2: an alias of what was not named before"),
    "deep": (b"[" * 100000, "nested more than 100 deep"),
    "wide": (b"".join(b"a%d: b\n" % i for i in range(3000)), "more than 2,000 keys"),
    "many": (b"---\na: b\n" * 1001, "more than 1,000 documents"),
    "huge": (b"a: b\n" * (1 << 20), "at most 4194304 bytes"),
    "binary": (bytes(range(256)) * 100, "expected YAML"),
    "NUL": (b"kind: Pod\0", "control characters"),
    "cut": (b'kind: "Pod', "line 1"),
    "key": (b"? [a]\n: b\n", "expected text as the key of a map"),
    "script with NUL": (b"#!/bin/sh\n\0", "found a NUL character"),
    "script of words": (b"#!/bin/sh\n" + b"x " * 1000000, "at most 400,000 words"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_input(lint, name):
    text, message = BROKEN[name]
    done = lint(text)
    assert done.rc == 2 and message in done.err and not done.out, done


def test_a_file_that_is_not_there(twinrun):
    done = twinrun("manifest", "lint", "none.yaml")
    assert done.rc == 2 and "none.yaml" in done.err, done


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("k8s", ("-i", "train:latest"), "expected REPOSITORY@sha256:"),
        ("k8s", ("-i", IMAGE + "'; x"), "expected REPOSITORY@sha256:"),
        ("k8s", ("-n", "Train"), "--name: expected small letters"),
        ("k8s", ("-p", "a100"), "as NAME=VALUE"),
        ("slurm", ("-p", "a|b"), "expected a feature"),
        ("slurm", ("-d", "/x:/data"), "expected --image"),
        ("slurm", ("-i", IMAGE, "-d", "x:/data"), "expected an absolute folder"),
        ("k8s", ("-d", "x"), "expected CLAIM:PATH"),
        ("k8s", ("-d", "x:data"), "expected an absolute path"),
        ("k8s", ("-d", "x:/da ta"), "expected an absolute path"),
        ("k8s", ("--driver", "5\n"), "--driver: expected"),
        ("k8s", ("--run-id", "-x"), "--run-id: expected"),
        ("k8s", ("--snapshot", "abc"), "--snapshot: expected"),
        ("argo", ("-N", "2"), "one pod"),
        ("pbs", (), "expected argo, k8s, trainjob or slurm"),
        ("k8s", ("-s", "4294967296"), "--seed"),
        ("k8s", ("--json",), "for lint"),
    ],
)
def test_what_write_refuses(write, kind, options, message):
    done, text = write(kind, *options)
    assert done.rc == 2 and message in done.err and text == "", done


def test_argo_fills_in_nothing(write):
    done, text = write("argo", command=["echo", "{{workflow.name}}"])
    assert done.rc == 2 and "{{ }}" in done.err and text == "", done


def test_write_says_what_is_missing(twinrun, work):
    done = twinrun("manifest", "write", "k8s", "-o", "job.yaml", "--", "python", "train.py")
    assert done.rc == 1 and done.out == "" and "image: broken" in done.err, done
    assert yaml.safe_load((work / "job.yaml").read_text())["kind"] == "Job"
