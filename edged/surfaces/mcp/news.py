"""GET streams: a session's own, for news; or the rest of a POST's stream that broke.

A stream begins with what its reader missed (``Last-Event-ID``), then news that waited, and stays
until the client goes, a newer GET takes its place, or the session ends.
"""

from __future__ import annotations

import asyncio
from typing import Final

from edged.actions.caller import Caller
from edged.protocol.messages import RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED, News
from edged.protocol.sse import EventId, Replay, ReplayBuffer
from edged.surfaces.mcp.reply import KeepAlives, StreamReply, Wire
from edged.surfaces.mcp.sessions import Announcement, Session, SessionRegistry

NEW_TOOLS: Final = Announcement(TOOLS_CHANGED)
NEW_RESOURCES: Final = Announcement(RESOURCES_CHANGED)


class NewsFeed:
    """Serves GET streams.

    Args:
        board: the sessions.
        replay: what resumable streams have kept.
        keep_alives: where open streams are listed.
    """

    def __init__(
        self, *, board: SessionRegistry, replay: ReplayBuffer, keep_alives: KeepAlives
    ) -> None:
        self._board = board
        self._replay = replay
        self._keep_alives = keep_alives

    def tools_changed(self) -> None:
        """Tell everybody; called by the registry."""
        self._board.announce(NEW_TOOLS)

    def resources_changed(self, news: News) -> None:
        """Tell everybody, and who watches; called by the resources."""
        if news.is_list_changed:
            self._board.announce(NEW_RESOURCES)
        for uri in news.uris:
            self._board.announce(Announcement(RESOURCE_UPDATED, uri))

    async def serve(
        self,
        wire: Wire,
        stream: StreamReply,
        session: Session,
        *,
        caller: Caller,
        last_event_id: str | None,
    ) -> None:
        """Feed one open stream to its end.

        Args:
            caller: who has opened it.
        """
        wire.connection.ends_with_input = True
        wire.connection.keeps_alive = False
        if wire.connection.is_half_closed:
            return
        last = EventId.parse(last_event_id or "")
        replay = self._replay.after(last, owner=session.id) if last is not None else None
        news = session.news_log.stream if session.news_log is not None else ""
        if replay is None or replay.stream == news:
            await self._serve_news(wire, stream, session, replay, caller)
        else:
            await self._serve_rest(wire, stream, session, replay)

    async def _serve_news(
        self,
        wire: Wire,
        stream: StreamReply,
        session: Session,
        replay: Replay | None,
        caller: Caller,
    ) -> None:
        attached = self._board.attach(session, stream, caller)

        def gone() -> None:
            stream.lost()
            attached.over.set()

        wire.connection.on_gone = gone
        self._keep_alives.add(stream)
        try:
            if replay is not None:
                stream.write(b"".join(replay.events))
                if not replay.is_complete:
                    self._board.note_gap(session)
            elif session.news_log is not None and session.revision.has_priming_event:
                stream.write(session.news_log.prime())
            self._board.deliver_pending(session)
            await attached.over.wait()
        finally:
            wire.connection.on_gone = None
            self._keep_alives.discard(stream)
            stream.end()
            self._board.detach(session, attached)

    async def _serve_rest(
        self, wire: Wire, stream: StreamReply, session: Session, replay: Replay
    ) -> None:
        """What a call's stream had sent since, and what its call still sends."""
        stream.write(b"".join(replay.events))
        post = session.resumable.get(replay.stream)
        if post is None or replay.is_finished:
            stream.end()
            return
        over = post.resume(stream)

        def gone() -> None:
            post.lost(stream)
            over.set()

        wire.connection.on_gone = gone
        try:
            await over.wait()
        except asyncio.CancelledError:
            # The token by which it was opened has expired; the call has its own.
            stream.end()
            gone()
            raise
        finally:
            wire.connection.on_gone = None
            stream.end()
