"""An artist that keeps the figures and hands out a few bytes: drawing itself takes a second."""

from __future__ import annotations

from edged.plot.figure import Figure, read_figure

DRAWN = b"\x89PNG\r\n\x1a\n a picture"


class FakeArtist:
    """Takes the place of ``edged.plot.artist.Artist``."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    async def draw(self, figure: Figure) -> bytes:
        self.figures.append(read_figure(figure.encode()))
        return DRAWN
