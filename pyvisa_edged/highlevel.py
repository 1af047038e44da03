"""The VISA library that PyVISA works with: handles, status codes, and who is told what."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pyvisa import attributes, constants, highlevel, rname
from pyvisa.constants import ResourceAttribute as Attribute
from pyvisa.constants import StatusCode
from pyvisa.errors import VisaIOError
from pyvisa.highlevel import ResourceInfo
from pyvisa.typing import VISARMSession
from pyvisa.util import LibraryPath

from pyvisa_edged.forking import begins_anew
from pyvisa_edged.later import Later
from pyvisa_edged.place import BARE, bench_at
from pyvisa_edged.refusal import EdgedVisaError, connection_lost, not_offered
from pyvisa_edged.resource import OpenResource, resource_info
from pyvisa_edged.wire import McpSession, SessionGone, Wire

RENEW_S = 20.0
"""A lock is a lease of a minute: two renewals may fail."""
KEEP_UNITS_S = 2.0
MANAGER = VISARMSession(1)
DISCARDS_READS = (
    constants.BufferOperation.discard_read_buffer
    | constants.BufferOperation.discard_read_buffer_no_io
    | constants.BufferOperation.discard_receive_buffer
    | constants.BufferOperation.discard_receive_buffer2
)
DEFAULT_FILTER = "?*::INSTR"
CLOSED_THERE = "unknown_session"
"""The bench's word for a unit that it has closed to make room; nothing was done."""

T = TypeVar("T")


