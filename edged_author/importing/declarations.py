"""What a driver's class declares: its own controls, inherited ones, and those of its channels.

``control``, ``measurement`` and ``setting`` are calls whose arguments say a command, a limit, a
map. A subclass may write them anew, or change the arguments of those that are ``dynamic``; its
methods may change them while it runs, or how lines are sent and answers are read. Where code does
that, the declaration is left out and the reason says so.

Source: PyMeasure's public interface (0.10 to 0.16): the names and the order of arguments, what a
subclass may override, what a channel does with its id.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from edged.record import record
from edged_author.importing.literals import NotLiteralError, literal, shown
from edged_author.importing.source import ClassSource, Module, SourceTree

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "control": ("get_command", "set_command", "docs", "validator", "values", "map_values"),
    "measurement": ("get_command", "docs", "values", "map_values"),
    "setting": ("set_command", "docs", "validator", "values", "map_values"),
}
"""The arguments that may stand without their names in every version."""
KNOWN: Final = frozenset(
    {
        "get_command", "set_command", "docs", "validator", "values", "map_values", "get_process",
        "get_process_list", "set_process", "command_process", "check_set_errors",
        "check_get_errors", "dynamic", "preprocess_reply", "separator", "maxsplit", "cast",
        "values_kwargs",
    }
)  # fmt: skip
CHANGEABLE: Final = (
    "get_command", "set_command", "validator", "values", "map_values", "get_process",
    "get_process_list", "set_process", "command_process", "check_set_errors", "check_get_errors",
)  # fmt: skip
"""What a subclass may say anew of a dynamic one, as ``NAME_ARGUMENT``."""
ROOTS: Final = frozenset({"CommonBase", "Instrument", "Channel"})
ROOT_FILES: Final = frozenset({"common_base.py", "instrument.py", "channel.py", "__init__.py"})
MIXINS: Final = frozenset({"SCPIMixin", "SCPIUnknownMixin"})
"""What a file may name that is read alone, without the package."""
HARMLESS_BASES: Final = frozenset({"object", "ABC", "Generic", "Protocol"})
MAX_CHANNELS: Final = 64


@record
class LeftOut:
    """Something that is in no draft, and why."""

    path: str
    line: int
    what: str
    reason: str


@record(kw_only=False)
class Argument:
    """An expression, and the class in whose body it stands."""

    node: ast.expr
    scope: ClassSource


@record(eq=False)
class Declaration:
    """One control, measurement or setting, with what a subclass says of it."""

    name: str
    kind: str
    owner: ClassSource
    line: int
    arguments: Mapping[str, Argument]


@record(eq=False)
class ChannelGroup:
    """Channels of one class: their ids in order, and the names of their attributes."""

    of: ClassSource
    ids: tuple[str | int, ...]
    name: str


@record(frozen=False)
class Members:
    """All of a class, its bases merged in.

    Attributes:
        order: the class and what it inherits from, nearest first.
        is_instrument, is_channel: what it comes from.
        code: method → where the nearest class that is no root says it anew.
    """

    of: ClassSource
    order: tuple[ClassSource, ...]
    is_instrument: bool
    is_channel: bool
    declarations: dict[str, Declaration] = field(default_factory=dict)
    channels: tuple[ChannelGroup, ...] = ()
    code: dict[str, tuple[ClassSource, ast.stmt]] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def asks_as_scpi(self) -> bool:
        """Whether "was it taken?" is SCPI's own question, as the mixin has it."""
        found = self.code.get("check_errors")
        is_mixins = found is not None and found[0].name == "SCPIMixin"
        return is_mixins and "check_set_errors" not in self.code


