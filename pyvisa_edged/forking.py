"""What a child of fork() does not share with its parent: connections, sessions, threads, answers.

A child has copies of everything. Two processes that read one connection get each other's answers,
so that each part that has something of its process's own begins anew in the child.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Inherited(Protocol):
    """Something that a child has a copy of."""

    def forked(self) -> None:
        """This process is the child; its copy begins anew. No other thread runs yet."""
        ...


_all: weakref.WeakSet[Inherited] = weakref.WeakSet()


def begins_anew(one: Inherited) -> None:
    """Have it told in each child that is forked from now on, as long as it is there."""
    _all.add(one)


def _in_child() -> None:
    for one in list(_all):
        one.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
