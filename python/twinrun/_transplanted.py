# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds what was set into a run against what followed.

A transplanted run started each step with recorded values; a replayed operation ran again on its
recorded inputs. Written from docs/internals/transplant.md: which steps count, and what an origin is
there. docs/format/verdict.md lists the claims.
"""

import os
from collections import defaultdict

from ._claims import may_cause
from ._numbers import close
from ._rates import is_interval
from ._recorded import (
    INIT,
    OPTIMIZER,
    STATE,
    WEIGHT,
    Rules,
    differences,
    items,
    need,
    number,
    printable,
    word,
)
from ._shown import by_role
from .trace import KINDS, PHASES

DATA, GENERATORS, COMPUTING = range(3)
CARRIED = {KINDS.index(k) for k in ("weight", "moment", "hyper")}
BATCH, INDICES, FROM_LOADER = KINDS.index("batch"), KINDS.index("indices"), PHASES.index("data")
LISTED = 64  # steps of an origin that a claim lists


def notes(steps, name):
    """The values of a trace's notes of one name."""
    return [v.decode("utf-8", "replace") for k, v in steps.trace.notes if k == name.encode()]


def first_number(text):
    head = text.split(" ")[0]
    return int(head) if head.isdigit() else None


def delivered(key):
    """Did the loader hand it over?"""
    return key[0] == FROM_LOADER and (
        key[1] == INDICES or (key[1] == BATCH and key[2].startswith("batch"))
    )


def identity(origin):
    """The key of an origin's record, as a claim has it."""
    phase, kind = PHASES.index(word(origin, "phase")), KINDS.index(word(origin, "kind"))
    return phase, kind, word(origin, "name"), word(origin, "scope")


def part_of(key):
    return DATA if delivered(key) else GENERATORS if key[1] == STATE else COMPUTING


class Window:
    """The steps of one process of a transplanted run beside the recorded one's: what counts, and
    what differs.
    """

    def __init__(self, x, y, kind, first, steps, rules):
        self.x, self.y, self.kind, self.rules = x, y, kind, rules
        self.first, self.end = first, first + steps
        ended = [n for n in map(first_number, notes(y, "transplant.ended")) if n is not None]
        self.ended = ended[0] if ended else self.end
        self.left = {first_number(v) for v in notes(y, "transplant.left_out")}
        self.unjudged, self.unequal, self.differ = defaultdict(set), set(), {}
        self.model, self.generators = False, set()
        self.left_out = {s for s in range(first, self.end) if self.is_left_out(s)}
        for s in self.left_out:
            self.unjudged[s] |= {DATA, GENERATORS, COMPUTING}
        for s in range(self.end):
            self.step(s)

    def given(self, step):
        return self.first <= step < self.end and step < self.ended and step not in self.left

    def is_left_out(self, step):
        return step >= self.ended or ((step or self.kind == "data") and not self.given(step))

    def is_cut(self, key, given):
        """Was this record's value replaced right behind it?"""
        data = self.kind != "rng" and delivered(key)
        return given and (data or (self.kind != "data" and key[0] == INIT and key[1] == STATE))

    def step(self, step):
        ends = self.x.ends.get(step), self.y.ends.get(step)
        if all(ends) and ends[0].phases == ends[1].phases and ends[0].records == ends[1].records:
            self.model, self.generators = False, set()
            return
        given = self.given(step)
        if given and self.kind != "data":
            self.generators = set()
        if given and self.kind == "step":
            self.model = False
        if not (self.x.complete(step) and self.y.complete(step)):
            self.unjudged[step] |= {DATA, GENERATORS, COMPUTING}
        self.unjudged[step] |= {COMPUTING} if self.model else set()
        self.unjudged[step] |= {GENERATORS} if self.generators else set()
        rows = self.x.rows.get(step, ()), self.y.rows.get(step, ())
        every = [
            d for d in differences(*rows) if not self.rules.allows(d, self.x, self.y, step, step)
        ]
        self.differ[step] = [d for d in every if d.type != "unread"]
        self.carry_on(rows[0], self.differ[step])

    def carry_on(self, rows, every):
        """What differs already when the next step starts."""
        keys = [(d.a or d.b).key for d in every]
        seen = any(r.key[:2] == (OPTIMIZER, WEIGHT) for r in rows)
        self.model = any(k[1] in CARRIED for k in keys) or (self.model and not seen)
        self.generators |= {k[2] for k in keys if k[1] == STATE}

    def shows(self, step, key):
        """Does a record of this identity differ in a step that counts for it?"""
        here = [d for d in self.differ.get(step, ()) if (d.a or d.b).key[:4] == key]
        return bool(here) and part_of(key) not in self.unjudged[step]

    def cause_of(self, step, key):
        """Another difference, before this one in the step, that may be why it is there; None: there
        is none.
        """
        given, every = self.given(step), self.differ.get(step, ())
        mine = [d.a or d.b for d in every if (d.a or d.b).key[:4] == key]
        cut = self.is_cut(key, given)
        for d in every:
            r = d.a or d.b
            replaced = self.is_cut(r.key, given) and not cut
            if (
                r.key[:4] != key
                and not replaced
                and mine
                and r.seq < mine[0].seq
                and may_cause(r.key, key)
            ):
                return r
        return None

    def made_of(self, step, key):
        """An origin: what its record was made from is equal in both runs, or was replaced behind
        it.
        """
        for d in self.differ[step]:
            if (d.a or d.b).key[:4] != key or not (d.a and d.b):
                continue
            for link_a, link_b in zip(d.a.links, d.b.links):
                p = self.x.at(link_a >> 32, link_a & 0xFFFFFFFF)
                q = self.y.at(link_b >> 32, link_b & 0xFFFFFFFF)
                same = p.content == q.content or p.key[:3] != q.key[:3]
                if not (same or self.is_cut(p.key, self.given(p.step))):
                    return False
            return True
        return True


