"""Frameworks for agents that read a server's tools their own way, each in its own environment.

Their scripts, in ``tests/clients``, take a URL and a list of calls ``{name, arguments}``, and print
``{tools: [{name, parameters}], answers: [text]}``: what each gives its model of the tools, and what
its agent reads of each call.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.bench.sdk_session import NODE_PACKAGES, interpreter, script

AGENTS: dict[str, tuple[str, str]] = {
    "autogen": ("autogen", "autogen_agent.py"),
    "semantic-kernel": ("semantic-kernel", "semantic_kernel_agent.py"),
    "openai-agents": ("openai-agents", "openai_agent.py"),
    "pydantic-ai": ("pydantic-ai", "pydantic_agent.py"),
    "mcpo": ("mcpo", "mcpo_agent.py"),
    "langchain": ("langchain", "langchain_agent.py"),
    "langchain-js": ("node", "langchain_agent.mjs"),
    "google-adk": ("node", "adk_agent.mjs"),
}
GEMINI = ("langchain-js", "google-adk")
"""Those that declare the tools in Gemini's own form."""
WITHIN_S = 120


def agent(name: str, url: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """What one of ``AGENTS`` makes of a server and of these calls."""
    environment, program = AGENTS[name]
    asked = json.dumps([{"name": called, "arguments": given} for called, given in calls])
    ended = subprocess.run(
        [*interpreter(environment), str(script(environment, program)), url, asked],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "NODE_PACKAGES": str(NODE_PACKAGES)},
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
