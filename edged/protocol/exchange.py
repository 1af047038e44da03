"""One POST from its messages to its answer, without I/O: events in, effects out.

The answer is plain JSON until the first notification wants out; then it becomes an event stream,
if the client takes one, and each message is an event, the answers last. Until then a refusal can
still choose its HTTP status. A batch is answered by one array, or by one event for each request.

Not here: who serves the calls, keep-alive timing, back-pressure. The shell feeds what happens and
carries out the effects in order::

    exchange = Exchange(message, revision=…, wants_json=…, wants_sse=…)
    for effect in exchange.begin(): …            # a POST without requests is answered here
    for call in exchange.calls: …                # serve each, then:
    for effect in exchange.answer(call.slot, result): …

Source: docs/promises.md section 3; MCP 2025-03-26 ``basic/transports``, "Sending Messages to the
Server".
"""

from __future__ import annotations

import enum
from typing import Final, assert_never

from edged.errors import Fault
from edged.protocol import jsonrpc
from edged.protocol.http_rules import JSON_HEADERS, SSE_HEADERS, HeaderList
from edged.protocol.revisions import Revision
from edged.protocol.sse import KEEP_ALIVE, EventLog, encode_event
from edged.record import record


@record(frozen=False)
class Respond:
    """Send a whole HTTP answer; nothing follows. Not frozen, as the others: made for every call."""

    status: int
    headers: HeaderList
    body: bytes


@record
class OpenStream:
    """Send the head of an event stream."""

    headers: HeaderList
    status: int = 200


@record(frozen=False)
class Write:
    """Send these bytes on the open stream, and flush."""

    data: bytes


@record
class EndStream:
    """Close the open stream; nothing follows."""


Effect = Respond | OpenStream | Write | EndStream
Effects = tuple[Effect, ...]
NOTHING: Final[Effects] = ()


@record(frozen=False)
class Call:
    """A request to serve; ``slot`` names it here, since ids may repeat within a batch."""

    slot: int
    request: jsonrpc.Request


class ExchangeState(enum.StrEnum):
    """How much of the answer has gone out."""

    WAITING = "waiting"
    STREAMING = "streaming"
    DONE = "done"


