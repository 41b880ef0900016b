# SPDX-License-Identifier: Apache-2.0
"""Calls of ours inside functions of torch, which stay the functions that they are.

A function that takes the place of another shows: as a frame in tracebacks, warnings, recursion and
traces, as another object to who compares or looks it up (TorchScript knows `torch.autograd.grad` by
its identity). So the function keeps its identity and gets another `__code__`: its own source,
compiled again with our calls in it, on its own lines. Objects of ours are constants of that code,
so that no module has a name more.

Where the source is not what the function was compiled from, nothing is changed, and the caller
replaces the function.
"""

import __future__
import ast
import inspect
import linecache
import sys
import textwrap
import tokenize
import types
import warnings

# A call of ours in a template. The job's trace function (sys.settrace) does not see it.
QUIETLY = """
traced_ = GETTRACE()
if traced_ is None:
    %s
else:
    SETTRACE(None)
    try:
        %s
    finally:
        SETTRACE(traced_)
"""

MARK = "twinrun:"  # constants that stand for objects of ours until the code is made


class _Switch(set):
    """True while it has an element, without running a line of Python; false for torch.compile,
    which looks at the elements of a constant that is a set, and finds none: so what it compiles is
    the function as it was.
    """

    def __iter__(self):
        return iter(())


_switch = _Switch([True])


def _parsed(function):
    """(imports of the file that the function is from, its definition) as syntax trees, with the
    file's line numbers.

    Only these lines are parsed: the whole of torch's files takes a tenth of a second at each start.
    Where a line that only looks like an import, or a definition that ends elsewhere, makes that
    another function, its code differs from the one that is there (_alike).
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename)
    imports = [n for text in _import_texts(lines) for n in ast.parse(text).body]
    first = code.co_firstlineno - 1
    block = inspect.getblock(lines[first:])
    above = [""] * first  # empty lines, so that it keeps its line numbers
    if block[0][0].isspace():
        above[-1] = "if 1:"  # and its columns, as a method
    found = ast.parse("\n".join(above) + "\n" * (first > 0) + "".join(block)).body[0]
    found = found.body[0] if isinstance(found, ast.If) else found
    return imports, found


def _import_texts(lines):
    """Each import of a file, wherever it stands. CPython calls methods of imported names in a way
    of its own.
    """
    for at, line in enumerate(lines):
        text = line.lstrip()
        if not text.startswith(("import ", "from ")):
            continue
        more = at + 1
        while ("(" in text and ")" not in text or text.endswith("\\\n")) and more < len(lines):
            text += lines[more]
            more += 1
        try:
            ast.parse(text)
        except SyntaxError:
            continue  # a sentence of a docstring
        yield text


def _enclosed(node, names, owner):
    """A function definition where it is compiled as it was: inside of another function that has
    these variables (a closure, or a method that says super()), and of a class of this name, where
    it has private names.
    """
    if owner:
        inside = ast.parse("class %s: pass" % owner).body[0]
        inside.body = [node]
        node = _placed(_unplaced_head(inside), node)
    if not names:
        return node
    outer = ast.parse("def outer(): pass").body[0]
    variables = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in names]
    outer.body = [_placed(variable, node) for variable in variables] + [node]
    return _placed(_unplaced_head(outer), node)


def _owner(function, node):
    """The class whose name is part of private names (`__x`) in a method; empty: there are none."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    parent = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    private = any(name.startswith("__") and not name.endswith("__") for name in names)
    return parent if private and parent.isidentifier() else ""


def _unplaced_head(node):
    for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
        delattr(node, name)
    return node


