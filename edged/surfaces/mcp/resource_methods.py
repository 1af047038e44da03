"""The methods that list and read resources, and complete the names in their URIs."""

from __future__ import annotations

from edged.errors import EdgedError, Failed, NotFound
from edged.protocol import messages, resources, results
from edged.protocol.jsonrpc import ErrorReply, Request, RpcCode
from edged.surfaces.mcp.context import AnsweredError, Context
from edged.surfaces.mcp.error_codes import error_reply

__all__ = [
    "complete",
    "list_resources",
    "list_templates",
    "not_read",
    "read_resource",
]


async def list_resources(context: Context, request: Request) -> bytes:
    """What there is to read now, on one page."""
    _only_page(request)
    await context.parts.first_look.wait()
    entries = await context.parts.resources.entries(context.caller)
    return results.list_result(
        context.revision,
        context.parts.server,
        method="resources/list",
        key="resources",
        entries=(entry.as_listed(context.revision) for entry in entries),
    )


async def list_templates(context: Context, request: Request) -> bytes:
    """The families of URIs, on one page."""
    _only_page(request)
    return results.list_result(
        context.revision,
        context.parts.server,
        method="resources/templates/list",
        key="resourceTemplates",
        entries=(
            entry.as_listed(context.revision) for entry in context.parts.resources.templates()
        ),
    )


async def read_resource(context: Context, request: Request) -> bytes:
    """Read one."""
    uri = resources.resource_uri(request)
    parts = context.parts
    if context.revision.is_disconnect_a_cancel:
        context.post.tie(context.call)
    await parts.first_look.wait()
    try:
        contents = await parts.resources.read(uri, context.caller, parts.new_action_id())
    except EdgedError as error:
        raise not_read(context, request, uri, error) from error
    return resources.read_result(context.revision, parts.server, contents)


async def complete(context: Context, request: Request) -> bytes:
    """Values for a variable of a template."""
    asked = resources.completion_params(request)
    await context.parts.first_look.wait()
    values = await context.parts.resources.complete(asked, context.caller)
    return resources.completion_result(context.revision, context.parts.server, values)


def not_read(context: Context, request: Request, uri: str, error: EdgedError) -> AnsweredError:
    """Why a resource was not read, as the revision words it."""
    if isinstance(error, NotFound):
        code = context.revision.resource_not_found
        reply = ErrorReply(
            request_id=request.id, rpc_code=code, message=str(error), data={"uri": uri}
        )
    elif isinstance(error, Failed):
        reply = ErrorReply(
            request_id=request.id, rpc_code=RpcCode.INTERNAL_ERROR, message=str(error)
        )
    else:
        reply = error_reply(error, request.id)
    return AnsweredError(reply)


def _only_page(request: Request) -> None:
    results.page_number(request, messages.list_cursor(request), generation=0, count=1)
