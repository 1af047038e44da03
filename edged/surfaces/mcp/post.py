"""One POST being answered, and its requests: whose they are, what ends them, who reads the answers.

A request that waits for nothing is answered in the breath in which it came, and nothing else is
made for it. What waits is a ``PendingCall``: it can be ended by its session, by its client's going,
by the end of the daemon; its POST shows signs of life, and becomes an event stream where there is
something to tell on the way. What to send is then decided by ``protocol.exchange``.

Who reads is the connection by which the POST came; or, if that broke after an event stream with ids
had begun, the GET by which the client resumed the stream.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, assert_never

from edged.actions.action import ProgressSink
from edged.actions.caller import Caller
from edged.actions.elicit import Elicit, Round
from edged.actions.outcome import Outcome, Underway
from edged.clock import Clock
from edged.protocol.elicitation import answer_of, elicit_bytes, round_of, withdrawn_bytes
from edged.protocol.exchange import Effects, EndStream, Exchange, OpenStream, Respond, Write
from edged.protocol.http_rules import JSON_HEADERS, Accepted, HeaderList
from edged.protocol.jsonrpc import Batch, ErrorReply, Message, Request, around_id, result_bytes_from
from edged.protocol.revisions import Elicitation, Revision
from edged.protocol.sse import EventLog
from edged.record import part, record
from edged.surfaces.mcp.reply import KeepAlives, StreamReply, Wire
from edged.surfaces.mcp.seams import Choice
from edged.surfaces.mcp.sessions import CallEnd, CallEndedError, MakeAnswer, Repeat, Session

if TYPE_CHECKING:
    from edged.telemetry.spans import OperationSpan

Answer = bytes | ErrorReply | None
"""An encoded result, or the error instead of one; ``None`` where no answer is owed."""

Served = bytes | ErrorReply | Underway | Coroutine[Any, Any, bytes]
"""What serving a request gives: its answer, or what will come to one."""


PLAIN: Final = frozenset({"name", "arguments"})
"""Params of a call that asks for nothing besides: no progress, no token of a client's own."""


@record
class Surroundings:
    """What every POST needs of the room that serves it.

    Attributes:
        keep_alives: where silent calls are listed.
        clock: for the times of streams.
        new_log: the memory of a POST's answer, should that become a stream that can be resumed.
        settled: told what came of an action that was under way; ``None`` once it was cancelled.
    """

    keep_alives: KeepAlives
    clock: Clock
    new_log: Callable[[Post], EventLog | None]
    settled: Callable[[PendingCall, Outcome | None], None]


