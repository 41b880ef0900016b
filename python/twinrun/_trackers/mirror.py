# SPDX-License-Identifier: Apache-2.0
"""Models of a registry of twinrun, held against those of an MLflow server, or told to it.

The signed log decides which version is in which stage. MLflow gets a registered model for each
model, a version for each version with tags that say what it is, and the aliases `canary` and
`production`. Whatever is otherwise there is a finding; only what carries this registry's own tag is
ever written to.
"""

import json
import re

from common import Refused, Trouble
from to_mlflow import TAG, Server

ALIASES = ("canary", "production")
# Tags that say which version of ours one of MLflow's is.
REGISTRY, MODEL, VERSION, ARTIFACT = (
    "twinrun.registry",
    "twinrun.model",
    "twinrun.version",
    "twinrun.artifact",
)
PAGE = 1000


def name_there(name):
    """MLflow takes no / and no : in a name."""
    return re.sub(r"[/:]", ".", name)


def _tags(thing):
    return {t["key"]: t.get("value", "") for t in thing.get("tags") or []}


class Models(Server):
    """The part of MLflow's REST API that is about its registry."""

    def model(self, name):
        """The registered model, or None."""
        try:
            return self.get("registered-models/get", name=name)["registered_model"]
        except Refused as error:
            if error.status == 404 and "RESOURCE_DOES_NOT_EXIST" in error.body:
                return None
            raise

    def versions(self, name):
        """All versions: MLflow's number -> the version."""
        if "'" in name:
            raise Trouble("expected a name without a quote, found %s" % name)
        found, page = {}, {}
        while True:
            answer = self.get(
                "model-versions/search", filter="name='%s'" % name, max_results=PAGE, **page
            )
            for v in answer.get("model_versions") or []:
                if v["name"] == name:
                    found[str(v["version"])] = v
            if not answer.get("next_page_token"):
                return found
            page = {"page_token": answer["next_page_token"]}

    def set_alias(self, name, alias, version):
        self.post("registered-models/alias", name=name, alias=alias, version=version)

    def drop_alias(self, name, alias):
        body = json.dumps({"name": name, "alias": alias}).encode()
        self._call("DELETE", "registered-models/alias", body)


