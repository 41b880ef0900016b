# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API as kubectl needs for nodes, pods and Indexed Jobs, on loopback; the
pods' commands really run, as processes of this machine under the name of a node. kubectl itself is
the real one.

What a cluster can do to a run is a *fault*, by the completion index of a pod: see Cluster.faults.
That the controller of a real cluster treats indexes as this one does was not seen: no cluster was
to be had.
"""

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NODES = ["n1", "n2", "n3", "n4"]
SPACE = "team-a"

KINDS = {
    "nodes": ("v1", "Node", False, ["no"]),
    "pods": ("v1", "Pod", True, ["po"]),
    "jobs": ("batch/v1", "Job", True, []),
}


def missing():
    return "" if shutil.which("kubectl") else "no kubectl (Debian: kubernetes-client)"


def node(name, **changes):
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name + ".rack",
                "node.kubernetes.io/instance-type": changes.get("instance", "big"),
                **changes.get("labels", {}),
            },
        },
        "spec": changes.get("spec", {}),
        "status": {
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
        },
    }


def expanded(word, env):
    """The words of a container's command: $(NAME) is a variable's value, $$ a dollar."""

    def value(m):
        if m[0] == "$$":
            return "$"
        return env.get(m[1], m[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", value, word)


def selected(labels, selector):
    for part in re.split(r",(?![^(]*\))", selector) if selector else []:
        among = re.fullmatch(r"\s*(\S+)\s+in\s+\((.*)\)\s*", part)
        if among:
            if labels.get(among[1]) not in [v.strip() for v in among[2].split(",")]:
                return False
        else:
            key, _, wanted = part.replace("==", "=").partition("=")
            if labels.get(key) != wanted:
                return False
    return True


class Cluster:
    """`environment` is what kubectl needs. Faults, all empty:

    faults: {index: name}, each used once a Job unless it is in `always`:
      "evicted"   the pod's process gets SIGTERM once it has claimed its run; the pod fails, evicted
      "lost"      SIGKILL, and the pod vanishes
      "elsewhere" it runs on another node than it was to be, and says so
      "lies"      it runs on one node and the API says another
      "twice"     its process is started once more when it has ended
      "nothing"   its process is /bin/true
      "blind"     it does not see the folder of the runs
    """

    def __init__(self, folder, nodes=None):
        self.folder = folder
        self.lock = threading.RLock()
        self.nodes = {n["metadata"]["name"]: n for n in nodes or map(node, NODES)}
        self.jobs, self.pods, self.processes = {}, {}, {}
        self.faults, self.always, self.seen = {}, False, []
        self.old = False  # a cluster that knows no backoffLimitPerIndex
        self.lists_nodes = True
        self.broken = None  # an answer to lists that is no JSON
        self.away = 0  # so many lists of pods get no answer
        self.turn = 0
        outer = self

        class Handler(Answers):
            cluster = outer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        config = folder / "kubeconfig"
        port = self.server.server_address[1]
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        (folder / "home").mkdir(exist_ok=True)
        # kubectl keeps what it has learned of a cluster in the home
        self.environment = {"KUBECONFIG": str(config), "HOME": str(folder / "home")}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for process in self.processes.values():
                kill(process, signal.SIGKILL)

    # ---- what a controller, a scheduler and a kubelet do

    def create_job(self, space, job):
        with self.lock:
            name = job["metadata"]["name"]
            job["metadata"].update(namespace=space, uid=f"u-{len(self.seen)}")
            self.seen.append(copy.deepcopy(job))
            if self.old:
                del job["spec"]["backoffLimitPerIndex"]
            job["status"] = {"active": job["spec"]["completions"]}
            self.jobs[name] = job
            for index in range(job["spec"]["completions"]):
                fault = self.faults.get(index)
                if fault and not self.always:
                    del self.faults[index]
                self.create_pod(job, index, fault)
            return job

    def allowed(self, spec):
        required = (
            spec.get("affinity", {})
            .get("nodeAffinity", {})
            .get("requiredDuringSchedulingIgnoredDuringExecution")
        )

        def holds(rule, values):
            return (values.get(rule["key"]) in rule["values"]) == (rule["operator"] == "In")

        found = []
        for name, one in self.nodes.items():
            labels = one["metadata"]["labels"]
            if not all(labels.get(k) == v for k, v in spec.get("nodeSelector", {}).items()):
                continue
            if one["spec"].get("unschedulable") or one["spec"].get("taints"):
                continue
            terms = required["nodeSelectorTerms"] if required else [{}]
            for term in terms:
                by_name = term.get("matchFields", [])
                assert all(len(r["values"]) == 1 for r in by_name), by_name
                if all(holds(r, {"metadata.name": name}) for r in by_name) and all(
                    holds(r, labels) for r in term.get("matchExpressions", [])
                ):
                    found.append(name)
                    break
        return found

    def create_pod(self, job, index, fault):
        spec = copy.deepcopy(job["spec"]["template"]["spec"])
        labels = dict(job["spec"]["template"]["metadata"]["labels"])
        labels.update(
            {
                "job-name": job["metadata"]["name"],
                "batch.kubernetes.io/job-completion-index": str(index),
            }
        )
        name = f"{job['metadata']['name']}-{index}-x{len(self.seen)}"
        pod = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": job["metadata"]["namespace"],
                "labels": labels,
                "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            },
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        self.pods[name] = pod
        places = self.allowed(spec)
        if not places:
            pod["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": f"0/{len(self.nodes)} nodes are available",
                }
            ]
            return
        self.turn += 1
        where = places[self.turn % len(places)]
        if fault == "elsewhere":
            where = next(n for n in self.nodes if n not in places)
        spec["nodeName"] = where
        if fault == "lies":
            spec["nodeName"] = next(n for n in self.nodes if n != where)
        pod["status"]["phase"] = "Running"
        threading.Thread(
            target=self.run_pod, args=(job, pod, where, index, fault), daemon=True
        ).start()

    def run_pod(self, job, pod, where, index, fault):
        container = next(c for c in pod["spec"]["containers"] if "command" in c)
        env = {"PATH": os.environ["PATH"], "HOSTNAME": pod["metadata"]["name"]}
        for one in container["env"]:
            source = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            env[one["name"]] = where if source == "spec.nodeName" else one["value"]
        env["JOB_COMPLETION_INDEX"] = str(index)
        env["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
        words = [expanded(w, env) for w in container["command"] + container.get("args", [])]
        if fault == "nothing":
            words = ["/bin/true"]
        if fault == "blind":
            words[-1] = "/nowhere"
        code = None
        for _ in range(2 if fault == "twice" else 1):
            process = subprocess.Popen(
                words,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            with self.lock:
                self.processes[pod["metadata"]["name"]] = process
            if fault in ("evicted", "lost"):
                until_claimed(process, words[-1], index)
                process.send_signal(signal.SIGTERM if fault == "evicted" else signal.SIGKILL)
                if fault == "lost":
                    kill(process, signal.SIGKILL)
            code = process.wait()
        self.end_pod(job, pod, index, fault, code)

    def end_pod(self, job, pod, index, fault, code):
        with self.lock:
            name = pod["metadata"]["name"]
            self.processes.pop(name, None)
            good = code == 0 and fault != "evicted"
            done = "completedIndexes" if good else "failedIndexes"
            status = job["status"]
            status[done] = ",".join(filter(None, [status.get(done), str(index)]))
            pod["status"]["phase"] = "Succeeded" if good else "Failed"
            pod["status"]["containerStatuses"] = [
                {
                    "name": pod["spec"]["containers"][0]["name"],
                    "state": {"terminated": {"exitCode": abs(code)}},
                }
            ]
            if fault == "evicted":
                pod["status"].update(
                    reason="Evicted", message="The node was low on resource: memory."
                )
            if fault == "lost":
                self.pods.pop(name, None)

    def delete(self, kind, name):
        with self.lock:
            if kind == "jobs" and self.jobs.pop(name, None) is not None:
                for pod in [
                    p for p, o in self.pods.items() if o["metadata"]["labels"]["job-name"] == name
                ]:
                    self.delete("pods", pod)
            elif kind == "pods" and self.pods.pop(name, None) is not None:
                process = self.processes.get(name)
                if process:
                    process.send_signal(signal.SIGTERM)


def until_claimed(process, batch, index):
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if os.path.exists(f"{batch}/{index}/claim.json"):
            time.sleep(0.3)
            return
        time.sleep(0.02)


def kill(process, how):
    try:
        os.killpg(process.pid, how)
    except OSError:
        pass


class Answers(BaseHTTPRequestHandler):
    """The API, as far as kubectl asks for it."""

    protocol_version = "HTTP/1.1"
    cluster = None

    def log_message(self, *_):
        pass

    def say(self, code, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code, reason, message):
        self.say(
            code,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": reason,
                "message": message,
                "code": code,
            },
        )

    def discovery(self, path):
        group = {"/api/v1": "v1", "/apis/batch/v1": "batch/v1"}.get(path)
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            version = {"groupVersion": "batch/v1", "version": "v1"}
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [{"name": "batch", "versions": [version], "preferredVersion": version}],
            }
        if path == "/version":
            return {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
        if not group:
            return None
        return {
            "kind": "APIResourceList",
            "groupVersion": group,
            "resources": [
                {
                    "name": name,
                    "singularName": "",
                    "namespaced": spaced,
                    "kind": kind,
                    "shortNames": short,
                    "verbs": ["create", "delete", "get", "list"],
                }
                for name, (version, kind, spaced, short) in KINDS.items()
                if version == group
            ],
        }

    def target(self):
        """(kind, name) of a path below the API; ("", "") of others."""
        path = urlsplit(self.path).path
        m = re.fullmatch(
            r"/(?:api/v1|apis/batch/v1)(?:/namespaces/([^/]+))?/(nodes|pods|jobs)(?:/([^/]+))?",
            path,
        )
        return (m[2], m[3] or "") if m else ("", "")

    def do_GET(self):
        c = self.cluster
        path = urlsplit(self.path).path
        query = {k: v[0] for k, v in parse_qs(urlsplit(self.path).query).items()}
        found = self.discovery(path)
        kind, name = self.target()
        if found:
            self.say(200, found)
        elif path == "/openapi/v2":
            self.say(200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
        elif kind == "nodes" and not c.lists_nodes:
            self.refuse(403, "Forbidden", 'nodes is forbidden: User "u" cannot list "nodes"')
        elif kind and name:
            with c.lock:
                one = {"nodes": c.nodes, "pods": c.pods, "jobs": c.jobs}[kind].get(name)
                body = json.dumps(one).encode() if one else b""
            if body:
                self.say(200, body)
            else:
                self.refuse(404, "NotFound", f'{kind} "{name}" not found')
        elif kind:
            self.list(kind, query)
        else:
            self.refuse(404, "NotFound", "the server could not find the requested resource")

    def list(self, kind, query):
        c = self.cluster
        if kind == "pods" and c.away:
            c.away -= 1
            self.refuse(500, "InternalError", "etcdserver: leader changed")
            return
        if kind == "pods" and c.broken:
            self.say(200, c.broken)
            return
        with c.lock:
            all_of = {"nodes": c.nodes, "pods": c.pods, "jobs": c.jobs}[kind]
            items = [
                o
                for o in all_of.values()
                if selected(o["metadata"].get("labels", {}), query.get("labelSelector", ""))
            ]
            first = int(query.get("continue") or 0)
            size = int(query.get("limit") or 0) or len(items) or 1
            version, name, *_ = KINDS[kind]
            more = str(first + size) if first + size < len(items) else ""
            body = json.dumps(
                {
                    "kind": name + "List",
                    "apiVersion": version,
                    "metadata": {"resourceVersion": "1", "continue": more},
                    "items": items[first : first + size],
                }
            ).encode()
        self.say(200, body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        space = re.search(r"/namespaces/([^/]+)/", self.path)
        if self.target()[0] != "jobs":
            self.refuse(405, "MethodNotAllowed", "only jobs are made here")
        elif body["metadata"].get("labels", {}).get("queue") == "full":
            self.refuse(403, "Forbidden", "admission: the queue is full")
        else:
            self.say(201, self.cluster.create_job(space[1], body))

    def do_DELETE(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.cluster.delete(*self.target())
        self.say(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
