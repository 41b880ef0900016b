# SPDX-License-Identifier: Apache-2.0
"""What is known of a program that TensorFlow has traced (a ConcreteFunction): its label, what its
arguments are called, which variables it uses, and a digest of what it computes.

The digest is made of the operations with their attributes and inputs, in order, down into the
functions that are called inside. Constants are attributes, so a number that the function took from
Python while it was traced is in it. Names of operations and functions are left out, as they hold
counters.
"""

import hashlib
import re

from . import refs, tf_values, tf_variables

NODES = 200000  # looked at in one program, with the functions inside
NAMED = re.compile(r"^__(?:inference|forward|backward)_(.*?)_\d+(?:_\d+)*$")
# Attributes that say where something is kept or what it is called, which may differ in each run.
PLACES = {"token", "shared_name", "container", "_class", "device", "f", "body", "cond"}
PLACES |= {"then_branch", "else_branch", "branches", "_gradient_op_type", "config_proto"}
# Operations that read what no argument shows, or draw numbers that no seed fixes.
HIDDEN = (
    "PyFunc",
    "Iterator",
    "Dataset",
    "ReadFile",
    "MatchingFiles",
    "Reader",
    "Restore",
    "Lookup",
)
HIDDEN += ("HashTable", "Queue", "Stage", "Barrier", "Infeed", "Recv", "Timestamp", "SessionTensor")

# Functions of Keras around the steps of a model, which are called after these; None: around the one
# that runs now.
OF_KERAS = {
    "multi_step_on_iterator": None,
    "one_step_on_data": None,
    "one_step_on_data_distributed": "predict_step",
    "multi_step_on_data": "predict_step",
}
OWN = ("initialize_variables",)  # functions of TensorFlow around what the job defines

STRANGE = "what is neither a tensor nor a variable"  # a dataset, an iterator, a table

_programs = refs.AtOnce()  # ConcreteFunction -> Program


class Program:
    """label: the function's name. arguments: a name for each of its inputs. handles: the places of
    those that stand for something else, such as a variable. variables: tf_variables.Known.
    constants: (place among what is captured, name). digest: bytes. hidden: what reads what no
    argument shows, or "".
    """

    def __init__(self, concrete, count, label):
        graph = concrete.graph
        self.label = _label(graph)
        of_keras = self.label in OF_KERAS
        if of_keras:
            self.label = OF_KERAS[self.label] or label or self.label
        inputs = graph.inputs
        self.arguments = [_plain(t.op.name) for t in inputs[:count]]
        self.handles = [i for i, t in enumerate(inputs[:count]) if tf_values.is_handle(t)]
        self.shown = of_keras
        self.variables, self.constants = [], []
        strange = False
        for i, (held, inside) in enumerate(zip(concrete.captured_inputs, inputs[count:])):
            if tf_values.is_handle(held):
                known = tf_variables.of_handle(held)
                strange |= known is None
                if known is not None and known not in self.variables:
                    self.variables.append(known)
            else:
                self.constants.append((i, "captured %s" % _plain(inside.op.name)))
        self.series = {}
        self.digest, self.hidden = _Digest(of_keras).of(graph)
        if strange and not self.hidden:
            self.hidden = "has captured %s" % STRANGE

    def variables_of(self, given):
        """All that one call uses: also the variables that it was handed."""
        found = list(self.variables)
        for place in self.handles:
            known = tf_variables.of_handle(given[place])
            if known is None:
                if not self.hidden and not self.shown:
                    self.hidden = "was given %s" % STRANGE
            elif known not in found:
                found.append(known)
        return found


def is_own(concrete):
    return _label(concrete.graph) in OWN


def of(concrete, count, label):
    """count: of its own inputs, without what it has captured."""
    found = _programs.get(concrete)
    if found is None:
        found = Program(concrete, count, label)
        _programs.put(concrete, found)
    return found


def _label(graph):
    name = str(getattr(graph, "name", "") or "function")
    found = NAMED.match(name)
    return found.group(1) if found else name


def _plain(name):
    return name.rpartition("/")[2]


class _Digest:
    def __init__(self, batches_are_shown):
        self.shown = batches_are_shown
        self.hash = hashlib.blake2b(digest_size=16)
        self.left = NODES
        self.hidden = ""
        self.functions = {}  # name -> its number, in the order in which they are met

    def of(self, graph):
        definition = graph.as_graph_def()
        functions = {f.signature.name: f for f in definition.library.function}
        self._nodes(definition.node, functions)
        return self.hash.digest(), self.hidden

    def _say(self, data):
        self.hash.update(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
        self.hash.update(b"\0")

    def _nodes(self, nodes, functions, arguments=()):
        """Returns the number by which the rest calls each argument and each operation."""
        numbers = {argument.name: i for i, argument in enumerate(arguments)}
        numbers.update((node.name, i) for i, node in enumerate(nodes, len(numbers)))
        for node in nodes:
            self.left -= 1
            if self.left < 0:
                self._say("more")
                self.hidden = self.hidden or "has more operations than are looked at"
                return numbers
            self._say(node.op)
            self._look_for_hidden(node)
            for name in node.input:
                self._input(name, numbers)
            for key in sorted(node.attr):
                self._attribute(key, node.attr[key], functions)
        return numbers

    def _input(self, name, numbers):
        source, _colon, output = name.lstrip("^").partition(":")
        self._say("%s %s%s" % (numbers.get(source, "?"), "^" * (name[0] == "^"), output))

    def _attribute(self, key, value, functions):
        if value.HasField("func"):
            self._function(value.func.name, functions)
        elif value.list.func:
            for each in value.list.func:
                self._function(each.name, functions)
        elif key not in PLACES and not key.startswith("_"):
            self._say(key)
            self._say(value.SerializeToString(deterministic=True))

    def _function(self, name, functions):
        met = name in self.functions
        self._say("function %d" % self.functions.setdefault(name, len(self.functions)))
        inner = functions.get(name)
        if inner is None or met:
            return
        numbers = self._nodes(inner.node_def, functions, inner.signature.input_arg)
        for output in inner.signature.output_arg:
            self._input(inner.ret[output.name], numbers)

    def _look_for_hidden(self, node):
        if self.hidden:
            return
        if self.shown and (node.op.startswith("IteratorGetNext") or "twinrun" in node.name):
            return
        if any(word in node.op for word in HIDDEN):
            self.hidden = "runs %s, which no record shows" % node.op
        elif "seed2" in node.attr and not node.attr["seed"].i and not node.attr["seed2"].i:
            self.hidden = "runs %s without a seed" % node.op