class DriverReader:
    """Reads classes of one tree; what it found once it keeps."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._members: dict[ClassSource, Members] = {}

    def value(self, argument: Argument) -> Any:
        """What an argument is worth.

        Raises:
            NotLiteralError: only running would tell.
        """
        module = self.tree.module(argument.scope.path)
        return literal(argument.node, lambda node: self.tree.constant(node, module, argument.scope))

    def members(self, of: ClassSource) -> Members:
        """A class with all that it inherits."""
        found = self._members.get(of)
        if found is None:
            found = self._members[of] = self._read(of)
        return found

    def is_set_by_code(self, declaration: Declaration, members: Sequence[Members]) -> bool:
        """Whether some code in these classes' files changes an argument of a dynamic one."""
        if not self._is_dynamic(declaration):
            return False
        names = self._set_by_code(members)
        return any(
            f"{declaration.name}_{argument}" in names or f"*_{argument}" in names or "*" in names
            for argument in CHANGEABLE
        )

    def _set_by_code(self, members: Sequence[Members]) -> frozenset[str]:
        paths = {one.path for each in members for one in each.order}
        return frozenset[str]().union(*(self.tree.module(path).assigned for path in paths))

    def declares(self, call: ast.Call, module: Module) -> str:
        """``control``, ``measurement``, ``setting``, or empty: what a call makes."""
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in KINDS:
            return ""
        return func.attr if self._is_root_like(func.value, module, func.attr) else ""

    def _is_root_like(self, owner: ast.expr, module: Module, kind: str) -> bool:
        found = self.tree.class_of(owner, module)
        if found is None:
            return isinstance(owner, ast.Name) and owner.id in ROOTS and owner.id in module.imports
        order, unknown = self.tree.bases(found)
        for one in order:
            if _is_root(one):
                return True
            if any(kind in _names(node) for node in one.node.body):
                return False
        return any(isinstance(base, ast.Name) and base.id in ROOTS for base in unknown)

    def _read(self, of: ClassSource) -> Members:
        order, unknown = self.tree.bases(of)
        names = {one.name for one in order if _is_root(one)}
        names |= {base.id for base in unknown if isinstance(base, ast.Name)} & (ROOTS | MIXINS)
        own = [one for one in order if not _is_root(one)]
        members = Members(
            of=of,
            order=tuple(own),
            is_instrument=bool(names & {"Instrument"}),
            is_channel="Channel" in names,
        )
        strange = [base for base in unknown if shown(base) not in ROOTS | MIXINS | HARMLESS_BASES]
        if strange:
            reason = f"it inherits from {shown(strange[0])}, which is not in this tree"
            members.left_out.append(_left_out(of, of.line, "", reason))
            return members
        for one in reversed(own):
            self._add(one, members)
        self._change(members)
        return members

    def _add(self, one: ClassSource, members: Members) -> None:
        module = self.tree.module(one.path)
        bound = [(node, name) for node in one.node.body for name in _names(node)]
        for node, name in bound:
            call = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            kind = self.declares(call, module) if isinstance(call, ast.Call) else ""
            before = members.declarations.pop(name, None)
            members.channels = tuple(g for g in members.channels if g.name != name)
            if kind and isinstance(call, ast.Call):
                found = _declaration(name, kind, call, one)
                if isinstance(found, LeftOut):
                    members.left_out.append(found)
                else:
                    members.declarations[name] = found
            elif isinstance(call, ast.Call) and _creates_channels(call):
                self._add_channels(name, call, one, members)
            else:
                members.code[name] = (one, node)
                if name == "__init__" and isinstance(node, ast.FunctionDef):
                    members.channels += tuple(self._made(node, one))
                if before is not None:
                    reason = f"{one.name} says {name} anew by code (line {node.lineno})"
                    members.left_out.append(_left_out(before.owner, before.line, name, reason))

    def _add_channels(self, name: str, call: ast.Call, one: ClassSource, members: Members) -> None:
        try:
            found = self._channels(name, call, one)
        except NotLiteralError as why:
            reason = f"which channels there are, only code tells ({why})"
            members.left_out.append(_left_out(one, call.lineno, name, reason))
        else:
            members.channels += found

    def _channels(self, name: str, call: ast.Call, one: ClassSource) -> tuple[ChannelGroup, ...]:
        module = self.tree.module(one.path)
        given = dict(zip(("cls", "id", "prefix"), call.args, strict=False))
        given |= {word.arg: word.value for word in call.keywords if word.arg}
        classes = given.get("cls")
        if classes is None:
            raise NotLiteralError("no class")
        ids: Any = "" if "id" not in given else self.value(Argument(given["id"], one))
        several = list(ids) if isinstance(ids, list | range) else [ids]
        if isinstance(classes, ast.Tuple | ast.List):
            nodes = list(classes.elts)
        else:
            nodes = [classes] * len(several)
        if len(nodes) != len(several) or not 0 < len(several) <= MAX_CHANNELS:
            raise NotLiteralError("its ids")
        by_class: dict[ClassSource, list[str | int]] = {}
        for node, id_ in zip(nodes, several, strict=True):
            of = self.tree.class_of(node, module) or _inner(node, one, module)
            if of is None or isinstance(id_, bool) or not isinstance(id_, str | int | None):
                raise NotLiteralError(shown(node))
            by_class.setdefault(of, []).append("" if id_ is None else id_)
        return tuple(
            ChannelGroup(of=of, ids=tuple(found), name=name) for of, found in by_class.items()
        )

    def _made(self, constructor: ast.FunctionDef, one: ClassSource) -> Iterator[ChannelGroup]:
        """Channels that a constructor makes by a plain line: ``self.a = Cls(self, 1)``."""
        module = self.tree.module(one.path)
        for node in constructor.body:
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                    value=ast.Call(
                        func=made, args=[ast.Name(id="self"), ast.Constant(value=id_)], keywords=[]
                    ),
                ):
                    pass
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(value=ast.Name(id="self"), attr="add_child"),
                        args=[made, ast.Constant(value=id_)],
                    )
                ):
                    name = f"ch_{id_!r}"
                case _:
                    continue
            if isinstance(id_, bool) or not isinstance(id_, str | int):
                continue
            of = self.tree.class_of(made, module) or _inner(made, one, module)
            if of is not None and self.members(of).is_channel:
                yield ChannelGroup(of=of, ids=(id_,), name=name)

    def _change(self, members: Members) -> None:
        """What subclasses say of the arguments of dynamic declarations."""
        for name, declaration in list(members.declarations.items()):
            if not self._is_dynamic(declaration):
                continue
            for argument in CHANGEABLE:
                changed = f"{name}_{argument}"
                if changed in members.declarations:
                    continue
                for one in members.order:
                    if not any(changed in _names(node) for node in one.node.body):
                        continue
                    value = one.constants.get(changed)
                    if value is None:
                        reason = f"code says its {argument} anew ({one.name})"
                        members.left_out.append(
                            _left_out(declaration.owner, declaration.line, name, reason)
                        )
                        members.declarations.pop(name, None)
                    else:
                        declaration = replace(
                            declaration,
                            arguments={**declaration.arguments, argument: Argument(value, one)},
                        )
                        members.declarations[name] = declaration
                    break
                if name not in members.declarations:
                    break

    def _is_dynamic(self, declaration: Declaration) -> bool:
        given = declaration.arguments.get("dynamic")
        # What cannot be read is taken for dynamic: the conversion says that it is no literal.
        return given is not None and not (
            isinstance(given.node, ast.Constant) and given.node.value is False
        )