@part
class PendingCall:
    """One request: served at once, or under way; ``sessions.Endable``, ``actions.CallClient``.

    Attributes:
        slot: names it in the exchange of its POST.
        headers: more headers of the HTTP answer; set by the handler.
        is_cut_by_disconnect: the client's going ends it.
        ended: why it was ended from outside, if it was.
        is_answered: its client gets no further answer; what it has begun may go on.
        on_expiry: brings its work to its end when the caller's token expires, where that is not to
            be cancelled; set by the handler.
        refusal: what it is answered with unserved, where its id is in flight already.
        make_answer: makes the answer of a tool call's outcome, by request id; may raise.
        progress: takes the progress of its work, where its client asked for that.
        beat: sends a progress notification that only says it goes on, where that is so.
        span: what telemetry tells of it, where that is exported.
        underway: the action that it waits for.
    """

    post: Post
    slot: int
    request: Request
    headers: HeaderList = ()
    is_cut_by_disconnect: bool = False
    refusal: ErrorReply | None = None
    ended: CallEnd | None = None
    is_answered: bool = False
    on_expiry: Callable[[], None] | None = None
    progress: ProgressSink | None = None
    beat: Callable[[], None] | None = None
    make_answer: MakeAnswer | None = None
    span: OperationSpan | None = None
    underway: Underway | None = None
    _task: asyncio.Task[Any] | None = None
    _then: Callable[[PendingCall, asyncio.Task[Any]], None] | None = None

    def go_on(self, pending: Underway) -> None:
        """An action is under way for it; ``Surroundings.settled`` says when it is over."""
        self.underway = pending
        self.post.watch()
        if self.is_cut_by_disconnect:
            self.post.cut_with_client(self)

    def run(
        self,
        work: Coroutine[Any, Any, Any],
        then: Callable[[PendingCall, asyncio.Task[Any]], None],
    ) -> None:
        """Work in a task of its own; ``then`` is called on the loop when that is over."""
        self._then = then
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._task_is_done)
        self.post.watch()

    def end(self, why: CallEnd) -> None:
        """End it, now or before it begins; only the first time counts.

        It is over once what runs for it has settled what it owes.
        """
        if self.ended is not None:
            return
        self.ended = why
        if self.underway is not None:
            self.underway.cancel(why.value)
        elif self._task is not None:
            self._task.cancel(why.value)

    def tie(self) -> None:
        """From now on the client's going ends it; called by its own work.

        Raises:
            CallEndedError: it has gone already.
        """
        self.is_cut_by_disconnect = True
        if self.post.wire.is_lost:
            self.ended = self.ended or CallEnd.CLIENT_GONE
            raise CallEndedError(self.ended)
        self.post.wire.connection.probe_by(self.post.probe)

    # What ``CallClient`` is

    @property
    def is_here(self) -> bool:
        return self.ended is None and not self.post.wire.is_lost

    def watch(self) -> None:
        if not self.post.wire.is_lost:
            self.post.wire.connection.probe_by(self.post.probe)

    def elicit(self) -> Elicit | None:
        session, can_ask = self.post.session, self.post.revision.elicitation
        if session is None or not (session.can_elicit and self.post.can_stream):
            return None
        if can_ask not in (Elicitation.REQUEST, Elicitation.FORM):
            return None
        return partial(self._elicit, session)

    async def _elicit(self, session: Session, message: str) -> bool | None:
        """Show a person a question on this call's own stream."""
        post = self.post
        if not post.can_stream:
            return None
        request_id = f"edged-{secrets.token_hex(8)}"
        answer = session.asked[request_id] = asyncio.get_running_loop().create_future()
        try:
            post.notify(self, elicit_bytes(post.revision, request_id, message))
            return answer_of(await answer)
        finally:
            del session.asked[request_id]
            if (answer.cancelled() or not answer.done()) and post.can_stream:
                post.notify(self, withdrawn_bytes(request_id))

    def round(self) -> Round | None:
        if self.post.revision.elicitation is not Elicitation.ROUNDS:
            return None
        can_ask, state, answer = round_of(self.request)
        return Round(state, answer) if can_ask else None

    def remember(self, outcome: Outcome, make_answer: MakeAnswer) -> None:
        """Keep what a call of a tool came to, if it can be done again in the same words."""
        again, post, params = outcome.again, self.post, self.request.params
        if again is None or post.session is None or post.head is None or self.span is not None:
            return
        around, waits = around_id(post.body, self.request), self.make_answer is not None
        if isinstance(post.message, Request) and params.keys() <= PLAIN and around is not None:
            repeat = Repeat(
                post.head, params, post.caller, post.revision, again, make_answer, waits
            )
            post.session.remember(around, repeat)

    def _task_is_done(self, task: asyncio.Task[Any]) -> None:
        then, self._task, self._then = self._then, None, None
        if then is not None:
            then(self, task)


