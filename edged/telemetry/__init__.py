"""OpenTelemetry: spans and durations of the MCP endpoint's operations, sent to a collector.

Asked for by the standard's own environment variables, and by nothing else; while nobody asks, none
of it is imported and nothing calls it. Read ``settings`` (what the variables ask for), then
``conventions`` (names and attributes, pure), then ``spans``, the only module that knows the SDK.
"""
