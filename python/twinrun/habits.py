#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Habits in a job's source that keep its runs from repeating, found without running it.

    python -m twinrun.habits train.py data/*.py
    python -m twinrun.habits --sarif habits.sarif train.py

Exit codes: 0 nothing found, 1 something found, 2 a file could not be read. A finding is a line of
source to look at, not a verdict: whether runs differ says `twinrun check`, and a source without
findings may differ all the same. `# twinrun: allow RULE` at the end of a line keeps it silent.

Needs nothing but Python: pre-commit runs this file as it lies in a checkout.
"""

import argparse
import ast
import json
import re
import sys
import tokenize
import warnings
from urllib.parse import quote

# rule: (what is wrong, what to do)
RULES = {
    "entropy-seed": (
        "no seed is given, so it comes from the system's entropy: another one at each start",
        "give it a seed",
    ),
    "clock-seed": (
        "the seed comes from the time, a process number or entropy: another one at each start",
        "give a fixed seed, and print it",
    ),
    "salted-hash": (
        "hash() of strings and bytes is salted anew at each start of Python",
        "use a checksum such as zlib.crc32, or twinrun.seeds.seed",
    ),
    "other-generator": (
        "this generator is drawn from, and others are seeded in this file but not this one",
        "seed it as well, or draw from one that is seeded",
    ),
    "set-order": (
        "the order of a set of strings, or of objects, is another one at each start",
        "use sorted() around the set",
    ),
    "folder-order": (
        "the order of files in a folder is that of the file system, which need not be the same on "
        "another machine",
        "use sorted() around it",
    ),
}

# Calls that set a generator's state, by the generator; and those that draw from it.
SEEDS = {
    "random.seed": "random",
    "numpy.random.seed": "numpy.random",
    "torch.manual_seed": "torch",
}
ALL_AT_ONCE = {"seed_everything", "set_seed", "seed_all", "fix_seeds", "set_all_seeds"}
MAKES = {
    "random.Random": "random",
    "numpy.random.default_rng": "numpy.random",
    "numpy.random.RandomState": "numpy.random",
    "numpy.random.SeedSequence": "numpy.random",
}
DRAWS = {
    "random": "betavariate choice choices expovariate gauss getrandbits normalvariate randint random "
    "randrange sample shuffle triangular uniform",
    "numpy.random": "beta binomial bytes choice exponential gamma normal permutation poisson rand "
    "randint randn random random_integers random_sample sample shuffle standard_normal uniform",
    "torch": "bernoulli multinomial normal rand rand_like randint randint_like randn randn_like "
    "randperm",
}
DRAWS = {"%s.%s" % (of, name): of for of, names in DRAWS.items() for name in names.split()}
CHANGING = {
    "datetime.datetime.now", "datetime.datetime.utcnow", "os.getpid", "os.urandom",
    "secrets.randbelow", "secrets.randbits", "secrets.token_bytes", "time.monotonic",
    "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns", "time.time", "time.time_ns",
    "uuid.uuid1", "uuid.uuid4",
}  # fmt: skip
FOLDERS = {"glob.glob", "glob.iglob", "os.listdir", "os.scandir"}
KEEPS_ORDER = {"list", "tuple", "enumerate", "zip", "iter"}
# What comes out of these does not depend on the order of what goes in.
FREE_OF_ORDER = {"sorted", "len", "set", "frozenset", "any", "all", "max", "min", "bool"}


class Finding:
    def __init__(self, path, node, rule, what):
        self.path, self.rule, self.what = path, rule, what
        self.line, self.column = node.lineno, node.col_offset + 1

    def __str__(self):
        why, fix = RULES[self.rule]
        return "%s:%d:%d: warning: %s: %s; %s [%s]" % (
            *(self.path, self.line, self.column),
            *(self.what, why, fix, self.rule),
        )


class Source(ast.NodeVisitor):
    """One file. `found`: what it has, as (node, rule, what)."""

    def __init__(self, tree):
        self.names, self.found, self.draws, self.seeded = {}, [], [], set()
        self.parents = {
            child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)
        }
        self.sets, self.values, self.sorted_later = {}, {}, set()
        for node in ast.walk(tree):
            self.note_names(node)
        self.visit(tree)
        if self.seeded and "*" not in self.seeded:
            for node, generator, called in self.draws:
                if generator not in self.seeded:
                    self.found.append((node, "other-generator", called))

    # ---- what names mean

    def note_names(self, node):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                self.names[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self.names[alias.asname or alias.name] = node.module + "." + alias.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    place = (self.scope_of(node), target.id)
                    is_set = isinstance(node, ast.Assign) and self.is_set_itself(node.value)
                    self.sets[place] = is_set and self.sets.get(place, True)
                    self.values.setdefault(place, []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "sort" and isinstance(node.func.value, ast.Name):
                self.sorted_later.add((self.scope_of(node), node.func.value.id))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in FREE_OF_ORDER:
            for word in node.args:
                if isinstance(word, ast.Name):
                    self.sorted_later.add((self.scope_of(node), word.id))

    def scope_of(self, node):
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                break
        return node

    def called(self, node):
        """The whole name of what a call calls, such as numpy.random.seed, or None."""
        words, at = [], node.func
        while isinstance(at, ast.Attribute):
            words.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name):
            return None
        if at.id not in self.names:  # a builtin, or a name of the file's own
            return at.id if not words else None
        return ".".join([self.names[at.id], *reversed(words)])

    def is_set_itself(self, node):
        return isinstance(node, (ast.Set, ast.SetComp)) or (
            isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("set", "frozenset")
        )

    def is_set(self, node):
        if isinstance(node, ast.Name):
            return self.sets.get((self.scope_of(node), node.id), False)
        return self.is_set_itself(node)

    # ---- what is looked at

    def visit_Call(self, node):
        name = self.called(node)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name in SEEDS or name in MAKES:
            self.look_at_seed(node, name, given)
        if name == "torch.seed":
            self.seeded.add("torch")
            self.found.append((node, "entropy-seed", name))
        if name and name.rsplit(".", 1)[-1] in ALL_AT_ONCE:
            self.seeded.add("*")  # which ones it seeds stands elsewhere
        if name in DRAWS and not any(k.arg in ("generator", "random_state") for k in node.keywords):
            self.draws.append((node, DRAWS[name], name))
        if name in FOLDERS:
            self.look_at_folder(node, name)
        joins = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
        if name in KEEPS_ORDER or joins or name in ("random.choice", "random.sample"):
            for word in node.args:
                if self.is_set(word) and not self.is_free_of_order(node):
                    self.found.append((node, "set-order", (name or "join") + " of a set"))
        self.generic_visit(node)

    def look_at_seed(self, node, name, given):
        if name in SEEDS:
            self.seeded.add(SEEDS[name])
        if not given or (isinstance(given[0], ast.Constant) and given[0].value is None):
            if name != "torch.manual_seed":  # an error of its own
                self.found.append((node, "entropy-seed", name))
            return
        for inside in (part for word in given for part in self.parts_of(word)):
            if isinstance(inside, ast.Call) and self.called(inside) in CHANGING:
                self.found.append((node, "clock-seed", "%s from %s" % (name, self.called(inside))))
            elif isinstance(inside, ast.Call) and self.called(inside) == "hash":
                self.found.append((node, "salted-hash", name))

    def parts_of(self, node):
        """All that a seed is made of, also where a name of the same scope stands between."""
        for part in ast.walk(node):
            yield part
            if isinstance(part, ast.Name):
                for value in self.values.get((self.scope_of(part), part.id), ()):
                    yield from ast.walk(value)

    def visit_BinOp(self, node):
        """hash(name) % 5: which part of the data something belongs to."""
        hashed = isinstance(node.left, ast.Call) and self.called(node.left) == "hash"
        if isinstance(node.op, ast.Mod) and hashed:
            self.found.append((node, "salted-hash", "hash() with a remainder"))
        self.generic_visit(node)

    def look_at_folder(self, node, name):
        if self.is_free_of_order(node):
            return
        user = self.parents.get(node)
        if isinstance(user, ast.Assign) and len(user.targets) == 1:
            target = user.targets[0]
            if isinstance(target, ast.Name):
                if (self.scope_of(node), target.id) in self.sorted_later:
                    return
            elif isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == 1:
                return  # the only one
        self.found.append((node, "folder-order", name))

    def is_free_of_order(self, node):
        """Whether the order of node ends in what has none: sorted(list(x)), {f(x) for x in ...}."""
        user = self.parents.get(node)
        while user is not None and not isinstance(user, ast.stmt):
            if isinstance(user, ast.Call) and getattr(user.func, "id", None) in FREE_OF_ORDER:
                return True
            if isinstance(user, ast.SetComp) or self.only_asks_what_is_in(user):
                return True
            user = self.parents.get(user)
        return False

    def only_asks_what_is_in(self, node):
        """`x in L`, `L == []`, `not L`."""
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not)
        if not isinstance(node, ast.Compare):
            return False
        empty = isinstance(node.comparators[0], ast.List) and not node.comparators[0].elts
        return empty or isinstance(node.ops[0], (ast.In, ast.NotIn))


def allowed(text):
    """{line: rules} of comments that keep a finding silent."""
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.search(r"#\s*twinrun:\s*allow\s+([\w\-, ]+)$", line)
        if comment:
            found[number] = set(re.split(r"[,\s]+", comment.group(1).strip()))
    return found


def look(path, text=None):
    """The findings of a file, in the order of its lines. Raises OSError, SyntaxError, ValueError."""
    if text is None:
        with tokenize.open(path) as file:
            text = file.read()
    silent = allowed(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the source, such as an escape that is none
        tree = ast.parse(text, path)
    found = [Finding(path, *each) for each in Source(tree).found]
    found = [each for each in found if each.rule not in silent.get(each.line, ())]
    return sorted(found, key=lambda each: (each.line, each.column, each.rule))


def sarif(findings):
    """A SARIF 2.1.0 log: GitHub, GitLab and editors read it."""
    names = sorted(RULES)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "twinrun habits",
                        "rules": [
                            {
                                "id": name,
                                "shortDescription": {"text": RULES[name][0]},
                                "help": {"text": RULES[name][1]},
                                "defaultConfiguration": {"level": "warning"},
                            }
                            for name in names
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": each.rule,
                        "ruleIndex": names.index(each.rule),
                        "level": "warning",
                        "message": {"text": "%s: %s; %s" % (each.what, *RULES[each.rule])},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": quote(each.path)},
                                    "region": {
                                        "startLine": each.line,
                                        "startColumn": each.column,
                                    },
                                }
                            }
                        ],
                    }
                    for each in findings
                ],
            }
        ],
    }


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m twinrun.habits", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--sarif", metavar="FILE", help="also write a SARIF 2.1.0 log (-: stdout)")
    parser.add_argument("files", nargs="+", metavar="FILE")
    asked = parser.parse_args(argv)
    findings, trouble = [], False
    for path in asked.files:
        try:
            findings += look(path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            said = getattr(error, "strerror", None) or getattr(error, "msg", None) or str(error)
            line = getattr(error, "lineno", None)
            at = "%s:%d" % (path, line) if line else path
            print("%s: expected Python's source, found: %s" % (at, said), file=sys.stderr)
            trouble = True
    if asked.sarif != "-":
        for each in findings:
            print(each)
    if asked.sarif:
        text = json.dumps(sarif(findings), indent=1) + "\n"
        if asked.sarif == "-":
            sys.stdout.write(text)
        else:
            try:
                with open(asked.sarif, "w") as file:
                    file.write(text)
            except OSError as error:
                said = "expected a file to write to, found: %s" % error.strerror
                print("%s: %s" % (asked.sarif, said), file=sys.stderr)
                trouble = True
    return 2 if trouble else 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
