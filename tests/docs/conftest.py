"""What the tests of pages share."""

from tests.flows.conftest import usb_library_is_loaded

__all__ = ["usb_library_is_loaded"]
