# SPDX-License-Identifier: Apache-2.0
"""twinrun registry mirror: the signed log decides, MLflow is told, and what was changed in MLflow is
a finding or a wish, never silently a promotion. The same against MLflow itself with --full.
"""

import json
import subprocess
import time
import urllib.request

import pytest

from conftest import FULL, alive
from free_ports import free_port
from mlflow_stand_in import MlflowStandIn
from registry_helper import a_proxy, in_production, registry  # noqa: F401
from test_trackers import with_packages
from turn import part


class StandIn:
    """MLflow as the tests ask and change it, past twinrun."""

    def __init__(self):
        self.server = MlflowStandIn()
        self.url = self.server.url

    def aliases(self, name):
        return dict(self.server.models[name]["aliases"])

    def tags(self, name, version):
        return dict(self.server.models[name]["versions"][version]["tags"])

    def number(self, version):
        """MLflow's number of a version of ours; a lost answer may have left it twice."""
        found = self.server.models["resnet"]["versions"].items()
        return min((n for n, v in found if v["tags"]["twinrun.version"] == str(version)), key=int)

    def set_alias(self, name, alias, version):
        self.server.models[name]["aliases"][alias] = version

    def drop_alias(self, name, alias):
        del self.server.models[name]["aliases"][alias]

    def set_tag(self, name, version, key, value):
        self.server.models[name]["versions"][version]["tags"][key] = value

    def create(self, name):
        self.server.models[name] = {"tags": {}, "aliases": {}, "versions": {}}

    def add_version(self, name):
        versions = self.server.models[name]["versions"]
        versions[str(len(versions) + 1)] = {"source": "s3://x/y", "description": "", "tags": {}}
        return str(len(versions))


class Real:
    """The same by MLflow's own REST API."""

    def __init__(self, url):
        self.url = url

    def call(self, method, path, **values):
        request = urllib.request.Request(
            f"{self.url}/api/2.0/mlflow/{path}",
            json.dumps(values).encode() if values else None,
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def aliases(self, name):
        m = self.call("GET", f"registered-models/get?name={name}")["registered_model"]
        return {a["alias"]: a["version"] for a in m.get("aliases", [])}

    def tags(self, name, version):
        v = self.call("GET", f"model-versions/get?name={name}&version={version}")["model_version"]
        return {t["key"]: t["value"] for t in v.get("tags", [])}

    def set_alias(self, name, alias, version):
        self.call("POST", "registered-models/alias", name=name, alias=alias, version=version)

    def drop_alias(self, name, alias):
        self.call("DELETE", "registered-models/alias", name=name, alias=alias)

    def set_tag(self, name, version, key, value):
        self.call(
            "POST", "model-versions/set-tag", name=name, version=version, key=key, value=value
        )

    def create(self, name):
        self.call("POST", "registered-models/create", name=name)

    def add_version(self, name):
        made = self.call("POST", "model-versions/create", name=name, source="s3://x/y")
        return made["model_version"]["version"]


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.skipif(
    not FULL, reason="MLflow itself is 850 MB: with --full"))])  # fmt: skip
