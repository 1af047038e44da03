"""What a worker answered, or that it did not → the caller's value, or the error. Pure.

Texts come from vendors' code, so they are cleaned and cut like those of instruments.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from edged.actions.cause import Cause
from edged.errors import ErrorCode, Failed, Invalid
from edged.scpi.answer_text import clean_text
from edged.sdk.specs import Returned, ReturnType, WrapperSpec

LONGEST: Final = 400
INSTALL: Final = "Install the vendor's library; docs/sdk-wrappers.md says where it is looked for."
_TYPES: Final[Mapping[ReturnType, tuple[type, ...]]] = {
    ReturnType.FLOAT: (int, float),
    ReturnType.INT: (int,),
    ReturnType.STRING: (str,),
    ReturnType.BOOL: (bool,),
    ReturnType.LIST: (list,),
    ReturnType.OBJECT: (dict,),
}


def shown(text: object) -> str:
    """A vendor's text as people get it."""
    return clean_text(str(text), LONGEST)


def failure_of(spec: WrapperSpec, error: Mapping[str, Any]) -> Failed:
    """The exception that a wrapper's function raised, as an error."""
    told, remedy = shown(error.get("message", "")), shown(error.get("remedy") or "")
    data = {"wrapper": spec.wrapper, "type": shown(error.get("type", ""))}
    match error.get("kind"):
        case "SdkMissing" | "ImportError":
            return Failed(
                f"The library behind {spec.wrapper} is not installed: {told.rstrip('.')}.",
                code=ErrorCode.SDK_MISSING,
                data=data,
                remedy=remedy or INSTALL,
            )
        case "NotConnected":
            return Failed(
                f"{spec.wrapper}: {told}", code=ErrorCode.DISCONNECTED, data=data, remedy=remedy
            )
        case _:
            what = f"{data['type']}: {told}" if told else data["type"]
            return Failed(
                f"{spec.wrapper}.{spec.name} failed: {what}",
                code=ErrorCode.WRAPPER_FAILED,
                data=data,
                remedy=remedy,
            )


def checked(spec: WrapperSpec, value: Any) -> Any:
    """The value, if it is what ``returns`` says.

    Raises:
        Failed: BAD_ANSWER.
    """
    if spec.returns is None:
        return value
    problem = _problem(spec.returns, value, "it")
    if problem:
        raise Failed(
            f"{spec.wrapper}.{spec.name} returned what does not match its specification: "
            f"{problem}.",
            code=ErrorCode.BAD_ANSWER,
            data={"wrapper": spec.wrapper},
            remedy="The call was carried out; correct the wrapper.",
        )
    return value


def _problem(returned: Returned, value: Any, name: str) -> str:
    # No value is told as null, whatever the type.
    if value is None:
        return ""
    is_number_wanted = returned.type in (ReturnType.FLOAT, ReturnType.INT)
    if not isinstance(value, _TYPES[returned.type]) or (
        is_number_wanted and isinstance(value, bool)
    ):
        return f"{name} is of type {type(value).__name__}, not {returned.type.value}"
    members: Mapping[str, Any] = value if isinstance(value, dict) else {}
    for key, inner in returned.fields.items():
        if key not in members:
            return f"{name} has no {key}"
        problem = _problem(inner, members[key], key)
        if problem:
            return problem
    return ""


def overdue(spec: WrapperSpec) -> Failed:
    """Its time was over."""
    return Failed(
        f"{spec.wrapper}.{spec.name} did not end within {spec.timeout_s:g} s, so its worker was "
        "killed; what it did until then is not known.",
        code=ErrorCode.TIMEOUT,
        data={"wrapper": spec.wrapper, "timeout_s": spec.timeout_s},
        remedy="The wrapper is restarted. Look at the device; then call again.",
    )


def crashed(spec: WrapperSpec, how: str) -> Failed:
    """Its worker was lost; ``how`` is a clause."""
    return Failed(
        f"The SDK wrapper {spec.wrapper} {how} while {spec.name} ran; what that did until then "
        "is not known.",
        code=ErrorCode.WRAPPER_FAILED,
        data={"wrapper": spec.wrapper},
        remedy="It is restarted; call again. Its lines in the engine's log may say why.",
    )


def ended_for(cause: Cause) -> Failed:
    """Something more urgent, or its owner, has ended it."""
    return Failed(cause.sentence, code=ErrorCode.PREEMPTED)


def unloadable(told: Mapping[str, Any], path: Path) -> Invalid:
    """Why a wrapper's file cannot be loaded, with its place."""
    line = told.get("line") or 1
    return Invalid(
        f"{path}:{line}: it could not be loaded: {told['type']}: {shown(told['message'])}",
        code=ErrorCode.BAD_PROFILE,
        data={"path": str(path), "line": line},
        remedy=shown(told.get("remedy") or "") or "Correct the file; it is read again then.",
    )
