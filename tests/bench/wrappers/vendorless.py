"""A wrapper that needs a package which is not installed."""

import a_vendor_that_nobody_has

MCP_TOOL_SPECS = [{"name": "measure", "description": "Measure.", "method": "measure"}]


def measure() -> float:
    return float(a_vendor_that_nobody_has.measure())
