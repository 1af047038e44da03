"""Whether a method of a driver hands on what it was given, as far as the syntax shows it.

Many a ``write`` does, but for commands that hold a placeholder of their own: only a test whether
the command holds, or is, a given text counts, and ``super().write(command)``. The constructor of a
channel may hand its id on, or make another of it.
"""

from __future__ import annotations

import ast
from typing import Final, TypeGuard

MOST_STATEMENTS: Final = 20


def passes_on(method: ast.stmt, command: str) -> bool:
    """Whether the method sends this command once, unchanged, and does nothing besides."""
    if not isinstance(method, ast.FunctionDef) or len(method.args.args) < 2:
        return False
    if method.decorator_list:
        return False
    sent = _sent(method.body, method.args.args[1].arg, command)
    return sent == 1


def _sent(body: list[ast.stmt], name: str, command: str) -> int:
    """How often it is handed on; a hundred where that cannot be seen."""
    count = 0
    if len(body) > MOST_STATEMENTS:
        return 100
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call) if _hands_on(call, name):
                count += 1
            case ast.If(test=test, body=then, orelse=otherwise):
                holds = _holds(test, name, command)
                if holds is None:
                    return 100
                count += _sent(then if holds else otherwise, name, command)
            case _:
                return 100
    return count


def _hands_on(call: ast.Call, name: str) -> bool:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr="write"),
            args=[ast.Name(id=given)],
        ):
            return given == name and all(word.arg is None for word in call.keywords)
        case _:
            return False


def _holds(test: ast.expr, name: str, command: str) -> bool | None:
    """Whether a test of the command's text comes out true; ``None``: nobody can tell.

    A value that is filled in could make any other text than one in braces.
    """
    match test:
        case ast.Compare(
            left=ast.Constant(value=str(text)), ops=[ast.In()], comparators=[ast.Name(id=given)]
        ) if given == name and text.startswith("{"):
            return text in command
        case ast.Compare(
            left=ast.Name(id=given), ops=[ast.Eq()], comparators=[ast.Constant(value=str(text))]
        ) if given == name and "%" not in command:
            return text == command
        case _:
            return None


def hands_id_on(method: ast.stmt) -> bool:
    """Whether a channel's constructor gives its base the id that it was given."""
    if not isinstance(method, ast.FunctionDef) or method.decorator_list:
        return False
    given = method.args
    names = [one.arg for one in given.args]
    for node in ast.walk(method):
        match node:
            case ast.Attribute(attr="id" | "_id" | "placeholder", ctx=ast.Store()):
                return False
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names[2:3]:
            return False
    calls = [node for node in ast.walk(method) if _is_constructor(node)]
    if len(calls) != 1:
        return False
    call = calls[0]
    if names[2:3]:
        second = call.args[1] if len(call.args) > 1 else _word(call, "id")
        return isinstance(second, ast.Name) and second.id == names[2]
    first = call.args[0] if call.args else None
    return (
        given.vararg is not None
        and isinstance(first, ast.Starred)
        and isinstance(first.value, ast.Name)
        and first.value.id == given.vararg.arg
    )


def _is_constructor(node: ast.AST) -> TypeGuard[ast.Call]:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")
        ):
            return True
        case _:
            return False


def _word(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)
