from edged.actions.action import AT_ONCE
from edged.actions.caller import Caller, Route
from edged.tools.bench import bench_tools
from edged.tools.static import static_tools
from edged.tools.tool import ToolCall


def test_exactly_the_tools_whose_action_waits_for_nothing_answer_at_once() -> None:
    for tool in (*static_tools(), *bench_tools()):
        call = ToolCall(
            name=tool.name, arguments={}, caller=Caller(route=Route.DIRECT), action_id="a"
        )
        assert tool.answers_at_once is (type(tool.action(call)) in AT_ONCE), tool.name