def mlflow(request, tmp_path):
    if request.param == "stand-in":
        s = StandIn()
        yield s
        s.server.close()
        return
    python = with_packages("TWINRUN_MLFLOW_PYTHON", "mlflow")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = request.getfixturevalue("start")(
        [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1",
         "--backend-store-uri", "sqlite:///m.db", "--artifacts-destination", tmp_path / "kept"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while True:
        assert alive(server.pid) and time.monotonic() < deadline
        try:
            urllib.request.urlopen(url + "/health", timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    yield Real(url)


def mirror(registry, mlflow, *words, rc=0):  # noqa: F811
    return registry("mirror", "--mlflow", mlflow.url, *words, rc=rc)


def findings(registry, mlflow):  # noqa: F811
    """What it finds; nothing was written anywhere."""
    r = mirror(registry, mlflow, "--json", rc=None)
    assert r.rc == (1 if r.json["findings"] else 0) and r.json["wrote"] == []
    return [f["what"] for f in r.json["findings"]]


def test_the_log_is_told(registry, mlflow):  # noqa: F811
    in_production(registry, b"one", b"two")
    (what,) = findings(registry, mlflow)
    assert what == "resnet: MLflow has no model resnet"
    r = mirror(registry, mlflow, "--push")
    assert "alias production was not there, is version 2 now" in r.out
    assert findings(registry, mlflow) == []
    assert mlflow.aliases("resnet") == {"production": "2"}
    artifacts = {v["version"]: v["artifact"] for v in registry("ls", "--json").json["versions"]}
    log = registry("log", "--json").json["entries"]
    for number, stage in ("1", "retired"), ("2", "production"):
        tags = mlflow.tags("resnet", number)
        assert tags["twinrun.artifact"] == artifacts[int(number)]
        assert tags["twinrun.stage"] == stage and tags["twinrun.version"] == number
        assert tags["twinrun.entry"] == log[-1]["digest"]
        assert tags["twinrun.verdict"] == "production: contents pass"
    # told again nothing changes
    assert "wrote" not in mirror(registry, mlflow, "--push").out
    # the log goes on: a rollback, and nobody in production
    registry("rollback", "resnet", "--into", "back.pt", "--key", "ana.key")
    found = findings(registry, mlflow)
    assert any(
        "MLflow's alias production names version 2 (its number 2), the signed log names version 1"
        in f
        for f in found
    )
    mirror(registry, mlflow, "--push")
    assert mlflow.aliases("resnet") == {"production": "1"}
    registry("retire", "resnet@1", "--why", "x", "--key", "ana.key")
    r = mirror(registry, mlflow, "--push")
    assert "is gone" in r.out and mlflow.aliases("resnet") == {}


def test_what_was_changed_there_is_a_finding(registry, mlflow):  # noqa: F811
    """Each change in its own; and none of them changes the log."""
    in_production(registry, b"one", b"two")
    registry.add(content=b"three")
    mirror(registry, mlflow, "--push")
    entries = len(registry.entries())
    now = lambda: mlflow.aliases("resnet")["production"]  # noqa: E731
    changes = [
        (lambda: mlflow.set_alias("resnet", "production", "1"), "names version 1"),
        (lambda: mlflow.set_alias("resnet", "canary", "3"), "alias canary names version 3"),
        (lambda: mlflow.drop_alias("resnet", "production"), "MLflow has no alias production"),
        (lambda: mlflow.set_tag("resnet", now(), "twinrun.artifact", "0" * 64), "says that it is"),
        (lambda: mlflow.set_tag("resnet", now(), "twinrun.version", "9"), "has no such one"),
        (lambda: mlflow.set_tag("resnet", now(), "twinrun.registry", "x"), "has no tags of this"),
        (lambda: mlflow.set_tag("resnet", "1", "twinrun.stage", "production"), "tag twinrun.stage"),
        (
            lambda: mlflow.set_alias("resnet", "production", mlflow.add_version("resnet")),
            "which has no tags of this registry; the signed log names version 2",
        ),
    ]
    for change, words in changes:
        assert findings(registry, mlflow) == []
        change()
        found = findings(registry, mlflow)
        assert any(words in f for f in found), (words, found)
        r = mirror(registry, mlflow, rc=1)
        assert "MLflow does not say what the signed log says" in r.out
        mirror(registry, mlflow, "--push")
    assert len(registry.entries()) == entries
    assert registry.stages() == {1: "retired", 2: "production", 3: "candidate"}


def test_tags_that_were_copied_make_no_version_ours(registry, mlflow):  # noqa: F811
    """What another version has in tags can be set by anybody; where it came from cannot."""
    in_production(registry, b"one")
    registry.add(content=b"two")
    mirror(registry, mlflow, "--push")
    tags = mlflow.tags("resnet", "1")
    fake = mlflow.add_version("resnet")
    for key, value in tags.items():
        mlflow.set_tag("resnet", fake, key, value)
    mlflow.set_alias("resnet", "production", fake)
    (what,) = findings(registry, mlflow)
    assert "which says that it is version 1, and its source is s3://x/y, not twinrun:/" in what
    before = len(registry.entries())
    mirror(registry, mlflow, "--pull", "--key", "ana.key", rc=1)
    assert len(registry.entries()) == before
    mirror(registry, mlflow, "--push")
    assert mlflow.aliases("resnet")["production"] == "1" and findings(registry, mlflow) == []
    # of another model, and with what only seems to be a number
    for key, value in ("twinrun.model", "other"), ("twinrun.version", "\u00b2"):
        mlflow.set_tag("resnet", "1", key, value)
        found = findings(registry, mlflow)
        assert any("has no tags of this registry" in f for f in found), found
        mlflow.set_tag("resnet", "1", key, tags[key])


def two_wishes(registry, mlflow):  # noqa: F811
    """MLflow wants version 1 as canary, which the policy allows, and 2 in production: it does not."""
    registry.policy(
        "[[promote]]", 'to = "canary"', "[[promote]]", 'to = "production"', "signed = 1"
    )
    registry.make()
    for content in b"one", b"two":
        registry.add(content=content)
    mirror(registry, mlflow, "--push")
    mlflow.set_alias("resnet", "canary", "1")
    mlflow.set_alias("resnet", "production", "2")


def test_a_wish_is_a_promotion_only_by_the_policy(registry, mlflow):  # noqa: F811
    two_wishes(registry, mlflow)
    r = mirror(registry, mlflow, "--pull", rc=2)
    assert "--key" in r.err
    r = mirror(registry, mlflow, "--pull", "--key", "ana.key", rc=1)
    assert "resnet@1 is now in stage canary" in r.out
    assert "resnet@2 stays in stage candidate" in r.out and "FAIL  signed" in r.out
    assert "alias production names version 2" in r.out
    assert registry.stages() == {1: "canary", 2: "candidate"}
    entry = registry("log", "--json").json["entries"][-1]
    assert entry["why"] == f"MLflow at {mlflow.url} has it as canary"
    # a version that is retired does not come back by a wish
    registry("retire", "resnet@1", "--why", "x", "--key", "ana.key")
    mlflow.drop_alias("resnet", "production")
    mirror(registry, mlflow, "--push")
    mlflow.set_alias("resnet", "production", "1")
    before = len(registry.entries())
    r = mirror(registry, mlflow, "--pull", "--key", "ana.key", rc=1)
    assert "rollback" in r.err and len(registry.entries()) == before


def test_behind_a_wish_that_came_true_it_is_looked_again(registry, mlflow):  # noqa: F811
    """MLflow's tags say the old stage then: nobody reads that it says what the log says."""
    two_wishes(registry, mlflow)
    r = mirror(registry, mlflow, "--pull", "--json", "--key", "ana.key", rc=1)
    assert [(p["model"], p["version"], p["kind"]) for p in r.json["pulled"]] == [
        ("resnet", 1, "move")
    ]
    assert [(p["version"], p["to"], p["passed"]) for p in r.json["refused"]] == [
        (2, "production", False)
    ]
    assert [f["what"] for f in r.json["findings"]] == findings(registry, mlflow)
    assert any("tag twinrun.stage" in f for f in findings(registry, mlflow))
    mirror(registry, mlflow, "--push")
    # the wish alone
    registry.add(content=b"three")
    mirror(registry, mlflow, "--push")
    mlflow.set_alias("resnet", "canary", "3")
    r = mirror(registry, mlflow, "--pull", "--key", "ana.key", rc=1)
    assert "1 promotion was written, and MLflow is not told of it" in r.out
    assert registry.stages()[3] == "canary"
    mirror(registry, mlflow, "--push")
    assert findings(registry, mlflow) == []


def test_a_server_that_is_gone_behind_a_promotion(registry):  # noqa: F811
    """It is in the log, and that is said."""
    registry.make()
    registry.add(content=b"one")
    s = StandIn()
    try:
        mirror(registry, s, "--push")
        s.set_alias("resnet", "canary", "1")
        s.server.calls = 0
        s.server.trouble = lambda n, path: (500, b"{}", {}) if n > 2 else None
        r = mirror(registry, s, "--pull", "--key", "ana.key", rc=2)
        assert "some were written: 1 promotion is in the log and stays there" in r.err
        assert s.server.calls > 2 and registry.stages() == {1: "canary"}
    finally:
        s.server.close()


def test_what_is_not_ours_is_not_touched(registry, mlflow):  # noqa: F811
    in_production(registry, b"one")
    mlflow.create("resnet")
    mlflow.set_alias("resnet", "production", mlflow.add_version("resnet"))
    r = mirror(registry, mlflow, "--push", rc=1)
    assert "is not of this registry" in r.out and "wrote" not in r.out
    assert mlflow.aliases("resnet") == {"production": "1"} and mlflow.tags("resnet", "1") == {}
    r = mirror(registry, mlflow, "--pull", "--key", "ana.key", rc=1)
    assert "is not of this registry" in r.out


def test_names_and_one_model(registry, mlflow):  # noqa: F811
    """MLflow takes no slash in a name; two of ours that would be one there are told apart."""
    registry.make()
    for name in "vision/net", "vision.net", "other":
        registry.add(model=name, content=name.encode())
    mirror(registry, mlflow, "--push", "vision/net")
    assert mlflow.tags("vision.net", "1")["twinrun.model"] == "vision/net"
    r = mirror(registry, mlflow, "--push", "vision.net", rc=1)
    assert "is not of this registry" in r.out
    assert any("MLflow has no model other" in f for f in findings(registry, mlflow))
    mirror(registry, mlflow, "nobody", rc=2)
    mirror(registry, mlflow, "other@1", rc=2)


def test_a_log_that_is_not_to_be_trusted_is_not_mirrored(registry, mlflow):  # noqa: F811
    in_production(registry, b"one")
    last = registry.entries()[-1]
    last.write_bytes(last.read_bytes()[:-9] + b"x" * 9)
    for words in [], ["--push"], ["--pull", "--key", "ana.key"]:
        r = mirror(registry, mlflow, *words, rc=2)
        assert "nothing was written" in r.err


@pytest.mark.parametrize("trouble", ["lose", "close", "broken"])
def test_a_server_in_trouble_harms_nothing(registry, trouble):  # noqa: F811
    """At each call: told again, MLflow says what the log says."""
    in_production(registry, b"one", b"two")
    s = StandIn()
    try:
        for at in [*part(list(range(1, 10)), of=3), 60]:
            s.server.models.clear()
            s.server.calls = 0
            what = (500, b"<html>", {}) if trouble == "broken" else trouble
            s.server.trouble = lambda n, path, at=at, what=what: what if n == at else None
            r = mirror(registry, s, "--push", rc=None)
            if at == 60:
                assert r.rc == 0 and s.server.calls == 9
                break
            assert r.rc == 2, r
            s.server.trouble = lambda n, path: None
            mirror(registry, s, "--push")
            assert findings(registry, s) == []
            assert s.aliases("resnet") == {"production": s.number(2)}
    finally:
        s.server.close()


def test_no_proxy_stands_between_us_and_this_machine(registry):  # noqa: F811
    """By plain HTTP it would read the token."""
    in_production(registry, b"one")
    s = StandIn()
    try:
        with a_proxy() as proxy:
            asked = {"no_proxy": "", "NO_PROXY": "", "http_proxy": proxy.url}
            registry.env.update(asked, MLFLOW_TRACKING_TOKEN="secret")
            mirror(registry, s, "--push")
            assert findings(registry, s) == [] and proxy.asked == []
            r = registry("mirror", "--mlflow", "http://mlflow.example", rc=2)
            assert proxy.asked and "mlflow.example" in proxy.asked[0], r
    finally:
        s.server.close()


def test_bad_use(registry):  # noqa: F811
    registry.make()
    assert "expected --mlflow" in registry("mirror", rc=2).err
    url = ["--mlflow", "http://127.0.0.1:1"]
    assert "one of them" in registry("mirror", *url, "--push", "--pull", rc=2).err
    assert "mirror does" in registry("ls", *url, rc=2).err
    registry.add()
    assert "does not answer" in registry("mirror", *url, rc=2).err
    for bad in "ftp://host", "http://user:word@127.0.0.1:1":
        r = registry("mirror", "--mlflow", bad, rc=2)
        assert "expected" in r.err and "word@" not in r.err
