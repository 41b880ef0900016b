# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds what a verdict says of nodes (--on) against the run folders: where each
run was made stands in its run.json, and Fisher's exact test is worked out anew here.
"""

import math

from ._notes import form
from ._recorded import need


def fisher(a, b, c, d):
    """P(at least `a` of the first row part) given the margins of {{a, b}, {c, d}}."""
    row, column, all_of_them = a + b, a + c, a + b + c + d
    total = math.comb(all_of_them, column)
    most = min(row, column)
    ways = sum(
        math.comb(row, k) * math.comb(all_of_them - row, column - k) for k in range(a, most + 1)
    )
    return ways / total


def holm(p):
    """Holm's step-down adjustment, in the order given."""
    adjusted, so_far = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        so_far = max(so_far, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = so_far
    return adjusted


class Nodes:
    """Notes on nodes, beside _notes.Notes."""

    def where(self, what):
        """Of each run the name of its node, or the model of its processor."""
        found = []
        for run in self.runs:
            node, machine = run.json.get("node") or {}, run.json.get("machine") or {}
            found.append(node.get("name") if what == "node" else node and machine.get("cpu"))
        return found

    @form(r"the runs were made by (\w+) on (\d+) nodes?: (.*)")
    def made_by(self, engine, count, names):
        where = self.where("node")
        for run in self.runs:
            need((run.json.get("node") or {}).get("engine") == engine, "%s: another engine", run)
        kept = list(dict.fromkeys(where))
        need(int(count) == len(kept), "they were on %d nodes", len(kept))
        text = ", ".join("%s (%d)" % (n, where.count(n)) for n in kept)
        need(names == text, "they were on %s", text)

    @form(
        r"(only|more) runs on (node|processor) (.*) diverge(?: than elsewhere)?: (\d+) of (\d+) there, "
        r"(\d+) of (\d+) elsewhere \(Fisher's exact test, Holm over (\d+): p = ([0-9.e-]+)\).*"
    )
    def follows(self, how, what, name, a, of_a, c, of_c, count, p):
        where = self.where(what)
        usual = [
            set(k["runs"])
            for k in self.verdict.get("classes", ())
            if k.get("parts_at_step") is None
        ]
        need(len(usual) == 1, "there is no one usual class")
        odd = [i not in usual[0] for i in range(len(self.runs))]
        values = list(dict.fromkeys(where))
        need(name in values and int(count) == len(values), "the runs were on %s", values)
        rows = []
        for value in values:
            mine = [o for o, w in zip(odd, where) if w == value]
            rest = [o for o, w in zip(odd, where) if w != value]
            rows.append((sum(mine), len(mine) - sum(mine), sum(rest), len(rest) - sum(rest)))
        k = values.index(name)
        found = rows[k][0], sum(rows[k][:2]), rows[k][2], sum(rows[k][2:])
        need(found == tuple(map(int, (a, of_a, c, of_c))), "it is %d of %d, %d of %d" % found)
        need(how == "more" or not (rows[k][1] or rows[k][2]), "not only there")
        adjusted = holm([fisher(*row) for row in rows])[k]
        need(math.isclose(adjusted, float(p), rel_tol=0.06), "p is %g", adjusted)