@part
class Post:
    """One POST that passed every door, and the answer on its way.

    Attributes:
        make_wire: the way back; made when it is needed.
        message: what came.
        accepted: how the client speaks HTTP.
        session: whose it is; ``None`` for a request that stands alone.
        caller: as of that session.
        choice: what tools/list shows to this client.
        calls: its requests, in order.
        served: how many of them have been begun.
        last_write_s: see ``reply.Quiet``.
        plain: the whole answer, where it is one: status, headers, body. Who has it served sends it
            once it is over.
        head: that it came with, as it was judged; ``None``: it is not known when it comes again.
        body: that it came with, where there is a head.
        is_over: every request is answered, or never will be.
        on_over: called once, when that is so.
    """

    surroundings: Surroundings
    make_wire: Callable[[], Wire]
    message: Message | Batch
    accepted: Accepted
    revision: Revision
    session: Session | None
    caller: Caller
    choice: Choice
    calls: tuple[PendingCall, ...] = ()
    served: int = 0
    plain: tuple[int, HeaderList, bytes] | None = None
    head: object = None
    body: bytes = b""
    is_over: bool = False
    on_over: Callable[[], None] | None = None
    last_write_s: float = 0.0
    # When the client last got progress of the call itself.
    _told_s: float = 0.0
    _wire: Wire | None = None
    # Of all that is not one plain answer.
    _exchange: Exchange | None = None
    _log: EventLog | None = None
    # Where to write now; and the stream of this POST's own connection, which may be another.
    _stream: StreamReply | None = None
    _own_stream: StreamReply | None = None
    # Set when a stream that was resumed is over.
    _over: asyncio.Event | None = None
    _is_watched: bool = False
    _is_gone: bool = False

    @property
    def wire(self) -> Wire:
        """The way back."""
        if self._wire is None:
            self._wire = self.make_wire()
        return self._wire

    @property
    def exchange(self) -> Exchange:
        """What to send, where that is more than one plain answer."""
        if self._exchange is None:
            self._log = self.surroundings.new_log(self)
            self._exchange = Exchange(
                self.message,
                revision=self.revision,
                wants_json=self.accepted.wants_json,
                wants_sse=self.accepted.wants_sse,
                log=self._log,
            )
        return self._exchange

    @property
    def can_stream(self) -> bool:
        """Whether notifications can reach the client at all."""
        if not self.accepted.wants_sse or self._is_gone or self.is_over:
            return False
        return self._exchange is None or self._exchange.can_stream

    @property
    def is_lagging(self) -> bool:
        """Whether the reader of the stream is so far behind that progress should be left out."""
        return self._stream is not None and self._stream.is_full

    def watch(self) -> None:
        """Something of it waits: show the client signs of life, and notice when it goes."""
        if self._is_watched:
            return
        self._is_watched = True
        self.last_write_s = self._told_s = self.surroundings.clock.monotonic()
        self.surroundings.keep_alives.add(self)

    def cut_with_client(self, call: PendingCall) -> None:
        """The client's going ends this call, which has begun."""
        wire = self.wire
        if wire.is_lost:
            call.end(CallEnd.CLIENT_GONE)
        else:
            wire.connection.probe_by(self.probe)

    def settle(self, call: PendingCall, answer: Answer) -> None:
        """Send the answer to one of its requests, or what is left where none is owed."""
        if (
            self._exchange is None
            and self.accepted.wants_json
            and isinstance(self.message, Request)
        ):
            status, headers = 200, JSON_HEADERS
            match answer:
                case bytes():
                    body = result_bytes_from(call.request.id, answer)
                    if call.headers:
                        headers += call.headers
                case ErrorReply():
                    status, body = self.revision.status_of(answer.rpc_code), answer.encode()
                case _:
                    status, headers, body = 202, (), b""
            self.plain = status, headers, body
            return
        exchange = self.exchange
        match answer:
            case None:
                effects = exchange.drop(call.slot)
            case ErrorReply():
                effects = exchange.fail(call.slot, answer)
            case _:
                effects = exchange.answer(call.slot, answer, headers=call.headers)
        self.carry_out(effects)

    def carry_out(self, effects: Effects, *, in_bursts: bool = False) -> None:
        """Do what the exchange says, in its order.

        Args:
            in_bursts: more of the kind may follow in this turn of the loop.
        """
        for effect in effects:
            match effect:
                case Respond(status=status, headers=headers, body=body):
                    self.wire.respond(status, headers, body)
                case OpenStream(status=status, headers=headers):
                    self._stream = self._own_stream = self.wire.open_stream(headers, status)
                    if self.session is not None and self._log is not None:
                        self.session.resumable[self._log.stream] = self
                case Write(data=data):
                    if self._stream is not None:
                        (self._stream.write_soon if in_bursts else self._stream.write)(data)
                case EndStream():
                    if self._stream is not None:
                        self._stream.end()
                case _:
                    assert_never(effect)

    def notify(self, call: PendingCall, payload: bytes) -> None:
        """Send a notification of a call; none comes after the answer."""
        if self.is_over:
            return
        self.carry_out(self.exchange.notify(call.slot, payload), in_bursts=True)
        if self._stream is not None:
            self.last_write_s = self._told_s = self._stream.last_write_s

    def keep_alive(self) -> None:
        if self.surroundings.keep_alives.is_due(self._told_s) and self._beat():
            return
        if self._stream is not None:
            self._stream.keep_alive()
            self.last_write_s = self._stream.last_write_s
        elif not self._is_gone or self._exchange is not None:
            self.carry_out(self.exchange.keep_alive())

    def _beat(self) -> bool:
        """Say of each call whose client asked for progress that it goes on; false: no such."""
        if self._stream is None and not self.can_stream:
            return False
        going = [call for call in self.calls if call.ended is None]
        beats = [call.beat for call in going if call.beat is not None]
        for beat in beats:
            beat()
        return bool(beats)

    def probe(self) -> bool:
        self.keep_alive()
        return self._stream is not None or self.wire.go_on()

    def cut(self) -> None:
        """Break the stream off."""
        if self._stream is not None:
            self._stream.cut()

    def resume(self, stream: StreamReply) -> asyncio.Event:
        """Write on there from now on; the event is set when the stream is over."""
        if self._stream is not None:
            self._stream.end()
        self._stream = stream
        self._over = asyncio.Event()
        return self._over

    def lost(self, stream: StreamReply) -> None:
        """A stream that resumed this one is gone."""
        stream.lost()
        if self._stream is stream:
            self._stream = None

    def client_gone(self) -> None:
        """The connection is lost: end what is only worth it for a listener."""
        self._is_gone = True
        if self._exchange is not None:
            self._exchange.abandon()
        if self._own_stream is not None:
            self.lost(self._own_stream)
        for call in self.calls:
            if call.is_cut_by_disconnect:
                call.end(CallEnd.CLIENT_GONE)

    def finish(self) -> None:
        """Every call is settled, or never will be."""
        self.is_over = True
        # Each knows its post: what is over must not wait for the garbage collector.
        self.calls = ()
        if self._is_watched:
            self.surroundings.keep_alives.discard(self)
        if self._log is not None:
            self._log.finish()
            if self.session is not None:
                self.session.resumable.pop(self._log.stream, None)
        if self._over is not None:
            self._over.set()
        on_over, self.on_over = self.on_over, None
        if on_over is not None:
            on_over()