def _declaration(name: str, kind: str, call: ast.Call, owner: ClassSource) -> Declaration | LeftOut:
    order = KINDS[kind]
    words = [word.arg for word in call.keywords]
    reason = ""
    if len(call.args) > len(order):
        reason = "arguments stand by position whose order differs between versions"
    elif any(isinstance(one, ast.Starred) for one in call.args) or None in words:
        reason = "its arguments are gathered by code"
    else:
        strange = next((word for word in words if word not in KNOWN), None)
        if strange is not None:
            reason = f"nobody knows here what its argument {strange[:40]} means"
    if reason:
        return _left_out(owner, call.lineno, name, reason)
    given = dict(zip(order, call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg}
    return Declaration(
        name=name,
        kind=kind,
        owner=owner,
        line=call.lineno,
        arguments={word: Argument(node, owner) for word, node in given.items()},
    )


def _left_out(owner: ClassSource, line: int, name: str, reason: str) -> LeftOut:
    what = f"{owner.name}.{name}" if name else owner.name
    return LeftOut(path=owner.path, line=line, what=what, reason=reason)


def _names(node: ast.stmt) -> tuple[str, ...]:
    """The names that a statement of a class body binds."""
    match node:
        case ast.Assign(targets=targets):
            return tuple(target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return (name,)
        case ast.ClassDef(name=name):
            return (name,)
        case _:
            return ()


def _is_root(one: ClassSource) -> bool:
    return one.name in ROOTS and one.path.rpartition("/")[2] in ROOT_FILES


def _creates_channels(call: ast.Call) -> bool:
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else shown(func)
    return name in ("ChannelCreator", "MultiChannelCreator")


def _inner(node: ast.expr, one: ClassSource, module: Module) -> ClassSource | None:
    """A class that stands in the body of the one that names it."""
    return module.classes.get(f"{one.name}.{node.id}") if isinstance(node, ast.Name) else None
