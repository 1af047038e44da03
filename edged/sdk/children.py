"""What a wrapper or its vendor's library starts ends with the worker. Runs in the worker.

On Linux a worker leads a process group of its own, and its children belong to that, however they
were started. The engine ends the group when the worker has ended, and a worker that ends by itself
does so, too, because its engine may be gone. Only a child that leaves the group stays.

On Windows the worker puts itself into a job that ends with the last handle to it, and the only one
is the worker's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    EXTENDED_LIMITS = 9
    KILL_ON_CLOSE = 0x2000

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    def bind_children() -> None:
        """Have everything that is started from now on end with this process."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        job = wintypes.HANDLE(kernel.CreateJobObjectW(None, None))
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = KILL_ON_CLOSE
        size = ctypes.sizeof(limits)
        kernel.SetInformationJobObject(job, EXTENDED_LIMITS, ctypes.byref(limits), size)
        # The handle stays open until the process ends. Where this is refused, children may stay.
        kernel.AssignProcessToJobObject(job, wintypes.HANDLE(kernel.GetCurrentProcess()))

    def end_children() -> None:
        """The job sees to them."""

else:

    def bind_children() -> None:
        """The process group that the engine has made sees to them."""

    def end_children() -> None:
        """End what is left of this process's group, and with it this process."""
        if os.getpgrp() == os.getpid():
            with contextlib.suppress(OSError):
                os.killpg(0, signal.SIGKILL)