class Transplanted:
    """Claims about transplanted runs and replayed operations, beside those of _claims.Claims."""

    def transplant(self, claim):
        if claim.get("of") == "replay":
            return self.replayed(claim)
        need(claim.get("of") == "run", "nobody knows what was set in")
        said = self.verdict.get("transplant")
        need(
            isinstance(said, dict) and claim.get("kind") == said.get("kind"),
            "the verdict is of another kind",
        )
        a, b = (self.beside(self.runs[0], word(claim, key)) for key in ("recorded", "given"))
        need(a.folder == self.runs[1].folder, "the recorded run is the second one")
        need(b.folder not in [r.folder for r in self.runs], "a natural run was given nothing")
        first, steps = number(claim, "first"), number(claim, "steps")
        patterns = items(claim, "ignore")
        need(
            patterns == Rules(self.ranges({"runs": [1, 2]})[0]).ignore,
            "other records were left out elsewhere",
        )
        rules = Rules(
            {
                "rules": ["idle-generators", "order-of-parameters"]
                + [{"ignore": p} for p in patterns]
            }
        )
        pairs = [(x, y) for x, y in by_role(a, b) if notes(y, "transplant.began")]
        need(pairs, "nothing was set into %s", claim["given"])
        for _, y in pairs:
            began = notes(y, "transplant.began")[0].split(" ")[0]
            need(began == claim["kind"], "what was set in is %s", began)
        need(first == said["window"][0], "the window begins at step %s", said["window"][0])
        common = max(min(min(x.info.steps, y.info.steps) for x, y in pairs) - first, 0)
        asked = said["window"][1] - first + 1
        need(steps == common or (steps == asked < common), "%d steps were made by both", common)
        windows = [Window(x, y, claim["kind"], first, steps, rules) for x, y in pairs]
        self.count_steps(claim, windows, first, steps)
        for i, origin in enumerate(items(claim, "origins")):
            self.shown(origin, windows, claim["origins"][:i] + claim["origins"][i + 1 :])
        return "%s: %d steps, %d origins" % (claim["kind"], steps, len(claim["origins"]))

    @staticmethod
    def count_steps(claim, windows, first, steps):
        window = range(first, first + steps)
        left = set().union(*(w.left_out for w in windows))
        need(number(claim, "left_out") == len(left), "%d steps were left out", len(left))
        judged, unequal = [0, 0, 0], 0
        for s in window:
            never = set().union(*(w.unjudged[s] for w in windows))
            unequal += s not in left and COMPUTING in never
            for part in (DATA, GENERATORS, COMPUTING):
                judged[part] += part not in never
        need(number(claim, "unequal") == unequal, "%d steps started unequal", unequal)
        need(items(claim, "judged") == judged, "so many steps count: %s", judged)

    @staticmethod
    def shown(origin, windows, rest):
        key = identity(origin)
        others = {identity(o): items(o, "steps") for o in rest}
        listed, count = items(origin, "steps"), number(origin, "count", least=1)
        need(
            len(listed) == min(count, LISTED) and listed == sorted(set(listed)),
            "its steps are not all listed",
        )
        plain = {}
        for w in windows:  # names as claims have them
            for s, every in w.differ.items():
                for d in every:
                    k = (d.a or d.b).key
                    plain.setdefault((k[0], k[1], printable(k[2]), printable(k[3])), k[:4])
        need(key in plain, "no such record differs")
        key = plain[key]
        never = [
            s
            for s in range(windows[0].first, windows[0].end)
            if any(part_of(key) in w.unjudged[s] for w in windows)
        ]
        for s in listed:
            need(s not in never, "step %s does not count for it", s)
            here = [w for w in windows if w.shows(s, key)]
            need(here, "%s does not differ in step %s", printable(key[2]), s)
            made = [w for w in here if w.made_of(s, key) and w.cause_of(s, key) is None]
            need(made, "in step %s it was made of what differs already", s)
        for s in range(windows[0].first, windows[0].end):
            missed = count <= LISTED and s not in listed and s not in never
            here = [w for w in windows if missed and w.shows(s, key)]
            if not here or any(key[:2] == k[:2] and s in steps for k, steps in others.items()):
                continue  # one of a phase and kind stands for those behind it
            elsewhere = len(windows) > 1  # another rank may be first
            explained = elsewhere or any(w.cause_of(s, key) or not w.made_of(s, key) for w in here)
            need(explained, "it is an origin in step %d, too", s)

    def sums_of_transplants(self):
        """What the verdict says of all transplanted runs is what their claims add up to."""
        said = self.verdict["transplant"]
        claims = [c for c in self.claims if c.get("claim") == "transplant" and c.get("of") == "run"]
        need(len(claims) == said["runs"], "not each transplanted run has a claim")
        need(len({c.get("given") for c in claims}) == len(claims), "a run is counted twice")
        for key in ("steps", "left_out", "unequal"):
            total = sum(number(c, key) for c in claims)
            need(total == said[key], "%s: the claims add up to %d", key, total)
        shown, claimed = defaultdict(list), defaultdict(int)
        for c in claims:
            for o in c["origins"]:
                claimed[tuple(word(o, k) for k in ("phase", "kind", "name", "scope"))] += number(
                    o, "count"
                )
        for o in self.verdict["origins"]:
            shown[o["phase"], o["kind"], o["name"], o["detail"]["scope"]].append(
                o["steps_differing"]
            )
            self.of_all_runs(o, claims)
        total = sum(claimed.values())
        need(sum(map(sum, shown.values())) == total, "origins show in %d steps in all", total)
        for key in set(shown) & set(claimed):  # others were named anew by a zoom
            need(sum(shown[key]) == claimed[key], "%s shows in %d steps", key[2], claimed[key])

    @staticmethod
    def of_all_runs(o, claims):
        key = PHASES.index(o["phase"]), KINDS.index(o["kind"]), o["name"], ""
        n = sum(number(c, "judged", part_of(key)) for c in claims)
        need(o["steps"] == n, "%s: %d steps count", o["name"], n)
        k = o["steps_differing"]
        need(close(o["rate"], k / n), "its rate is %g", k / n)
        is_interval(k, n, o["low"], o["high"])
        need(1 <= o["runs_differing"] <= len(claims), "so many runs show it")

    # ---- an operation on its recorded inputs

    def replayed(self, claim):
        zoom, op = items(claim, "zoom"), word(claim, "op")
        need(
            len(zoom) == 2 and len({os.path.basename(str(z)) for z in zoom}) == 2,
            "two reruns are wanted",
        )
        found, call = [0, 0], word(claim, "call") if "call" in claim else None
        chosen = False  # a process chose the call by itself, while it ran
        for name in zoom:
            run = self.beside(self.runs[0], name)
            for s in map(run.steps, run.traces()):
                if s.info.rank != claim.get("rank"):
                    continue
                calls = [printable(text) for text in notes(s, "zoom.call")]
                if calls and calls[0] != call:
                    continue  # of another call, which nobody claims
                chosen = chosen or bool(calls)
                for text in notes(s, "zoom.replay"):
                    said = text.split(" ")
                    if printable(said[0]) == op and len(said) >= 3:
                        found = [found[0] + int(said[1]), found[1] + int(said[2])]
        need(found[0] > 0, "%s was not run again there", op)
        need(call is None or chosen, "no process chose %s", call)
        said = [number(claim, "replays"), number(claim, "disagree")]
        need(said == found, "%d replays, %d of them with another result", *found)
        return "%s: %d replays, %d with another result" % (op, *found)
