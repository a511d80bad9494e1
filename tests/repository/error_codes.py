"""Codes of expected errors, read from the sources: where a code is raised, its messages and its hints.

An error is a call of a class below ``ProductError``, a tuple (code, message, hint) that becomes one, or an entry of a
table of codes. Codes, messages and hints are literals or names of constants; parts that are computed show as ``…``.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from elevata.core.installation import PACKAGES
from tests.repository.syntax import statements

ROOT = Path(__file__).resolve().parents[2]
BASE = "ProductError"

_CODE = re.compile(r"[A-Z][A-Z0-9_]+|[a-z][a-z0-9_]+")
_FORMATTED = re.compile(r"…(?:\s*…)+")


@dataclass
class Raised:
    """Code with all its messages and hints in the sources."""

    code: str
    messages: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    # Status of a response that is not the status of its class.
    status: int | None = None


@dataclass
class Module:
    """Parsed module: its constants by name, the names it imports, and its classes."""

    tree: ast.Module
    constants: dict[str, ast.expr]
    imports: dict[str, tuple[str, str]]
    classes: list[ast.ClassDef]


@cache
def modules() -> dict[str, Module]:
    """Return the modules of the product by dotted name."""
    parsed = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            parsed[name] = _parse(path)
    return parsed


def _parse(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                constants[name] = value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=own)) if len(names) == len(own):
                pairs = zip(names, own, strict=True)
                constants |= {target.id: value for target, value in pairs if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                constants[name] = value
    own = list(statements(tree))
    imports = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in own
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return Module(tree, constants, imports, [node for node in own if isinstance(node, ast.ClassDef)])


def values(node: ast.expr | None, module: Module) -> list[ast.expr]:
    """Return the expressions that a name or a choice stands for, through imports; the expression itself otherwise."""
    match node:
        case ast.Name(id=name) if name in module.constants:
            return values(module.constants[name], module)
        case ast.Name(id=name) if name in module.imports and module.imports[name][0] in modules():
            source, original = module.imports[name]
            if original in modules()[source].constants:
                return values(modules()[source].constants[original], modules()[source])
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in module.imports:
            source = ".".join(module.imports[name])
            if source in modules() and attribute in modules()[source].constants:
                return values(modules()[source].constants[attribute], modules()[source])
        case ast.IfExp(body=first, orelse=second):
            return values(first, module) + values(second, module)
        case ast.Subscript(value=ast.Name(id=name)) if isinstance(module.constants.get(name), ast.Dict):
            table = module.constants[name]
            return [value for choice in table.values for value in values(choice, module)]
        case ast.BoolOp(values=choices):
            return [value for choice in choices for value in values(choice, module)]
    return [node] if node is not None else []


def texts(node: ast.expr | None, module: Module) -> list[str]:
    """Return the literal texts of an expression, with ``…`` for parts that are computed."""
    shown = []
    for value in values(node, module):
        match value:
            case ast.Constant(value=str() as text):
                shown.append(text)
            case ast.JoinedStr(values=parts):
                joined = "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)
                shown.append(_FORMATTED.sub("…", joined))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                sides = [(texts(side, module) or ["…"])[0] for side in (left, right)]
                shown.append("".join(sides))
            case ast.Call(func=ast.Name(id="as_sentence"), args=[inner, *_]):
                shown += texts(inner, module)
    return [" ".join(text.split()) for text in shown if text.strip(" …")]


@cache
def error_classes() -> dict[str, ast.ClassDef]:
    """Return the classes below ``ProductError`` by name."""
    described = {node.name: node for module in modules().values() for node in module.classes}
    known = {BASE}
    while True:
        bases = {name: {ast.unparse(base).split(".")[-1] for base in node.bases} for name, node in described.items()}
        added = {name for name, own in bases.items() if own & known} - known
        if not added:
            return {name: described[name] for name in sorted(known & described.keys())}
        known |= added


@dataclass(frozen=True)
class Part:
    """Expression with the module in which its names are known."""

    node: ast.expr
    module: Module

    def texts(self) -> list[str]:
        return texts(self.node, self.module)


Arguments = dict[str, Part]
# Parameters of the classes that take all parts of an error, in their order.
_OWN = {
    "MetadataError": ("code", "message", "field", "where"),
    "Refusal": ("code", "message", "hint"),
    "Refused": ("code", "message", "hint"),
}


@cache
def _module_of_class() -> dict[str, Module]:
    return {
        node.name: module for module in modules().values() for node in module.classes if node.name in error_classes()
    }


def parts_of(name: str, call: ast.Call, module: Module, given: Arguments | None = None) -> Arguments:
    """Return code, message and hint of a call of an error class, through the initialisers of its bases."""
    known = given or {}

    def part(node: ast.expr) -> Part:
        bound = known.get(node.id) if isinstance(node, ast.Name) else None
        return bound or Part(node, module)

    positional = [part(node) for node in call.args if not isinstance(node, ast.Starred)]
    named = {word.arg: part(word.value) for word in call.keywords if word.arg}
    if name in _OWN:
        return dict(zip(_OWN[name], positional, strict=False)) | named
    own = error_classes()[name]
    home = _module_of_class()[name]
    base = ast.unparse(own.bases[0]).split(".")[-1]
    functions = (node for node in own.body if isinstance(node, ast.FunctionDef))
    initialiser = next((function for function in functions if function.name == "__init__"), None)
    if initialiser is None:
        inherited = dict(zip(("code", "message"), positional, strict=False)) | named
        return inherited if base == BASE else parts_of(base, call, module, given)
    arguments = _defaults(initialiser, home) | dict(zip(_names(initialiser), positional, strict=False)) | named
    calls = (node for node in ast.walk(initialiser) if isinstance(node, ast.Call))
    inner = next(call for call in calls if ast.unparse(call.func) == "super().__init__")
    if base != BASE:
        return parts_of(base, inner, home, arguments)
    return {key: value for key, value in arguments.items() if key == "message"}


def _names(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args[1:]]


def _defaults(function: ast.FunctionDef, module: Module) -> Arguments:
    names = _names(function)
    defaults = function.args.defaults
    return {name: Part(node, module) for name, node in zip(names[len(names) - len(defaults) :], defaults, strict=True)}


def _class_code(name: str) -> Part | None:
    """Return the code that a class sets for all its errors."""
    for node in error_classes()[name].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "code":
            return Part(node.value, _module_of_class()[name])
    return None


# Other functions and classes with the parts of an error as arguments, in this order.
_CARRIERS = {
    "FaultClass": ("code", "", "", "message", "", "hint"),
    "MalformedRecord": ("code", "message", "hint"),
    "_cause": ("code", "", "message", "hint"),
    "_hangs": ("code", "message"),
    "_missing_value": ("code", "", "", "message", "hint"),
    "_quote_refusal": ("code", "", "", "message"),
    "_refusal": ("code", "message", "hint"),
    "_refuse": ("code", "message"),
    "accident": ("message", "", "code"),
    "check_not_null": ("", "", "code", "message"),
    "problem": ("code", "message"),
    "refusal": ("code", "message", "hint"),
}
# Classes of findings about the change log and artifacts, by the place of their module.
_PROOFS = {
    ("elevata.audit", "Problem"): ("code", "message"),
    ("architecture.services.change_policy", "Problem"): ("code", "message"),
    ("architecture.services.row_signatures", "Problem"): ("code", "message"),
    ("architecture.domain.artifacts", "Finding"): ("code", "", "message"),
}
# Tables of texts by code, which are put into the message of a problem.
_TEXTS_OF_PROBLEMS = ("elevata.audit.services.chain", "_SIGNATURES")
_TABLE_OF_CODES = ("architecture.domain.refusals", "CODES")


# Keyword arguments of error responses without an error class.
_RESPONSE = ("status", "title", "detail", "code")


@cache
def raised() -> dict[tuple[str, str], Raised]:
    """Return the codes of expected errors by family (the class that carries them) and code."""
    collected: dict[tuple[str, str], Raised] = {}
    for path, module in modules().items():
        for family, parts in _errors_of(module, path):
            for code in parts["code"].texts() if "code" in parts else ():
                if _CODE.fullmatch(code):
                    _add(collected.setdefault((family, code), Raised(code)), parts)
    return collected


def _add(entry: Raised, parts: Arguments) -> None:
    if "status" in parts and isinstance(parts["status"].node, ast.Constant):
        entry.status = parts["status"].node.value
    for name, known in (("message", entry.messages), ("hint", entry.hints)):
        known += [text for text in (parts[name].texts() if name in parts else ()) if text not in known]


def _errors_of(module: Module, path: str) -> Iterator[tuple[str, Arguments]]:
    """Yield the family and the parts of each error of a module."""
    proofs = {name: order for (place, name), order in _PROOFS.items() if path.startswith(place)}
    for node, known in _nodes_with_locals(module):
        yield from _errors_without_call(node, known)
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name in error_classes():
                    parts = parts_of(name, node, known)
                    if "code" not in parts and (code := _class_code(name)):
                        parts["code"] = code
                    yield _family(name), parts
                elif name in proofs:
                    yield "Problem", _carried(proofs[name], node, known)
                elif name in _CARRIERS:
                    family = "Refusal" if path.startswith("loader.") else "MetadataError"
                    yield family, _carried(_CARRIERS[name], node, known)
                elif {*_RESPONSE} <= {word.arg for word in node.keywords}:
                    named = _carried((), node, known)
                    yield "Response", named | {"message": named["title"], "hint": named["detail"]}
    if path == _TEXTS_OF_PROBLEMS[0]:
        texts_by_code = module.constants[_TEXTS_OF_PROBLEMS[1]]
        assert isinstance(texts_by_code, ast.Dict)
        for code_node, text in zip(texts_by_code.keys, texts_by_code.values, strict=True):
            yield "Problem", {"code": Part(code_node, module), "message": Part(text, module)}
    if path == _TABLE_OF_CODES[0]:
        yield from _entries_of(module.constants[_TABLE_OF_CODES[1]], module)


def _errors_without_call(node: ast.AST, module: Module) -> Iterator[tuple[str, Arguments]]:
    """Yield an error that is a tuple (code, message, hint), an object of JSON, or an entry of a table by code."""
    match node:
        case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=str()) as code, message, hint])):
            if _CODE.fullmatch(code.value) and code.value.isupper():
                yield "Refusal", _parts(code, message, hint, module)
        case ast.Dict(keys=[ast.Constant(value="code"), *_], values=[ast.Constant(value=str()), *_]):
            names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            if "message" in names:
                named = {str(name): Part(value, module) for name, value in zip(names, node.values, strict=True)}
                yield "Refusal", named
        case ast.Assign(
            targets=[ast.Subscript(slice=ast.Constant(value=str()) as code)], value=ast.Tuple(elts=[_, message, hint])
        ):
            if _CODE.fullmatch(code.value) and code.value.isupper():
                yield "Refusal", _parts(code, message, hint, module)


Assignments = list[tuple[int, str, ast.expr]]


def _nodes_with_locals(module: Module) -> Iterator[tuple[ast.AST, Module]]:
    """Yield the nodes that may be errors with their module.

    In it, variables of the node's function have the last values assigned before the node.
    """
    pending: list[tuple[ast.AST, Assignments | None]] = [(module.tree, None)]
    while pending:
        node, assigned = pending.pop()
        known = _assignments(node) if isinstance(node, ast.FunctionDef) else assigned
        if isinstance(node, ast.Call | ast.Return | ast.Assign):
            earlier = {name: value for line, name, value in known or () if line < node.lineno}
            yield node, replace(module, constants=module.constants | earlier) if earlier else module
        elif isinstance(node, ast.Dict):
            yield node, module
        pending += [(child, known) for child in reversed(list(ast.iter_child_nodes(node)))]


def _assignments(function: ast.FunctionDef) -> Assignments:
    """Return line, name and value of the variables that a function assigns, except those assigned from themselves."""
    lines: Assignments = []
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
                # A sum of variables could be resolved in a circle.
                unknown = {other for _, other, _ in lines} if isinstance(value, ast.BinOp) else set()
                if not names & {name, *unknown}:
                    lines.append((node.lineno, name, value))
            case ast.For(
                target=ast.Tuple(elts=[_, ast.Name(id=name)]),
                iter=ast.Call(func=ast.Attribute(value=ast.Name() as table, attr="items")),
            ):
                lines.append((node.lineno, name, ast.Subscript(table, ast.Constant(name))))
    return sorted(lines, key=lambda entry: entry[0])


def _entries_of(table: ast.expr, module: Module) -> Iterator[tuple[str, Arguments]]:
    assert isinstance(table, ast.Dict)
    for code, described in zip(table.keys, table.values, strict=True):
        assert code is not None
        assert isinstance(described, ast.Tuple)
        message, hint = described.elts
        yield "Refused", _parts(code, message, hint, module)


def _parts(code: ast.expr, message: ast.expr, hint: ast.expr, module: Module) -> Arguments:
    return {"code": Part(code, module), "message": Part(message, module), "hint": Part(hint, module)}


def _carried(order: tuple[str, ...], call: ast.Call, module: Module) -> Arguments:
    positional = {name: Part(node, module) for name, node in zip(order, call.args, strict=False) if name}
    return positional | {word.arg: Part(word.value, module) for word in call.keywords if word.arg}


def _family(name: str) -> str:
    """Return the class that carries all parts of the errors of a class."""
    while name not in _OWN:
        base = ast.unparse(error_classes()[name].bases[0]).split(".")[-1]
        if base == BASE:
            return "MetadataError"
        name = base
    return name
