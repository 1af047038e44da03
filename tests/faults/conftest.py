"""What the long tests share."""

from collections.abc import Iterator

import pytest
import pyvisa

from tests.bench.prepared import SOCKET


@pytest.fixture(scope="session", autouse=True)
def usb_library_is_loaded() -> None:
    """libusb opens a netlink socket for the life of the process; no test is to blame for it."""
    pyvisa.ResourceManager("@py").close()


@pytest.fixture(scope="module", autouse=True)
def engines_import_what_they_need() -> Iterator[None]:
    """What a start takes, in time and in memory, counts here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(SOCKET, raising=False)
        yield
