"""A voltage source behind scpipy's own server: parser, error queue and status are that package's.

Run in ``.venv-clients/instruments``; the one argument is its port. Its router goes by the name of
the first parameter, and reads annotations, so that they are no strings here.
"""

import sys

from scpipy.server import Context, Router, Server

router = Router()
volts = [0.0]


@router.register("*IDN?")
def name(context: Context) -> str:
    return "SCPIpy,Bench Source,7,1.5"


@router.register("SOURce:VOLTage?")
def get_voltage(context: Context) -> str:
    return f"{volts[0]:.3f}"


@router.register("SOURce:VOLTage <value>")
def set_voltage(context: Context, value: str) -> None:
    volts[0] = float(value)


@router.register("MEASure:VOLTage?")
def measure_voltage(context: Context) -> str:
    return f"{volts[0] * 0.999:.5f}"


server = Server("127.0.0.1", int(sys.argv[1]))
server.include_router(router)
server.run()
