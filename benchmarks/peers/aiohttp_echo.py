"""The floor that everything on aiohttp stands on: an application, a route, a handler that echoes.

No JSON, no validation, no record. Prints its port, ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web


async def echo(request: web.Request) -> web.Response:
    """The body, as it came."""
    return web.Response(body=await request.read(), content_type="application/json")


async def main() -> None:
    app = web.Application()
    app.router.add_post("/mcp", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
