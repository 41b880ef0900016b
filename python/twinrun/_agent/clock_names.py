# SPDX-License-Identifier: Apache-2.0
"""Which variables of the job's own files follow the clock, the process or the machine, and not what
is computed: `began = time.time()`, `took = time.time() - began`.

Numbers and texts in such variables differ in every run, so they are left out where what functions
hold is compared, and named in the verdict. Arrays never are left out. It is read from the text of
the files: a value is taken for one that follows the clock when the expression that makes it calls
the clock, or reads a variable, an attribute, a key or a function's result of which that holds.
"""

import ast

ROUNDS = 8  # of going through all files, until nothing new is found
_SOURCES = {
    "clock_gettime",
    "ctime",
    "current_process",
    "default_timer",
    "environ",
    "get_ident",
    "getcwd",
    "gethostname",
    "getpid",
    "getrusage",
    "gettempdir",
    "localtime",
    "memory_info",
    "mkdtemp",
    "mkstemp",
    "monotonic",
    "monotonic_ns",
    "NamedTemporaryFile",
    "now",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "TemporaryDirectory",
    "thread_time",
    "time",
    "time_ns",
    "today",
    "utcnow",
    "uuid1",
    "uuid4",
}
# What is made of a time by these is still one; what other functions make of it may be a result (a
# number that is drawn from a generator seeded by the clock is).
_FORMING = {
    "Path",
    "abs",
    "abspath",
    "astimezone",
    "basename",
    "bool",
    "ceil",
    "date",
    "dict",
    "dirname",
    "divmod",
    "encode",
    "exists",
    "float",
    "float32",
    "float64",
    "floor",
    "format",
    "fromtimestamp",
    "get",
    "int",
    "isoformat",
    "items",
    "join",
    "joinpath",
    "keys",
    "len",
    "list",
    "lower",
    "max",
    "mean",
    "median",
    "min",
    "replace",
    "repr",
    "resolve",
    "round",
    "rsplit",
    "sorted",
    "split",
    "std",
    "str",
    "strftime",
    "strip",
    "sum",
    "timedelta",
    "timestamp",
    "total_seconds",
    "tuple",
    "upper",
    "values",
    "zip",
}
_PUTTING = {"append", "appendleft", "add", "insert", "extend", "update", "setdefault"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
ALL = -1


class Function:
    """A function of the job, or a module. local: names that follow the clock; result: places in the
    returned tuple that do, or ALL.
    """

    def __init__(self, node, qualname, outer, is_method):
        self.node, self.qualname, self.outer = node, qualname, outer
        self.local, self.result = set(), set()
        given = getattr(node, "args", None)
        every = [*getattr(given, "posonlyargs", ()), *given.args] if given is not None else []
        self.parameters = [argument.arg for argument in every][1 if is_method else 0 :]
        self.own = (
            {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)} if given else set()
        )


def _last(node):
    """`time` of `time.time` and of `time`."""
    return getattr(node, "attr", None) or getattr(node, "id", None)


