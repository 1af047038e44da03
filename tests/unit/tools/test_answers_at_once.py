from edged.actions.caller import Caller, Route
from edged.actions.tool import ToolCall
from edged.operations.table import bench_tools, static_tools


def test_exactly_the_tools_whose_action_waits_for_nothing_answer_at_once() -> None:
    for tool in (*static_tools(), *bench_tools()):
        call = ToolCall(
            name=tool.name, arguments={}, caller=Caller(route=Route.DIRECT), action_id="a"
        )
        assert tool.answers_at_once is tool.action(call).answers_at_once, tool.name
