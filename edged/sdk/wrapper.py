"""What the author of an SDK wrapper may use of edged: two settings to ask for, two errors to raise.

A wrapper runs in a worker process, never in the engine. It needs nothing of this module; any
exception that it raises becomes a clear error. Imports nothing but ``os``, so that a wrapper can be
tried out by itself in any Python.

Source: docs/sdk-wrappers.md.
"""

from __future__ import annotations

import os

__all__ = ["NotConnected", "SdkMissing", "library", "setting"]

LIBRARY_PREFIX = "SDK_LIBRARY_"
SETTING_PREFIX = "SDK_SETTING_"


class SdkMissing(Exception):
    """The vendor's library or package is not installed.

    Args:
        message: what was looked for.
        remedy: what to install, and how to tell edged where it is.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class NotConnected(Exception):
    """The device is not there, or somebody else has it; so nothing of it can be switched.

    Args:
        message: what was looked for, and where.
        remedy: what to do about it.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def library(name: str, default: str) -> str:
    """Path of a vendor's library: what SDK_LIBRARIES says under ``name``, else ``default``."""
    return os.environ.get(f"{LIBRARY_PREFIX}{name.upper()}", default)


def setting(name: str, default: str = "") -> str:
    """What SDK_SETTINGS says under this wrapper's stem and ``name``, else ``default``."""
    return os.environ.get(f"{SETTING_PREFIX}{name.upper()}", default)