class Mirror:
    """One model: ours as the request has it, and what MLflow has."""

    def __init__(self, server, registry, ours):
        self.server, self.registry, self.ours = server, registry, ours
        self.name = name_there(ours["name"])
        self.findings, self.wrote = [], []
        self.look()

    def look(self):
        self.there = self.server.model(self.name)
        self.versions = self.server.versions(self.name) if self.there else {}
        self.aliases = {
            a["alias"]: str(a["version"]) for a in (self.there or {}).get("aliases") or []
        }
        # ours -> MLflow's; of several the first
        self.known = {}
        for number in sorted(self.versions, key=int):
            version, found, made = self.origin(number)
            if version and found == made:
                self.known.setdefault(version, number)

    def source(self, version):
        return "twinrun:/%s/%s/%d" % (self.registry, self.ours["name"], version)

    def origin(self, number):
        """Which version MLflow's `number` says that it is, its source, and the source that --push
        gave. Tags can be copied to another version, and be set; a source is given once.
        """
        there = self.versions.get(number, {})
        tags = _tags(there)
        version = tags.get(VERSION, "")
        if (
            tags.get(REGISTRY) != self.registry
            or tags.get(MODEL) != self.ours["name"]
            or not re.fullmatch("[0-9]{1,9}", version)
        ):
            return 0, "", ""
        return int(version), there.get("source", ""), self.source(int(version))

    def is_ours(self):
        tags = _tags(self.there)
        return tags.get(REGISTRY) == self.registry and tags.get(MODEL) == self.ours["name"]

    def find(self, what, alias=None, version=0, names=False):
        self.findings.append(
            {"model": self.ours["name"], "alias": alias, "version": version, "names": names,
             "what": "%s: %s" % (self.ours["name"], what)}
        )  # fmt: skip

    # ---- comparing

    def meant(self, number):
        """Which version of ours MLflow's `number` is: (version, ""), or (0, why it is none)."""
        tags = _tags(self.versions.get(number, {}))
        version, found, made = self.origin(number)
        if not version:
            return 0, "which has no tags of this registry"
        ours = {v["version"]: v for v in self.ours["versions"]}.get(version)
        if not ours:
            return 0, "which says that it is version %d, and the log has no such one" % version
        if found != made:
            return 0, "which says that it is version %d, and its source is %s, not %s" % (
                version, found or "not there", made,
            )  # fmt: skip
        if tags.get(ARTIFACT) != ours["artifact"]:
            return 0, "which says that it is artifact %.12s, and version %d in the log is %.12s" % (
                tags.get(ARTIFACT, "?"), version, ours["artifact"],
            )  # fmt: skip
        return version, ""

    def compare(self):
        if not self.there:
            self.find("MLflow has no model %s" % self.name)
            return
        if not self.is_ours():
            self.find(
                "MLflow's model %s is not of this registry: its tags %s and %s do not say so"
                % (self.name, REGISTRY, MODEL)
            )
            return
        for alias in ALIASES:
            self.compare_alias(alias)
        for v in self.ours["versions"]:
            number = self.known.get(v["version"])
            if number is None:
                self.find("MLflow has no version for %d" % v["version"])
                continue
            tags = _tags(self.versions[number])
            for key, value in sorted(v["tags"].items()):
                if tags.get(key) != value[:TAG]:
                    self.find(
                        "tag %s of MLflow's version %s is %s, the signed log makes it %s"
                        % (key, number, tags.get(key) or "not there", value)
                    )

    def compare_alias(self, alias):
        ours, number = self.ours[alias], self.aliases.get(alias)
        log = "the signed log names %s" % ("version %d" % ours if ours else "none")
        if number is None:
            if ours:
                self.find("MLflow has no alias %s, %s" % (alias, log), alias)
            return
        version, why = self.meant(number)
        if why:
            self.find(
                "MLflow's alias %s names its version %s, %s; %s" % (alias, number, why, log),
                alias, 0, True,
            )  # fmt: skip
        elif version != ours:
            self.find(
                "MLflow's alias %s names version %d (its number %s), %s"
                % (alias, version, number, log),
                alias, version, True,
            )  # fmt: skip

    # ---- telling

    def push(self):
        """Versions before aliases: no alias ever names what is not described."""
        if not self.there:
            tags = [_pair(REGISTRY, self.registry), _pair(MODEL, self.ours["name"])]
            try:
                self.server.post("registered-models/create", name=self.name, tags=tags)
                self.say("registered")
            except Refused as error:
                # somebody made it since we looked: whose it is is seen below
                if "RESOURCE_ALREADY_EXISTS" not in error.body:
                    raise
            self.look()
        if not self.there or not self.is_ours():
            return
        for v in self.ours["versions"]:
            self.push_version(v)
        for alias in ALIASES:
            self.push_alias(alias)
        self.look()

    def push_version(self, v):
        tags = {key: value[:TAG] for key, value in v["tags"].items()}
        number = self.known.get(v["version"])
        if number is None:
            made = self.server.post(
                "model-versions/create",
                name=self.name,
                source=self.source(v["version"]),
                tags=[_pair(k, t) for k, t in sorted(tags.items())],
                description="version %d in a registry of twinrun" % v["version"],
            )["model_version"]
            self.known[v["version"]] = str(made["version"])
            self.say("version %d is MLflow's version %s" % (v["version"], made["version"]))
            return
        had = _tags(self.versions[number])
        changed = sorted(k for k in tags if had.get(k) != tags[k])
        for key in changed:
            self.server.post(
                "model-versions/set-tag", name=self.name, version=number, key=key, value=tags[key]
            )
        if changed:
            self.say("version %d: %s" % (v["version"], ", ".join(changed)))

    def push_alias(self, alias):
        ours, had = self.ours[alias], self.aliases.get(alias)
        number = self.known[ours] if ours else None
        if had == number:
            return
        if number is None:
            self.server.drop_alias(self.name, alias)
        else:
            self.server.set_alias(self.name, alias, number)
        was = "was MLflow's version %s" % had if had else "was not there"
        self.say(
            "alias %s %s, %s" % (alias, was, "is version %d now" % ours if ours else "is gone")
        )

    def say(self, what):
        self.wrote.append("%s: %s" % (self.ours["name"], what))


def _pair(key, value):
    return {"key": key, "value": value}


def run(request, progress):
    server = Models(request["mirror"])
    found = {"findings": [], "wrote": []}
    for ours in request["models"]:
        progress("mirroring %s" % ours["name"])
        m = Mirror(server, request["registry"], ours)
        if request["push"]:
            m.push()
        m.compare()
        found["findings"] += m.findings
        found["wrote"] += m.wrote
    return found