class Program:
    """All files of the job that were read."""

    def __init__(self):
        self.functions = {}  # (file, line, name) -> Function
        self.by_name = {}
        self.fields = set()  # attributes and keys
        self.files = set()
        self.changed = False

    def read(self, file):
        if file in self.files:
            return
        self.files.add(file)
        try:
            with open(file, "rb") as f:
                tree = ast.parse(f.read())
            module = Function(tree, "<module>", None, False)
            self.functions[file, 0, "<module>"] = module
            self._find(file, tree, "", module, False)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return
        for _ in range(ROUNDS):
            self.changed = False
            for function in self.functions.values():
                self._follow(function)
            if not self.changed:
                break

    def _find(self, file, node, prefix, outer, in_class):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _FUNCTIONS):
                name = getattr(child, "name", "<lambda>")
                lines = [child.lineno, *(d.lineno for d in getattr(child, "decorator_list", ()))]
                found = Function(child, prefix + name, outer, in_class)
                self.functions[file, min(lines), name] = found
                self.by_name.setdefault(name, []).append(found)
                self._find(file, child, found.qualname + ".<locals>.", found, False)
            elif isinstance(child, ast.ClassDef):
                self._find(file, child, prefix + child.name + ".", outer, True)
            else:
                self._find(file, child, prefix, outer, in_class)

    def of(self, code):
        return self.functions.get((code.co_filename, code.co_firstlineno, code.co_name))

    def of_module(self, file):
        """Names of a module's variables that follow the clock."""
        found = self.functions.get((file, 0, "<module>"))
        return found.local if found is not None else set()

    # ------------------------------------------------------------ what follows the clock

    def _put(self, names, name):
        if name not in names:
            names.add(name)
            self.changed = True

    def _follow(self, function):
        body = function.node.body
        for node in body if isinstance(body, list) else [body]:
            self._statements(function, node)
        if isinstance(function.node, ast.Lambda) and self._is(function, function.node.body):
            self._put(function.result, ALL)

    def _statements(self, function, node):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            if isinstance(node, ast.ClassDef):
                for child in node.body:
                    self._statements(function, child)
            return
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(function, target, node.value)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            if node.value is not None:
                self._assign(function, node.target, node.value)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._assign(function, node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(function, node.optional_vars, node.context_expr)
        elif isinstance(node, ast.Return) and node.value is not None:
            self._return(function, node.value)
        elif isinstance(node, ast.Call):
            self._call(function, node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and self._is(function, value):
                    self._put(self.fields, key.value)
        for child in ast.iter_child_nodes(node):
            self._statements(function, child)

    def _return(self, function, value):
        if isinstance(value, ast.Tuple):
            for place, part in enumerate(value.elts):
                if self._is(function, part):
                    self._put(function.result, place)
        elif self._is(function, value):
            self._put(function.result, ALL)
        else:
            for place in self._places(value):
                self._put(function.result, place)

    def _places(self, value):
        """Places of the tuple that a call of the job's function gives back."""
        if not isinstance(value, ast.Call):
            return set()
        return {place for f in self.by_name.get(_last(value.func), ()) for place in f.result}

    def _assign(self, function, target, value):
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else None
            same = parts is not None and len(parts) == len(target.elts)
            places = self._places(value)
            for place, inner in enumerate(target.elts):
                if same:
                    self._assign(function, inner, parts[place])
                elif place in places or self._is(function, value):
                    self._mark(function, inner)
        elif self._is(function, value) or self._places(value) - {ALL}:
            self._mark(function, target)

    def _mark(self, function, target):
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            owner = function
            while owner.outer is not None and self._is_outer(owner, target.id):
                owner = owner.outer
            self._put(owner.local, target.id)
        elif isinstance(target, ast.Attribute):
            self._put(self.fields, target.attr)
        elif isinstance(target, ast.Subscript):
            key = getattr(target.slice, "value", None)
            key = getattr(key, "value", key)  # 3.8 has an ast.Index around it
            if isinstance(key, str):
                self._put(self.fields, key)
            else:
                self._mark(function, target.value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for inner in target.elts:
                self._mark(function, inner)

    @staticmethod
    def _is_outer(function, name):
        """Whether a function writes to somebody else's variable of this name."""
        return any(
            isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names
            for node in ast.walk(function.node)
        )

    def _call(self, function, node):
        """What is given to functions of the job, and put into containers."""
        name = _last(node.func)
        for keyword in node.keywords:
            if keyword.arg and self._is(function, keyword.value):
                self._put(self.fields, keyword.arg)
                for callee in self.by_name.get(name, ()):
                    self._put(callee.local, keyword.arg)
        for place, argument in enumerate(node.args):
            if not self._is(function, argument):
                continue
            if name in _PUTTING and isinstance(node.func, ast.Attribute):
                self._mark(function, node.func.value)
            for callee in self.by_name.get(name, ()):
                if place < len(callee.parameters):
                    self._put(callee.local, callee.parameters[place])

    def _is(self, function, node):
        """Whether the value of an expression follows the clock."""
        if isinstance(node, ast.Name):
            if node.id == "environ":
                return True
            owner = function
            while owner is not None:
                if node.id in owner.local:
                    return True
                if node.id in owner.own:
                    return False
                owner = owner.outer
            return False
        if isinstance(node, ast.Attribute):
            return (
                node.attr in self.fields or node.attr == "environ" or self._is(function, node.value)
            )
        if isinstance(node, ast.Call):
            name = _last(node.func)
            known = self.by_name.get(name, ())
            if known:
                return any(ALL in f.result for f in known)
            if name in _SOURCES or name == "id" and isinstance(node.func, ast.Name):
                return True
            if name not in _FORMING:
                return False
            if isinstance(node.func, ast.Attribute) and self._is(function, node.func.value):
                return True
            return any(self._is(function, argument) for argument in node.args)
        if isinstance(node, ast.Dict):
            return False  # by its keys
        if isinstance(node, ast.Subscript):
            key = getattr(node.slice, "value", None)
            key = getattr(key, "value", key)
            return isinstance(key, str) and key in self.fields or self._is(function, node.value)
        if isinstance(node, (ast.Lambda, ast.Compare)):
            return False
        return any(self._is(function, child) for child in ast.iter_child_nodes(node))


program = Program()
