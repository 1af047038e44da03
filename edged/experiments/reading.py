"""An experiment file, or the JSON object that stands for one → ``Experiment``; every error at once.

What can be said without a bench is said here: keys, kinds of values, expressions, loops. Whether
roles have the commands, and every name a value, is ``check.py``'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final

from edged.errors import Invalid
from edged.experiments.grammar import (
    EXPERIMENT,
    LOG,
    PLOT,
    RANGES,
    RESUME,
    STEPS,
    VALUES,
    WATCH,
    name_of,
    target_of,
    value_of,
)
from edged.experiments.model import Experiment, FirstStep
from edged.experiments.problem import Problem, problem_of
from edged.profiles.expr import Name, compile_expression, is_condition
from edged.profiles.format.parameters import read_parameters
from edged.profiles.model import Step
from edged.schema.fields import (
    Fields,
    Gathering,
    check_format,
    complaint,
    each_of,
    list_of,
    map_of,
    nearest,
    text_of,
)
from edged.schema.tables import Table
from edged.yaml.tree import ListNode, MapNode, Mark, Node, ScalarNode, YamlProblem

MOST_BYTES: Final = 256 * 1024
MOST_STEPS: Final = 1_000
MOST_NESTING: Final = 10
MAX_DEPTH: Final = 40
MAX_NODES: Final = 50_000
Parts = dict[str, tuple[Step, ...]]
PARTS: Final = frozenset({"steps", "then", "else", "first", "finally"})
"""Keys of steps that have steps."""
_WORDS: Final = re.compile(r"\w+")


class BadPlan(Exception):
    """What is wrong with a plan; all of it, the first ``MOST_PROBLEMS`` shown.

    Attributes:
        rest: what can be read of it all the same; ``None``: nothing of use.
        unread: the words of what could not be read, by which more may seem to be wrong.
    """

    def __init__(
        self,
        problems: Collection[Problem],
        rest: Experiment | None = None,
        unread: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__("\n".join(problem.text for problem in problems))
        self.problems = tuple(problems)
        self.rest = rest
        self.unread = unread


def read_plan(source: str | Mapping[str, Any], path: str = "plan") -> Experiment:
    """The experiment of a file's text, or of a JSON object.

    Args:
        source: YAML text, or the object itself.
        path: what the places of errors are named by.

    Raises:
        BadPlan: everything that is wrong with it.
    """
    try:
        root = _document(source, path)
    except YamlProblem as bad:
        raise BadPlan([problem_of(bad, {})]) from None
    paths = paths_of(root)
    reader = _Reader(paths)
    rest: Experiment | None = None
    with reader.gathering.part():
        rest = reader.experiment(root)
    if rest is not None and reader.gathering.is_clean:
        return rest
    found = sorted(reader.gathering.found, key=lambda bad: (bad.data["line"], bad.data["column"]))
    problems = [problem_of(bad, paths) for bad in found]
    raise BadPlan(problems, rest, frozenset(reader.unread))


def _document(source: str | Mapping[str, Any], path: str) -> Node:
    if not isinstance(source, str):
        return node_of(source, path)
    # Most engines never read YAML once they are up: what they read at the start is cached.
    from edged.yaml.source import Bounds, parse_document

    start = Mark(path=path, line=1, column=1)
    if len(source) > MOST_BYTES:
        raise YamlProblem(start, f"It has {len(source):,} characters, over {MOST_BYTES:,}.")
    root = parse_document(
        source, path, Bounds(max_depth=MAX_DEPTH, max_nodes=MAX_NODES, has_aliases=True)
    )
    if root is None:
        raise YamlProblem(start, "It is empty.", "See edged://experiments/grammar.")
    return root


def node_of(value: object, path: str) -> Node:
    """A JSON value as a tree. Its marks count nodes in place of lines.

    Raises:
        YamlProblem: it is too deep or too large, or holds what JSON has not.
    """
    lines = count(1)

    def made(value: object, depth: int) -> Node:
        mark = Mark(path=path, line=next(lines), column=1)
        if depth > MAX_DEPTH or mark.line > MAX_NODES:
            raise YamlProblem(mark, "It is nested too deeply, or too large.")
        match value:
            case None | bool() | int() | float() | str():
                text = value if isinstance(value, str) else json.dumps(value)
                if isinstance(value, float) and value not in (value, 0.0):
                    raise YamlProblem(mark, "A number is not finite.")
                return ScalarNode(mark, value, text)
            case Mapping():
                keys = {str(k): ScalarNode(mark, str(k), str(k)) for k in value}
                entries = {str(k): made(v, depth + 1) for k, v in value.items()}
                return MapNode(mark, entries, {k: _at(keys[k], entries[k].mark) for k in keys})
            case list() | tuple():
                return ListNode(mark, tuple(made(item, depth + 1) for item in value))
            case _:
                raise YamlProblem(mark, f"It holds a {type(value).__name__}.")

    return made(value, 0)


def _at(key: ScalarNode, mark: Mark) -> ScalarNode:
    return ScalarNode(mark, key.value, key.text)


def paths_of(root: Node) -> dict[Mark, str]:
    """Where everything stands, as a path: ``steps[4].steps[1].set``; the outermost at a place."""
    found: dict[Mark, str] = {}
    waiting: list[tuple[str, Node]] = [("", root)]
    while waiting:
        path, node = waiting.pop(0)
        found.setdefault(node.mark, path)
        match node:
            case MapNode(entries=entries, keys=keys):
                for name, entry in entries.items():
                    inside = f"{path}.{name}" if path else name
                    found.setdefault(keys[name].mark, inside)
                    waiting.append((inside, entry))
            case ListNode(items=items):
                waiting += [(f"{path}[{at}]", item) for at, item in enumerate(items)]
            case ScalarNode():
                pass
    return found


def placed(problems: Collection[Problem], source: str) -> tuple[Problem, ...]:
    """Problems that know their path, each with its place in the YAML text.

    One whose path is missing in the text gets that of the innermost mapping or list around it.
    """
    marks: dict[str, Mark] = {}
    if not all(problem.line for problem in problems):
        for mark, path in paths_of(_document(source, "plan")).items():
            marks.setdefault(path, mark)

    def placed_at(problem: Problem) -> Problem:
        path = problem.path
        while path and path not in marks:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        if problem.line or not path:
            return problem
        return replace(problem, line=marks[path].line, column=marks[path].column)

    return tuple(map(placed_at, problems))


def words_of(*nodes: Node) -> Iterator[str]:
    """All keys and texts, and the words in them."""
    waiting = list(nodes)
    while waiting:
        match waiting.pop():
            case MapNode(entries=entries, keys=keys):
                waiting += [*entries.values(), *keys.values()]
            case ListNode(items=items):
                waiting += items
            case ScalarNode(text=text):
                yield from (text, *_WORDS.findall(text))


class _Reader:
    """Reads one file.

    Args:
        paths: of the nodes, by their marks.

    Attributes:
        gathering: all that is wrong.
        unread: the words of what could not be read.
    """

    def __init__(self, paths: Mapping[Mark, str]) -> None:
        self._paths = paths
        self._count = 0
        self._loops: set[str] = set()
        self.gathering = Gathering()
        self.unread: set[str] = set()

    def experiment(self, root: Node) -> Experiment | None:
        """As much of it as can be read; ``None``: not even what there is to read.

        Raises:
            Invalid: it is no mapping.
        """
        fields = EXPERIMENT.begin(root, "", self.gathering)
        found = EXPERIMENT.values(fields, gathering=self.gathering)
        for name, node in fields.node.entries.items():
            known = EXPERIMENT.keys.get(name)
            if known is None or (known.kind.read and (known.field or name) not in found):
                self.unread.update(words_of(node))
        with self._part_of(fields.get("format")):
            check_format(fields)
        with self._part_of(fields.get("parameters")):
            own = Gathering()
            found["parameters"] = read_parameters(fields, own, name_of)
            own.end()
        for key, name in (
            ("steps", "steps"),
            ("finally", "finally_steps"),
            ("on_pause", "on_pause"),
            ("on_resume", "on_resume"),
        ):
            with self._part_of(fields.get(key)):
                found[name] = self._steps(fields, key, ())
        for key, table in (("log", LOG), ("watch", WATCH), ("plots", PLOT), ("resume", RESUME)):
            with self._part_of(fields.get(key)):
                found.update(self._part(fields, key, table))
        with self._part_of(fields.get("resume")):
            self._check_loop(fields, found)
        roles = fields.get("roles")
        if "roles" not in found and isinstance(roles, MapNode):
            found["roles"] = dict.fromkeys(roles.entries, "")
        if "roles" not in found:
            return None
        return Experiment(**{"name": "", "steps": (), **found})

    @contextmanager
    def _part_of(self, node: Node | None) -> Iterator[None]:
        """What is raised inside is kept, and the words of what is read there."""
        try:
            yield
        except Invalid as error:
            self.gathering.add(error)
            if node is not None:
                self.unread.update(words_of(node))

    def _part(self, fields: Fields, key: str, table: Table[Any]) -> dict[str, Any]:
        node = fields.get(key)
        if node is None:
            return {}
        if table is RESUME:
            return {"resume": RESUME.read(node, key)}
        if table is LOG:
            logs = map_of(node, key, most=50)
            names = each_of(logs.keys.values(), lambda column: name_of(column, key))
            read = each_of(logs.entries.items(), lambda e: LOG.read(e[1], f"{key}.{e[0]}"))
            return {"logs": dict(zip(names, read, strict=True))}
        items = list_of(node, key, most=50)
        name = "watches" if table is WATCH else "plots"
        return {name: each_of(items, lambda item: table.read(item, self._paths[item.mark]))}

    def _check_loop(self, fields: Fields, found: dict[str, Any]) -> None:
        resume = found.get("resume")
        if resume is not None and resume.at not in self._loops:
            del found["resume"]
            if resume.at not in self.unread:
                message = f"resume.at: there is no loop {resume.at}."
                raise complaint(fields.mark_of("resume"), message, nearest(resume.at, self._loops))

    def _steps(
        self, fields: Fields, key: str, loops: tuple[str, ...], parts: Parts | None = None
    ) -> tuple[Step, ...]:
        node = fields.get(key)
        if node is None:
            return ()
        if parts is not None:
            parts[key] = ()
        if len(loops) > MOST_NESTING:
            raise complaint(node.mark, f"Steps are nested deeper than {MOST_NESTING}.")
        found = self._list(node, self._paths.get(node.mark, fields.path_of(key)), loops)
        if parts is not None:
            parts[key] = found
        return found

    def _list(self, node: Node, owner: str, loops: tuple[str, ...]) -> tuple[Step, ...]:
        items = list_of(node, owner, most=MOST_STEPS)
        self._count += len(items)
        if self._count > MOST_STEPS:
            raise complaint(node.mark, f"There are more than {MOST_STEPS} steps.")
        return tuple(self._step(item, loops) for item in items)

    def _step(self, node: Node, loops: tuple[str, ...]) -> Step:
        """A step; in place of one that cannot be read the steps inside of it."""
        path = self._paths[node.mark]
        parts: Parts = {}
        try:
            return self._good_step(node, path, loops, parts)
        except Invalid as error:
            self.gathering.add(error)
        entries = node.entries if isinstance(node, MapNode) else {}
        self.unread.update(*(words_of(one) for key, one in entries.items() if key not in PARTS))
        self.unread.update(_kinds(entries) or STEPS)
        for key in PARTS & entries.keys() - parts.keys():
            with self._part_of(entries[key]):
                parts[key] = self._list(entries[key], f"{path}.{key}", loops)
        return FirstStep(path=path, steps=tuple(chain.from_iterable(parts.values())))

    def _good_step(self, node: Node, path: str, loops: tuple[str, ...], parts: Parts) -> Step:
        """A step; raises Invalid: all that is wrong with it, the steps inside of it apart.

        Args:
            parts: takes the steps inside of it, by their keys.
        """
        entries = map_of(node, f"{path}: a step").entries
        kinds = _kinds(entries)
        if len(kinds) != 1:
            has = " and ".join(kinds) or "none"
            unknown = next((nearest(k, STEPS) for k in entries if k not in STEPS), "")
            message = f"{path}: a step is exactly one of {', '.join(STEPS)}; this has {has}."
            raise complaint(node.mark, message, unknown)
        kind = kinds[0]
        table = STEPS[kind]
        gathering = Gathering()
        fields = table.begin(node, path, gathering)
        found: dict[str, Any] = {"path": path, **table.values(fields, gathering=gathering)}
        with gathering.part():
            found.update(self._special(kind, fields, loops, parts))
        gathering.end()
        step: Step = table.model(**found)
        return step

    def _special(
        self, kind: str, fields: Fields, loops: tuple[str, ...], parts: Parts
    ) -> dict[str, Any]:
        """What the keys of a step say that hang on others, or hold steps."""
        match kind:
            case "command" | "poll":
                return self._target(fields, kind)
            case "for" | "repeat":
                return self._loop(kind, fields, loops, parts)
            case "if":
                steps = {"then": self._steps(fields, "then", loops, parts)}
                return {**steps, "otherwise": self._steps(fields, "else", loops, parts)}
            case "first":
                return {"steps": self._steps(fields, "first", loops, parts)}
            case "leave":
                return self._leave(fields, loops)
            case "ask":
                _check_ask(fields)
                return {}
            case "check":
                _check_limits(fields)
                return {}
            case "settle":
                _check_settle(fields)
                return {}
            case _:
                return {}

    def _target(self, fields: Fields, key: str) -> dict[str, Any]:
        node, owner = fields.need(key), fields.name_of(key)
        target = target_of(node, owner)
        found = {key: target.command, "role": target.role, "parameters": target.parameters}
        given = fields.get("parameters")
        if given is not None:
            assert VALUES.read is not None  # noqa: S101 - it reads
            found["parameters"] = VALUES.read(fields, "parameters", given, ())
        if key == "poll":
            return {**found, "member": target.member}
        if target.member:
            remedy = f"Write {target.role}.{target.command}."
            raise complaint(node.mark, f"{owner}: a command step names no field.", remedy)
        return found

    def _loop(
        self, kind: str, fields: Fields, loops: tuple[str, ...], parts: Parts
    ) -> dict[str, Any]:
        node = fields.need(kind)
        name = name_of(node, fields.name_of(kind))
        if name in self._loops:
            raise complaint(node.mark, f"{fields.owner}: there is another loop {name}.")
        self._loops.add(name)
        found: dict[str, Any] = {"name": name}
        gathering = Gathering()
        if kind == "for":
            with gathering.part():
                found["kind"], found["values"] = _range_of(fields)
            with gathering.part():
                found["finally_steps"] = self._steps(fields, "finally", loops, parts)
            with gathering.part():
                _check_moving(fields)
        with gathering.part():
            fields.need("steps")
            found["steps"] = self._steps(fields, "steps", (*loops, name), parts)
        gathering.end()
        return found

    def _leave(self, fields: Fields, loops: tuple[str, ...]) -> dict[str, Any]:
        node = fields.need("leave")
        loop = text_of(node, fields.name_of("leave"), most=64)
        if loop not in loops and loop not in self.unread:
            message = f"{fields.owner}: this step stands in no loop {loop}."
            remedy = nearest(loop, loops) if loops else "Only a step inside a loop can leave it."
            raise complaint(node.mark, message, remedy)
        return {"loop": loop}


def _kinds(entries: Collection[str]) -> list[str]:
    """The kinds of step that these keys can be: ``wait_s`` is a kind, and a key of ``for``."""
    found = [kind for kind in STEPS if kind in entries]
    fitting = [k for k in found if all(o == k or o in STEPS[k].keys for o in found)]
    return fitting or found


def _range_of(fields: Fields) -> tuple[str, tuple[Any, ...]]:
    node = fields.need("in")
    owner = fields.name_of("in")
    if not isinstance(node, MapNode):
        items = list_of(node, owner, most=100_000)
        if not items:
            raise complaint(node.mark, f"{owner} is empty: the loop would never run.")
        return "list", RANGES["list"](fields, "in", items)
    if len(node.entries) != 1 or next(iter(node.entries)) not in RANGES:
        remedy = "Write [0, 1, 2], {lin: [from, to, number]}, {log: …} or {count: number}."
        raise complaint(node.mark, f"{owner} is a list, or one of lin, log and count.", remedy)
    kind, inside = next(iter(node.entries.items()))
    items = (inside,) if kind == "count" else list_of(inside, f"{owner}.{kind}")
    if kind != "count" and len(items) != 3:
        raise complaint(node.mark, f"{owner}.{kind} needs three entries: from, to, number.")
    return kind, RANGES[kind](fields, "in", items)


def _check_moving(fields: Fields) -> None:
    for key in ("rate", "snake"):
        if key == "rate" and fields.has(key) and not fields.has("set"):
            raise complaint(
                fields.mark_of(key),
                f"{fields.owner}: {key} is of what the loop sets, and it sets nothing.",
                "Add set: role.command.",
            )


def _check_ask(fields: Fields) -> None:
    kind = fields.text("type")
    for key, types in (("pattern", ("text",)), ("options", ("choice",)), ("min", ("number",)),
                       ("max", ("number",))):  # fmt: skip
        if fields.has(key) and kind not in types:
            message = f"{fields.owner}: {key} is of type {types[0]}, and this is {kind}."
            raise complaint(fields.mark_of(key), message)
    if kind == "choice" and not fields.has("options"):
        raise complaint(fields.mark, f"{fields.owner}: a choice needs options.")


def _check_limits(fields: Fields) -> None:
    """Without limits only what is true or false by itself can be judged."""
    node = fields.get("value")
    if node is None or fields.has("min") or fields.has("max"):
        return
    value = value_of(node, fields.name_of("value"), is_bare=True)
    root = compile_expression(value[1:-1]).root if isinstance(value, str) else None
    if not isinstance(root, Name) and not is_condition(root):
        message = f"{fields.owner} judges nothing: it has neither min nor max."
        raise complaint(fields.mark, message, "Add min or max, or make value a condition.")


def _check_settle(fields: Fields) -> None:
    if not fields.has("drift") and not fields.has("within"):
        message = f"{fields.owner} is never settled: it has neither drift nor target and within."
        raise complaint(fields.mark, message, "Add drift, or target and within.")
    if fields.has("target") != fields.has("within"):
        raise complaint(fields.mark, f"{fields.owner}: target and within belong together.")
