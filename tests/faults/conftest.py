"""What the long tests share."""

import pytest
import pyvisa


@pytest.fixture(scope="session", autouse=True)
def usb_library_is_loaded() -> None:
    """libusb opens a netlink socket for the life of the process; no test is to blame for it."""
    pyvisa.ResourceManager("@py").close()