class EdgedVisaLibrary(highlevel.VisaLibraryBase):
    """PyVISA's way to the instruments of a bench.

    Everything is done by the bench: this keeps the handles, an answer that came with its question,
    and VISA's attributes.
    """

    @staticmethod
    def get_library_paths() -> Iterable[LibraryPath]:
        """Bare ``@edged``: EDGED_URL, or the engine of this machine."""
        return (LibraryPath(BARE),)

    @staticmethod
    def get_debug_info() -> dict[str, Any]:
        """For ``pyvisa-info``."""
        from pyvisa_edged import __version__

        return {"Version": __version__, "Bench": bench_at(BARE).url}

    def _init(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """As new: PyVISA gives a library again that was closed before."""
        self._bench = bench_at(str(self.library_path))
        self._session = McpSession()
        self._wire = Wire(self._bench)
        self._opened: dict[int, OpenResource] = {}
        self._handles = itertools.count(MANAGER + 1)
        self._units: tuple[float, list[dict[str, Any]]] = (float("-inf"), [])
        self._renewing: threading.Thread | None = None
        self._closing = threading.Event()
        self._later = Later()
        begins_anew(self)

    def forked(self) -> None:
        """See ``Inherited``: locks are the parent's, and its thread keeps them."""
        self._renewing = None
        is_closing, self._closing = self._closing.is_set(), threading.Event()
        if is_closing:
            self._closing.set()

    # The manager

    def open_default_resource_manager(self) -> tuple[Any, StatusCode]:
        """The one manager; the bench is asked for nothing yet."""
        if self._closing.is_set():
            self._begin()
        return MANAGER, self.handle_return_value(MANAGER, StatusCode.success)

    def list_resources(self, session: Any, query: str = DEFAULT_FILTER) -> tuple[str, ...]:
        """Every unit by its name; with another filter than PyVISA's own, what matches it.

        Aliases are no VISA names, so that PyVISA's own filter would leave all of them out.
        """
        units = self._list()
        names = [str(unit["name"]) for unit in units]
        if query == DEFAULT_FILTER:
            return tuple(names)
        names += [str(address) for unit in units for address in unit["addresses"]]
        return tuple(rname.filter(list(dict.fromkeys(names)), query))

    def parse_resource(self, session: Any, resource_name: str) -> tuple[ResourceInfo, StatusCode]:
        """What kind of thing a name is, by the unit's own address where it is no VISA name."""
        address, alias = self._address(resource_name)
        interface, board, kind = resource_info(address)
        info = ResourceInfo(interface, board, kind, address, alias or None)
        return info, self.handle_return_value(session, StatusCode.success)

    parse_resource_extended = parse_resource

    def open(
        self,
        session: Any,
        resource_name: str,
        access_mode: constants.AccessModes = constants.AccessModes.no_lock,
        open_timeout: int | None = constants.VI_TMO_IMMEDIATE,
    ) -> tuple[Any, StatusCode]:
        """Open a unit by VISA name, alias, id or serial number."""
        opened = OpenResource(Wire(self._bench), self._later, resource_name)
        try:
            self._told(session, opened, lambda _: None)
        except VisaIOError:
            opened.let_go()
            raise
        handle = next(self._handles)
        self._opened[handle] = opened
        if access_mode != constants.AccessModes.no_lock:
            try:
                self.lock(handle, constants.Lock.exclusive, open_timeout or 0)
            except VisaIOError:
                self.close(handle)
                raise
        return handle, self._ok(handle)

    def close(self, session: Any) -> StatusCode:
        """Close a unit, or the manager with all that is open."""
        if session == MANAGER:
            self._closing.set()
            self._later.close()
            for handle in list(self._opened):
                self.close(handle)
            if self._session.id:
                self._wire.end(self._session.id)
                self._session.forget(self._session.id)
            self._wire.close()
            return self.handle_return_value(None, StatusCode.success)
        opened = self._opened.pop(session, None)
        # A handle never comes again.
        self._last_status_in_session.pop(session, None)
        if opened is not None:
            # Where the bench is gone, what was open is, too.
            with contextlib.suppress(EdgedVisaError, SessionGone):
                opened.close(self._session.id)
        return self.handle_return_value(None, StatusCode.success)

    # A unit

    def write(self, session: Any, data: bytes) -> tuple[int, StatusCode]:
        """Send bytes."""
        return self._do(session, lambda opened: opened.write(bytes(data))), self._ok(session)

    def read(self, session: Any, count: int) -> tuple[bytes, StatusCode]:
        """The next bytes."""
        opened = self._of(session)
        # A block with many termchars in it comes in as many pieces: what is here is given at once.
        if opened.waiting:
            data, status = opened.read(count)
        else:
            data, status = self._told(session, opened, lambda unit: unit.read(count))
        return data, self.handle_return_value(session, status)

    buffer_write = write
    buffer_read = read

    def read_stb(self, session: Any) -> tuple[int, StatusCode]:
        """The status byte."""
        return self._do(session, OpenResource.stb), self._ok(session)

    def clear(self, session: Any) -> StatusCode:
        """Device clear."""
        self._do(session, OpenResource.clear)
        return self._ok(session)

    def assert_trigger(self, session: Any, protocol: constants.TriggerProtocol) -> StatusCode:
        """Group execute trigger."""
        self._do(session, OpenResource.trigger)
        return self._ok(session)

    def flush(self, session: Any, mask: constants.BufferOperation) -> StatusCode:
        """Forget what was read and not taken; what was written has gone out."""
        if mask & DISCARDS_READS:
            self._do(session, OpenResource.flush_reads)
        return self._ok(session)

    def lock(
        self,
        session: Any,
        lock_type: constants.Lock,
        timeout: int,
        requested_key: str | None = None,
    ) -> tuple[str, StatusCode]:
        """Have a unit alone: a lease of the bench, kept until it is unlocked.

        The key of a lock opens it to another program that asks for it with that key.
        """
        wait_ms = 86_400_000 if timeout == constants.VI_TMO_INFINITE else max(0, timeout or 0)
        is_shared = lock_type == constants.Lock.shared
        lease = (requested_key or "") if is_shared else ""
        key = self._do(session, lambda opened: opened.lock(wait_ms, lease))
        self._renew_from_now_on()
        return key, self._ok(session)

    def unlock(self, session: Any) -> StatusCode:
        """Give it back."""
        if not self._of(session).locks:
            raise EdgedVisaError(StatusCode.error_session_not_locked, "It is not locked.")
        self._do(session, OpenResource.unlock)
        return self._ok(session)

    def get_attribute(self, session: Any, attribute: Any) -> tuple[Any, StatusCode]:
        """VISA's attributes, as this program set them."""
        if session == MANAGER:
            raise EdgedVisaError(StatusCode.error_nonsupported_attribute)
        opened = self._of(session)
        if attribute == Attribute.asrl_avalaible_number:
            return opened.waiting, self._ok(session)
        if attribute == Attribute.resource_lock_state:
            state = constants.AccessModes
            held = state.exclusive_lock if opened.locks else state.no_lock
            return held, self._ok(session)
        if attribute in opened.attributes:
            return opened.attributes[attribute], self._ok(session)
        known = attributes.AttributesByID.get(attribute)
        default = getattr(known, "default", None)
        if known is None or default in (None, attributes.NotAvailable):
            raise EdgedVisaError(StatusCode.error_nonsupported_attribute)
        return default, self._ok(session)

    def set_attribute(self, session: Any, attribute: Any, attribute_state: Any) -> StatusCode:
        """Kept for this program; how the wire is worked stays the bench's affair."""
        self._of(session).attributes[attribute] = attribute_state
        return self._ok(session)

    # What is not offered

    def disable_event(self, session: Any, event_type: Any, mechanism: Any) -> StatusCode:
        """None is ever enabled."""
        return self._ok(session)

    def discard_events(self, session: Any, event_type: Any, mechanism: Any) -> StatusCode:
        """There are none."""
        return self._ok(session)

    def enable_event(
        self, session: Any, event_type: Any, mechanism: Any, context: Any = None
    ) -> StatusCode:
        """Not offered."""
        raise not_offered("An event (ask read_stb instead)")

    def wait_on_event(self, session: Any, in_event_type: Any, timeout: int) -> Any:
        """Not offered."""
        raise not_offered("An event (ask read_stb instead)")

    def install_handler(
        self, session: Any, event_type: Any, handler: Any, user_handle: Any = None
    ) -> Any:
        """Not offered."""
        raise not_offered("A handler of events")

    def gpib_control_ren(self, session: Any, mode: Any) -> StatusCode:
        """Not offered: the bench keeps its instruments in remote."""
        raise not_offered("The remote line")

    def gpib_send_ifc(self, session: Any) -> StatusCode:
        """Not offered."""
        raise not_offered("Interface clear")

    def gpib_command(self, session: Any, data: bytes) -> tuple[int, StatusCode]:
        """Not offered."""
        raise not_offered("A command of the bus")

    # How it is done

    def _do(self, session: Any, work: Callable[[OpenResource], T]) -> T:
        """Have a unit do something; open it again where the bench has forgotten it."""
        return self._told(session, self._of(session), work)

    def _live(self, opened: OpenResource, work: Callable[[OpenResource], T]) -> T:
        for _ in range(2):
            known = self._session.id_for(self._wire)
            try:
                opened.come_to(known)
                return work(opened)
            except SessionGone:
                # Nothing was done: who does not know the session does nothing in it.
                self._session.forget(known)
            except EdgedVisaError as error:
                if error.reason != CLOSED_THERE:
                    raise
                opened.closed_there()
        raise connection_lost("The bench forgets this program at once.")

    def _told(self, session: Any, opened: OpenResource, work: Callable[[OpenResource], T]) -> T:
        """Keep what went wrong as VISA's last status."""
        try:
            return self._live(opened, work)
        except VisaIOError as error:
            self._last_status = StatusCode(error.error_code)
            self._last_status_in_session[session] = self._last_status
            raise

    def _ok(self, session: Any) -> StatusCode:
        return self.handle_return_value(session, StatusCode.success)

    def _of(self, session: Any) -> OpenResource:
        opened = self._opened.get(session)
        if opened is None:
            raise EdgedVisaError(StatusCode.error_invalid_object)
        return opened

    def _list(self) -> list[dict[str, Any]]:
        for _ in range(2):
            known = self._session.id_for(self._wire)
            try:
                units: list[dict[str, Any]] = self._wire.call(known, "edged/visa.list")["units"]
            except SessionGone:
                self._session.forget(known)
                continue
            self._units = time.monotonic(), units
            return units
        raise connection_lost("The bench forgets this program at once.")

    def _address(self, name: str) -> tuple[str, str]:
        """The VISA name of a unit, and its alias; a name that nobody bears stays what it is."""
        asked_at, units = self._units
        if time.monotonic() - asked_at > KEEP_UNITS_S:
            units = self._list()
        for unit in units:
            bears = (unit["name"], unit["instrument_id"], unit["alias"], unit["serial"])
            if name in bears or name in unit["addresses"]:
                is_named = name in unit["addresses"]
                return name if is_named else str(unit["addresses"][0]), str(unit["alias"])
        return name, ""

    def _renew_from_now_on(self) -> None:
        if self._renewing is None or not self._renewing.is_alive():
            self._renewing = threading.Thread(target=self._renew, name="edged locks", daemon=True)
            self._renewing.start()

    def _renew(self) -> None:
        """Keep every lock while it is held; ends with the last of them."""
        wire = Wire(self._bench)
        while any(opened.locks for opened in self._opened.values()):
            if self._closing.wait(RENEW_S):
                break
            for opened in list(self._opened.values()):
                if opened.locks:
                    try:
                        opened.renew(wire)
                    except (EdgedVisaError, SessionGone):
                        # The next call of the program is told why.
                        continue
        wire.close()