def _code_named(name, code, depth=3):
    """The code of this name inside of another one, the outermost first."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    found = next((c for c in inner if c.co_name == name), None)
    for c in inner if found is None and depth else ():
        found = found or _code_named(name, c, depth - 1)
    return found


def _compiled(imports, node, like, owner=""):
    """The code of a function definition, compiled as that of `like` was."""
    future = like.co_flags & __future__.annotations.compiler_flag
    node = _enclosed(node, like.co_freevars, owner)
    module = ast.Module(
        body=[n for n in imports if getattr(n, "module", "") != "__future__"] + [node],
        type_ignores=[],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = compile(module, like.co_filename, "exec", flags=future, dont_inherit=True)
    return _code_named(like.co_name, whole)


def _alike(a, b):
    """Whether two codes do the same."""
    return (
        a.co_code == b.co_code
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and a.co_freevars == b.co_freevars
        and len(a.co_consts) == len(b.co_consts)
        and all(
            _alike(x, y)
            if isinstance(x, types.CodeType) and isinstance(y, types.CodeType)
            else type(x) is type(y) and x == y
            for x, y in zip(a.co_consts, b.co_consts)
        )
    )


class _Fill(ast.NodeTransformer):
    """Names of a template: ALL_CAPITALS stand for objects of ours, or for what `parts` has in their
    place; those with a final underscore for variables of ours.
    """

    def __init__(self, parts):
        self.parts = parts

    def visit_Name(self, node):
        if node.id in self.parts:
            return _copy(self.parts[node.id])
        if node.id.isupper():
            return ast.Constant(MARK + node.id)
        if node.id.endswith("_") and not node.id.startswith("__"):
            return ast.Name("." + node.id[:-1], node.ctx)
        return node


class _Returns(ast.NodeTransformer):
    """Puts statements before each `return` of the function itself; what it returns is `result_`
    there.
    """

    def __init__(self, statements):
        self.statements = statements

    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Return(self, node):
        value = node.value or ast.Constant(None)
        kept = ast.Assign([ast.Name(".result", ast.Store())], value)
        back = ast.Return(ast.Name(".result", ast.Load()))
        return [_placed(part, node) for part in (kept, *_copy(self.statements), back)]


def _copy(node):
    """A tree of its own, on the same lines."""
    if isinstance(node, list):
        return [_copy(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    made = type(node)(**{name: _copy(value) for name, value in ast.iter_fields(node)})
    return ast.copy_location(made, node)


def _placed(statement, at):
    """Every part of a statement that has no line yet gets that of `at`."""
    for node in ast.walk(statement):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = at.lineno
            node.col_offset = node.end_col_offset = at.col_offset
    return statement


def _with_objects(code, objects):
    consts = tuple(
        objects[c[len(MARK) :]] if isinstance(c, str) and c.startswith(MARK) else c
        for c in code.co_consts
    )
    return code.replace(co_consts=consts)


def _template(text, parts):
    return [_Fill(parts).visit(unplaced(s)) for s in ast.parse(textwrap.dedent(text)).body]


def unplaced(statement):
    for node in ast.walk(statement):
        for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            if hasattr(node, name):
                delattr(node, name)
    return statement


def quietly(statement, indent=0):
    """Text for a template: the statement, out of sight of the job's trace function."""
    return textwrap.indent((QUIETLY % (statement, statement)).strip(), " " * indent).lstrip()


def put_into(function, around, leaving, objects, parts=()):
    """Gives a function a code with `around`, text in which `BODY` stands for its own statements,
    and `leaving` before each return.

    Returns whether that was possible. objects: what the names in capitals stand for; parts: names
    that stand for a piece of syntax.
    """
    code = function.__code__
    objects = dict(objects, GETTRACE=sys.gettrace, SETTRACE=sys.settrace, SWITCH=_switch)
    parts = dict(parts)
    try:
        imports, node = _parsed(function)
        owner = _owner(function, node)
        if not _alike(_compiled(imports, node, code, owner), code):
            return False
    except (LookupError, SyntaxError, AttributeError, StopIteration, tokenize.TokenError):
        return False
    has_doc = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    head, own = node.body[:has_doc], node.body[has_doc:]
    leave = _template(leaving, parts)
    if not own:
        return False
    last = own[-1]
    if not isinstance(last, ast.Return):
        own.append(_placed(ast.Return(None), last))

    def filled(statements):
        found = []
        for s in statements:
            if (
                isinstance(s, ast.Expr)
                and isinstance(s.value, ast.Constant)
                and s.value.value in (MARK + "BODY", MARK + "PLAIN")
            ):
                body = [_copy(part) for part in own]
                if s.value.value == MARK + "BODY":
                    body = [_Returns(leave).visit(part) for part in body]
                found += [x for part in body for x in (part if isinstance(part, list) else [part])]
                continue
            for name in ("body", "orelse", "finalbody"):
                if getattr(s, name, None):
                    setattr(s, name, filled(getattr(s, name)))
            for handler in getattr(s, "handlers", ()):
                handler.body = filled(handler.body)
            found.append(_placed(s, own[0]))
        return found

    node.body = head + filled(_template(around, parts))
    ast.fix_missing_locations(node)
    try:
        made = _with_objects(_compiled(imports, node, code, owner), objects)
    except SyntaxError:
        return False  # its blocks were nested as deeply as can be
    if made.co_freevars != code.co_freevars:
        return False
    if hasattr(code, "co_qualname"):
        made = made.replace(co_qualname=code.co_qualname)
    function.__code__ = made
    return True
