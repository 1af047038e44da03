"""A wrapper whose specifications break a rule."""

MCP_TOOL_SPECS = [
    {"name": "good", "description": "Fine.", "method": "good"},
    {
        "name": "bad",
        "description": "Not fine.",
        "method": "good",
        "parameters": {"volts": {"type": "flaot"}},
    },
]


def good() -> None:
    return
