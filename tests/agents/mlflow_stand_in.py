# SPDX-License-Identifier: Apache-2.0
"""A small MLflow server: the calls that twinrun makes, with the limits of the real one.

What it lets through was held against MLflow 3.17 (test_trackers.py with TWINRUN_FULL=1 runs the
same test against the real server).
"""

import http.server
import json
import re
import threading
import urllib.parse

KEY = re.compile(r"^[/\w.\- :]{1,250}$")


class Refusal(Exception):
    def __init__(self, status, code, message=""):
        self.status, self.body = status, {"error_code": code, "message": message}


class MlflowStandIn:
    """`url`; `experiments`: name -> id; `runs`: id -> dict; `writes`: how many calls have changed
    something. `trouble(n, path)` is asked before the n-th call: None, "close" (nothing is
    done), "lose" (it is done, and the answer is lost), or (status, bytes, headers) to answer with.
    """

    def __init__(self):
        self.experiments, self.runs, self.artifacts = {}, {}, {}
        self.models = {}
        self.writes, self.calls, self.trouble = 0, 0, lambda n, path: None
        self.authorization = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer._handle(self)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handle(self, request):
        self.calls += 1
        self.authorization.append(request.headers.get("Authorization"))
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = urllib.parse.urlsplit(request.path)
        trouble = self.trouble(self.calls, path.path)
        if trouble == "close":
            request.close_connection = True
            return
        headers = {"Content-Type": "application/json"}
        if trouble and trouble != "lose":
            status, answer, headers = trouble
        else:
            try:
                status, answer = 200, self._answer(request.command, path, body)
            except Refusal as refusal:
                status, answer = refusal.status, refusal.body
            answer = json.dumps(answer).encode()
        if trouble == "lose":
            request.close_connection = True
            return
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def _answer(self, method, path, body):
        place = "/api/2.0/mlflow-artifacts/artifacts/"
        if method == "PUT" and path.path.startswith(place):
            self.writes += 1
            self.artifacts[urllib.parse.unquote(path.path[len(place) :])] = body
            return {}
        asked = json.loads(body) if body else dict(urllib.parse.parse_qsl(path.query))
        call = path.path.replace("/api/2.0/mlflow/", "").replace("/", "_").replace("-", "_")
        answer = getattr(self, f"{method}_{call}")(**asked)
        if method in ("POST", "DELETE") and call != "runs_search":
            self.writes += 1
        return answer

    def GET_experiments_get_by_name(self, experiment_name):
        if experiment_name not in self.experiments:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "Could not find experiment")
        ident = self.experiments[experiment_name]
        return {"experiment": {"experiment_id": ident, "lifecycle_stage": "active"}}

    def POST_experiments_create(self, name):
        self.experiments[name] = str(len(self.experiments) + 1)
        return {"experiment_id": self.experiments[name]}

    def POST_runs_search(
        self, experiment_ids, filter, max_results, run_view_type, order_by=(), page_token="0"
    ):
        """By twinrun.id, or all in pages of two."""
        wanted = re.fullmatch(r"tags\.`twinrun\.id` = '(\w+)'", filter)
        if filter and not wanted:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "Invalid clause(s) in filter string")
        found = [
            self._shown(key)
            for key, run in self.runs.items()
            if run["experiment"] in experiment_ids
            and (not wanted or run["tags"].get("twinrun.id") == wanted[1])
        ]
        at = int(page_token)
        more = {"next_page_token": str(at + 2)} if at + 2 < len(found) else {}
        return {"runs": found[at : at + 2], **more} if found else {}

    def _shown(self, ident):
        run = self.runs[ident]
        uri = f"mlflow-artifacts:/{run['experiment']}/{ident}/artifacts"
        data = {
            "params": [{"key": k, "value": v} for k, v in run["params"].items()],
            "tags": [{"key": k, "value": v} for k, v in run["tags"].items()],
            "metrics": [{"key": k} for k in run["metrics"]],
        }
        info = {"run_id": ident, "artifact_uri": uri, "status": run["status"]}
        return {"info": {**info, "run_name": run["name"]}, "data": data}

    def POST_runs_create(self, experiment_id, start_time, run_name, tags):
        assert isinstance(start_time, int) and experiment_id in self.experiments.values()
        return {"run": self._shown(self.add(experiment_id, run_name, tags))}

    def add(self, experiment, name, tags=(), metrics=None, status="RUNNING"):
        """A run; metrics: key -> [(step, milliseconds, value)]. Its id."""
        ident = "%032x" % (len(self.runs) + 1)
        self.runs[ident] = {
            "experiment": experiment,
            "name": name,
            "params": {},
            "tags": {t["key"]: t["value"] for t in tags},
            "metrics": metrics or {},
            "inputs": {},
            "status": status,
        }
        return ident

    def POST_runs_log_batch(self, run_id, metrics=(), params=(), tags=()):
        run = self.runs[run_id]
        too_many = len(metrics) + len(params) + len(tags) > 1000
        if too_many or len(params) > 100 or len(tags) > 100:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "too many")
        for item in [*metrics, *params, *tags]:
            if not KEY.match(item["key"]):
                raise Refusal(400, "INVALID_PARAMETER_VALUE", "Invalid name: %r" % item["key"])
        for p in params:
            if len(p["value"]) > 6000 or run["params"].get(p["key"], p["value"]) != p["value"]:
                raise Refusal(400, "INVALID_PARAMETER_VALUE", "param")
            run["params"][p["key"]] = p["value"]
        for m in metrics:
            value = float(m["value"])
            assert not isinstance(m["value"], str) or m["value"] in ("NaN", "Infinity", "-Infinity")
            points = run["metrics"].setdefault(m["key"], [])
            points.append((m["step"], m["timestamp"], value))
        run["tags"].update({t["key"]: t["value"] for t in tags})
        return {}

    def POST_runs_set_tag(self, run_id, key, value):
        self.runs[run_id]["tags"][key] = value
        return {}

    def GET_metrics_get_history(self, run_id, metric_key, max_results, page_token="0"):
        """In pages of three, however many were asked for: that is the server's right."""
        points, at = self.runs[run_id]["metrics"][metric_key], int(page_token)
        shown = [
            {"key": metric_key, "step": s, "timestamp": t, "value": v if v == v else "NaN"}
            for s, t, v in points[at : at + 3]
        ]
        more = {"next_page_token": str(at + 3)} if at + 3 < len(points) else {}
        return {"metrics": shown, **more}

    def POST_runs_log_inputs(self, run_id, datasets):
        for d in datasets:
            assert set(d["dataset"]) == {"name", "digest", "source_type", "source"}
            if len(d["dataset"]["digest"]) > 36:
                raise Refusal(400, "INVALID_PARAMETER_VALUE", "digest")
            self.runs[run_id]["inputs"][d["dataset"]["name"]] = d["dataset"]["digest"]
        return {}

    def POST_runs_update(self, run_id, status, end_time):
        assert isinstance(end_time, int)
        self.runs[run_id]["status"] = status
        return {}

    # ---- the registry of models: names -> {"tags", "aliases", "versions": number -> version}

    def _model(self, name):
        if "/" in name or ":" in name:
            message = f"Invalid model name '{name}'. Names cannot contain '/' or ':'."
            raise Refusal(400, "INVALID_PARAMETER_VALUE", message)
        if name not in self.models:
            message = f"Registered Model with name={name} not found"
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", message)
        return self.models[name]

    def _version(self, name, version):
        if version not in self._model(name)["versions"]:
            message = f"Model Version (name={name}, version={version}) not found"
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", message)
        return self.models[name]["versions"][version]

    def GET_registered_models_get(self, name):
        m = self._model(name)
        shown = {"name": name, "creation_timestamp": 1, "last_updated_timestamp": 1}
        if m["tags"]:
            shown["tags"] = pairs(m["tags"])
        if m["aliases"]:
            shown["aliases"] = [{"alias": a, "version": v} for a, v in m["aliases"].items()]
        return {"registered_model": shown}

    def POST_registered_models_create(self, name, tags=()):
        try:
            self._model(name)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
        else:
            message = f"Registered Model (name={name}) already exists."
            raise Refusal(400, "RESOURCE_ALREADY_EXISTS", message)
        tags = {t["key"]: t["value"] for t in tags}
        self.models[name] = {"tags": tags, "aliases": {}, "versions": {}}
        return self.GET_registered_models_get(name)

    def POST_model_versions_create(self, name, source, tags=(), description=""):
        scheme, _, path = source.partition(":")
        if scheme in ("http", "https") or not path.startswith("/"):
            message = f"Invalid model version source: '{source}'."
            raise Refusal(400, "INVALID_PARAMETER_VALUE", message)
        versions = self._model(name)["versions"]
        number = str(len(versions) + 1)
        tags = {t["key"]: t["value"] for t in tags}
        versions[number] = {"source": source, "description": description, "tags": tags}
        return {"model_version": self._shown_version(name, number)}

    def _shown_version(self, name, number):
        v = self.models[name]["versions"][number]
        shown = {"name": name, "version": number, "source": v["source"], "status": "READY"}
        return {**shown, **({"tags": pairs(v["tags"])} if v["tags"] else {})}

    def GET_model_versions_search(self, filter, max_results, page_token="0"):
        """The newest first, in pages of two, however many were asked for."""
        name = re.fullmatch("name='([^']*)'", filter)[1]
        found = sorted(self.models.get(name, {"versions": {}})["versions"], key=int, reverse=True)
        at = int(page_token)
        shown = [self._shown_version(name, n) for n in found[at : at + 2]]
        more = {"next_page_token": str(at + 2)} if at + 2 < len(found) else {}
        return {"model_versions": shown, **more} if shown else {}

    def POST_model_versions_set_tag(self, name, version, key, value):
        assert isinstance(value, str)
        self._version(name, version)["tags"][key] = value
        return {}

    def POST_registered_models_alias(self, name, alias, version):
        self._version(name, version)
        self.models[name]["aliases"][alias] = version
        return {}

    def DELETE_registered_models_alias(self, name, alias):
        self._model(name)["aliases"].pop(alias, None)
        return {}


def pairs(tags):
    return [{"key": k, "value": v} for k, v in tags.items()]
