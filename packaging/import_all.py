"""Imports every module of the installed package: all of its dependencies must be there.

Run by `deb_test` in a system with nothing but what the package asks for, with `python3 -I -`.
"""

import importlib
import pkgutil
import sys

sys.path[:0] = ["/usr/lib/edged", "/usr/lib/edged/vendor"]

# Windows' own; and the program that draws, if matplotlib (recommended) is there.
NOT_HERE = {"edged.discovery.hotplug_windows", "edged.plot.draw"}
# Reached by name or late, so that an import of edged alone does not show that it is there.
REACHED_LATE = """
    aiohttp cryptography.hazmat.primitives.asymmetric.rsa greenlet jose.jwt
    jose.backends.cryptography_backend jsonschema nats prometheus_client psutil pyvisa
    pyvisa_py.highlevel pyvisa_py.protocols.hislip rich.table ruamel.yaml segno
    serial.tools.list_ports structlog usb.backend.libusb1 zeroconf
"""

import edged  # noqa: E402
import edged_author  # noqa: E402
import edged_relay  # noqa: E402
import edged_sim  # noqa: E402

names = [
    module.name
    for package in (edged, edged_author, edged_relay, edged_sim)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if module.name not in NOT_HERE and not module.name.endswith("__main__")
]
for name in [*names, *REACHED_LATE.split()]:
    importlib.import_module(name)

import usb.backend.libusb1  # noqa: E402

if usb.backend.libusb1.get_backend() is None:
    raise SystemExit("pyusb finds no libusb")
print(f"{len(names)} modules of edged, and what they stand on")
