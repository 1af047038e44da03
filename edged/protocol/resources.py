"""Resources and completion on the wire: what clients ask, and entries and contents told.

What a resource is and who may read it is not decided here (``tools/resources.py``).

Source: MCP ``server/resources`` and ``server/utilities/completion`` of each revision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from edged.protocol.jsonrpc import BadMessage, JsonObject, Request, RpcCode
from edged.protocol.results import Server, plain_result
from edged.protocol.revisions import Revision

__all__ = [
    "MAX_URI_CHARS",
    "MAX_VALUES",
    "CompletionParams",
    "Content",
    "ResourceEntry",
    "TemplateEntry",
    "completion_params",
    "completion_result",
    "read_result",
    "resource_uri",
]

MAX_URI_CHARS: Final = 2_048
MAX_VALUES: Final = 100
"""The most values of one completion (``server/utilities/completion``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEntry:
    """A resource as ``resources/list`` shows it.

    Attributes:
        name: for programs and short lists; ``title`` for people.
        size: bytes of its content, where that is known without making it.
        modified: when it changed last, ISO 8601; empty where that says nothing.
    """

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None
    modified: str = ""

    def as_listed(self, revision: Revision) -> JsonObject:
        """The wire form, with the members that the revision knows."""
        return _known(
            revision,
            {
                "uri": self.uri,
                "name": self.name,
                "title": self.title or None,
                "description": self.description or None,
                "mimeType": self.mime_type or None,
                "size": self.size,
                "annotations": {"lastModified": self.modified} if self.modified else None,
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateEntry:
    """A family of resources as ``resources/templates/list`` shows it (RFC 6570, level 1)."""

    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""

    def as_listed(self, revision: Revision) -> JsonObject:
        """The wire form, with the members that the revision knows."""
        return _known(
            revision,
            {
                "uriTemplate": self.uri_template,
                "name": self.name,
                "title": self.title or None,
                "description": self.description or None,
                "mimeType": self.mime_type or None,
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What reading a resource gave: ``text``, or ``blob`` in base64; never both."""

    uri: str
    mime_type: str
    text: str | None = None
    blob: str | None = None
    meta: JsonObject | None = None

    def as_told(self, revision: Revision) -> JsonObject:
        """The wire form, with the members that the revision knows."""
        return _known(
            revision,
            {
                "uri": self.uri,
                "mimeType": self.mime_type,
                "text": self.text,
                "blob": self.blob,
                "_meta": self.meta,
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionParams:
    """``completion/complete``.

    Attributes:
        kind: ``ref/resource`` or ``ref/prompt``.
        ref: the template's URI, or the prompt's name.
        argument: which variable of it; ``value`` what was typed so far.
        known: the variables that have a value already.
    """

    kind: str
    ref: str
    argument: str
    value: str
    known: Mapping[str, str] = field(default_factory=dict)


def resource_uri(request: Request) -> str:
    """The ``uri`` of ``resources/read``, ``subscribe`` and ``unsubscribe``.

    Raises:
        BadMessage: -32602, it is no string, or too long for a URI.
    """
    uri = request.params.get("uri")
    if not isinstance(uri, str) or len(uri) > MAX_URI_CHARS:
        raise _complaint(request, f"uri must be a string of at most {MAX_URI_CHARS} characters.")
    return uri


def completion_params(request: Request) -> CompletionParams:
    """Read ``completion/complete``.

    Raises:
        BadMessage: -32602, a member is missing or of another type.
    """
    ref = request.params.get("ref")
    argument = request.params.get("argument")
    if not isinstance(ref, dict) or not isinstance(argument, dict):
        raise _complaint(request, "ref and argument must be objects.")
    kind = str(ref.get("type"))
    if kind not in _REF_KEYS:
        raise _complaint(request, f"ref.type must be one of {', '.join(_REF_KEYS)}.")
    named, name, value = ref.get(_REF_KEYS[kind]), argument.get("name"), argument.get("value")
    if not isinstance(named, str) or len(named) > MAX_URI_CHARS:
        raise _complaint(request, f"ref.{_REF_KEYS[kind]} must be a string.")
    if not isinstance(name, str) or not isinstance(value, str) or len(value) > MAX_URI_CHARS:
        raise _complaint(request, "argument.name and argument.value must be strings.")
    context = request.params.get("context")
    known = context.get("arguments") if isinstance(context, dict) else None
    if known is not None and not (
        isinstance(known, dict) and all(isinstance(text, str) for text in known.values())
    ):
        raise _complaint(request, "context.arguments must be an object of strings.")
    return CompletionParams(kind=kind, ref=named, argument=name, value=value, known=known or {})


def read_result(revision: Revision, server: Server, contents: Sequence[Content]) -> bytes:
    """The answer to ``resources/read``; at least one content, for none would be ambiguous."""
    told = [content.as_told(revision) for content in contents]
    return plain_result(revision, server, method="resources/read", members={"contents": told})


def completion_result(revision: Revision, server: Server, values: Sequence[str]) -> bytes:
    """The answer to ``completion/complete``: as many of all values, best first, as it may hold."""
    members = {
        "completion": {
            "values": list(values[:MAX_VALUES]),
            "total": len(values),
            "hasMore": len(values) > MAX_VALUES,
        }
    }
    return plain_result(revision, server, method="completion/complete", members=members)


_REF_KEYS: Final[Mapping[str, str]] = {"ref/resource": "uri", "ref/prompt": "name"}


def _known(revision: Revision, members: Mapping[str, object]) -> JsonObject:
    return {
        key: value
        for key, value in members.items()
        if value is not None and key in revision.resource_fields
    }


def _complaint(request: Request, message: str) -> BadMessage:
    return BadMessage(
        f"{request.method}: {message}", rpc_code=RpcCode.INVALID_PARAMS, request_id=request.id
    )
