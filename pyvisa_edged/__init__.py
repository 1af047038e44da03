"""A PyVISA backend that reaches the instruments of a bench through ``edged``.

``pyvisa.ResourceManager("@edged")``, or ``"http://bench:8767/mcp@edged"``. Programs that know
PyVISA work as they are; what they send is held to the bench's limits, lockouts and leases, and
stands in its record. Needs PyVISA and nothing else. docs/visa.md of edged says the rest.
"""

from pyvisa_edged.highlevel import EdgedVisaLibrary
from pyvisa_edged.refusal import EdgedVisaError

__all__ = ["WRAPPER_CLASS", "EdgedVisaError", "EdgedVisaLibrary"]

__version__ = "0.1.0"

WRAPPER_CLASS = EdgedVisaLibrary