class Exchange:
    """The answer to one POST, in the making.

    Args:
        message: what came; a batch only under a revision that has them.
        wants_json, wants_sse: what the client takes; at least one.
        log: makes the event stream resumable; ``None`` where it must not or cannot be.

    Attributes:
        calls: the requests, in order; each must be answered, failed or dropped once.
        notifications: what the client notified; the shell acts on them before ``begin``.
        state: see ``ExchangeState``.
    """

    def __init__(
        self,
        message: jsonrpc.Message | jsonrpc.Batch,
        *,
        revision: Revision,
        wants_json: bool,
        wants_sse: bool,
        log: EventLog | None = None,
    ) -> None:
        self._revision = revision
        self._wants_json = wants_json
        self._wants_sse = wants_sse
        self._log = log if revision.has_event_ids else None
        self._is_batch = isinstance(message, jsonrpc.Batch)
        items = message.items if isinstance(message, jsonrpc.Batch) else (message,)
        self.calls = tuple(
            Call(slot=slot, request=item)
            for slot, item in enumerate(items)
            if isinstance(item, jsonrpc.Request)
        )
        self.notifications = tuple(item for item in items if isinstance(item, jsonrpc.Notification))
        self.state = ExchangeState.WAITING
        # Slots still to be settled, and encoded answers that have not gone out yet.
        self._open_slots = {call.slot for call in self.calls}
        self._answers: dict[int, bytes] = {
            slot: item.reply().encode()
            for slot, item in enumerate(items)
            if isinstance(item, jsonrpc.BadMessage)
        }
        # Status of the whole answer while it is plain JSON; a batch of nothing but rubbish is 400.
        self._status = 400 if len(self._answers) == len(items) else 200
        self._headers: HeaderList = ()

    @property
    def can_stream(self) -> bool:
        """Whether notifications can reach the client at all."""
        return self._wants_sse and self.state is not ExchangeState.DONE

    def begin(self) -> Effects:
        """What can be said at once: all of it when there is no request to wait for."""
        return self._settle() if not self._open_slots else NOTHING

    def notify(self, slot: int, payload: bytes) -> Effects:
        """Send a notification about a call ahead of its answer.

        One that comes after the answer is dropped, as are all when the client takes no stream.
        """
        if slot not in self._open_slots or not self.can_stream:
            return NOTHING
        return (*self._open(), self._event(payload))

    def answer(self, slot: int, result: bytes, *, headers: HeaderList = ()) -> Effects:
        """Answer a call with an encoded result.

        Args:
            headers: more headers of the HTTP answer, where its head has not gone out yet.
        """
        request_id = self._request(slot).id
        self._headers += headers
        return self._finish(slot, jsonrpc.result_bytes_from(request_id, result))

    def fail(self, slot: int, reply: jsonrpc.ErrorReply, *, headers: HeaderList = ()) -> Effects:
        """Answer a call with an error; a lone one may choose the HTTP status, by its code."""
        self._request(slot)
        self._headers += headers
        if not self._is_batch:
            self._status = self._revision.status_of(reply.rpc_code)
        return self._finish(slot, reply.encode())

    def drop(self, slot: int) -> Effects:
        """Close a call without an answer: it was cancelled, and is owed none.

        A lone call that nothing was sent for yet ends as 202 without a body: HTTP must say
        something, and clients read that as "nothing to see".
        """
        self._request(slot)
        return self._finish(slot, None)

    def keep_alive(self) -> Effects:
        """Show that a long call is alive; commits to an event stream if the client takes one."""
        if self.state is ExchangeState.DONE or not self._wants_sse:
            return NOTHING
        return (*self._open(), Write(data=KEEP_ALIVE))

    def abandon(self) -> None:
        """The client is gone; effects from now on are only for the log of a resumable stream."""
        if self._log is None or self.state is ExchangeState.WAITING:
            self._open_slots.clear()
            self.state = ExchangeState.DONE

    def _request(self, slot: int) -> jsonrpc.Request:
        for call in self.calls:
            if call.slot == slot:
                return call.request
        raise Fault(f"This exchange has no call in slot {slot}.")

    def _finish(self, slot: int, payload: bytes | None) -> Effects:
        if self.state is ExchangeState.DONE:
            return NOTHING
        if slot not in self._open_slots:
            raise Fault(f"The call in slot {slot} was settled before.")
        self._open_slots.remove(slot)
        if payload is not None:
            self._answers[slot] = payload
        if self.state is ExchangeState.STREAMING:
            return (*self._flush(), *(self._settle() if not self._open_slots else NOTHING))
        return self._settle() if not self._open_slots else NOTHING

    def _settle(self) -> Effects:
        """Every call is settled: complete the answer in the form it has taken."""
        state, self.state = self.state, ExchangeState.DONE
        match state:
            case ExchangeState.STREAMING:
                return self._close()
            case ExchangeState.WAITING:
                return self._complete()
            case ExchangeState.DONE:
                return NOTHING
            case _:
                assert_never(state)

    def _complete(self) -> Effects:
        answers = [self._answers[slot] for slot in sorted(self._answers)]
        if not answers:
            return (Respond(status=202, headers=self._headers, body=b""),)
        if not self._wants_json and self._status == 200:
            return (*self._open(), *self._close())
        body = b"[%b]" % b",".join(answers) if self._is_batch else answers[0]
        headers = JSON_HEADERS + self._headers
        return (Respond(status=self._status, headers=headers, body=body),)

    def _open(self) -> Effects:
        """The head of the stream, and answers that were waiting for it; nothing if it is open."""
        if self.state is ExchangeState.STREAMING:
            return NOTHING
        if self.state is ExchangeState.WAITING:
            self.state = ExchangeState.STREAMING
        head: Effects = (OpenStream(headers=SSE_HEADERS + self._headers),)
        if self._log is not None and self._revision.has_priming_event:
            head = (*head, Write(data=self._log.prime()))
        return (*head, *self._flush())

    def _flush(self) -> Effects:
        events = tuple(self._event(self._answers[slot]) for slot in sorted(self._answers))
        self._answers.clear()
        return events

    def _close(self) -> Effects:
        if self._log is not None:
            self._log.finish()
        return (EndStream(),)

    def _event(self, payload: bytes) -> Write:
        return Write(data=self._log.frame(payload) if self._log else encode_event(payload))
