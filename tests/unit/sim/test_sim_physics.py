import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged_sim.physics import RISE_S, Node, Resistor, Sink, SinkKind, SupplyOutput, World

COLD = Resistor(ohms=10.0, lead_ohms=0.0, tempco_per_k=0.0)


def powered(volts: float, amps: float, load: Resistor = COLD) -> Node:
    node = Node("n", load=load, source=SupplyOutput(volts=volts, amps_limit=amps, is_on=True))
    node.advance(0.0)
    return node.advance(1.0)


def test_below_the_limit_the_voltage_is_as_set() -> None:
    node = powered(5.0, 1.0)
    assert node.volts == pytest.approx(5.0)
    assert node.amps == pytest.approx(0.5)
    assert not node.is_limiting


def test_above_the_limit_the_current_is_as_limited() -> None:
    node = powered(20.0, 1.0)
    assert node.amps == pytest.approx(1.0)
    assert node.volts == pytest.approx(10.0)
    assert node.is_limiting


def test_leads_drop_some_of_the_voltage_on_its_way_to_the_load() -> None:
    node = powered(5.0, 1.0, Resistor(ohms=10.0, lead_ohms=0.5, tempco_per_k=0.0))
    assert node.terminal_volts == pytest.approx(5.0)
    assert node.volts == pytest.approx(5.0 / 1.05)


def test_the_output_settles_with_its_time_constant() -> None:
    node = Node("n", load=COLD, source=SupplyOutput(volts=5.0, amps_limit=1.0, is_on=True))
    node.advance(0.0)
    assert node.advance(RISE_S).volts == pytest.approx(5.0 * (1 - math.exp(-1)))


def test_a_load_that_works_grows_warm_and_drifts() -> None:
    node = Node(
        "n", load=Resistor(ohms=10.0), source=SupplyOutput(volts=10.0, amps_limit=3.0, is_on=True)
    )
    node.advance(0.0)
    early = node.advance(1.0).load_ohms
    late = node.advance(300.0).load_ohms
    assert 10.0 < early < late < 10.5


def test_an_electronic_load_takes_its_current_beside_the_resistor() -> None:
    node = powered(5.0, 3.0)
    node.sinks["load"] = Sink(kind=SinkKind.CURRENT, value=1.0, is_on=True)
    assert node.advance(2.0).amps == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("kind", "value", "amps"),
    [(SinkKind.RESISTANCE, 5.0, 1.0), (SinkKind.POWER, 10.0, 2.0), (SinkKind.VOLTAGE, 9.0, 0.0)],
)
def test_each_kind_of_electronic_load_keeps_its_own(
    kind: SinkKind, value: float, amps: float
) -> None:
    node = powered(5.0, 3.2, Resistor(ohms=1e9, lead_ohms=0.0))
    node.sinks["load"] = Sink(kind=kind, value=value, is_on=True)
    assert node.advance(2.0).amps == pytest.approx(amps, abs=1e-6)


def test_over_voltage_switches_the_source_off_and_says_why() -> None:
    node = powered(5.0, 1.0)
    node.source.over_voltage = 4.0
    node.advance(1.1)
    assert not node.source.is_on
    assert node.source.tripped == "over_voltage"
    assert node.amps == 0.0


def test_over_current_switches_the_source_off_and_says_why() -> None:
    node = powered(5.0, 1.0)
    node.source.over_current = 0.4
    node.advance(1.1)
    assert node.source.tripped == "over_current"


@given(
    st.floats(0, 32),
    st.floats(0, 3.2),
    st.floats(0.1, 1e6),
    st.floats(0, 1),
    st.floats(0, 5),
    st.sampled_from(SinkKind),
)
def test_a_supply_never_gives_more_than_its_limits(
    volts: float, amps: float, ohms: float, lead: float, value: float, kind: SinkKind
) -> None:
    node = Node(
        "n",
        load=Resistor(ohms=ohms, lead_ohms=lead),
        source=SupplyOutput(volts=volts, amps_limit=amps, is_on=True),
    )
    node.sinks["load"] = Sink(kind=kind, value=value, is_on=True)
    node.advance(0.0)
    node.advance(100.0)
    assert node.terminal_volts <= volts * (1 + 1e-6) + 1e-6
    assert node.amps <= amps * (1 + 1e-3) + 1e-3


def test_the_first_source_drives_the_load_that_meters_see_and_others_their_own() -> None:
    world = World()
    first, _ = world.connect_source("psu1", "ch1")
    second, _ = world.connect_source("psu2", "ch1")
    assert first is world.main()
    assert second is not first


def test_what_leaves_takes_its_wires_along() -> None:
    world = World()
    world.connect_source("psu1", "ch1")
    world.connect_source("psu1", "ch2")
    world.connect_sink("load1")
    world.disconnect("psu1")
    world.disconnect("load1")
    assert set(world.describe(0.0)) == {"load1"}
    assert world.main().source is None
    assert world.main().sinks == {}


def transistor(limit_a: float = 1.0) -> tuple[World, SupplyOutput, SupplyOutput, Node]:
    """A world, its gate's and its drain's source, both on, and the drain's node."""
    world = World()
    _, gate = world.connect_source("smu1", "out")
    node, drain = world.connect_source("smu2", "out")
    world.connect_transistor("smu1", "smu2")
    for source in (gate, drain):
        source.amps_limit, source.is_on = limit_a, True
    return world, gate, drain, node


def test_a_transistors_current_depends_on_its_gate_and_saturates_in_its_drains_voltage() -> None:
    _, gate, drain, node = transistor()
    found: dict[tuple[float, float], float] = {}
    now = 0.0
    for gate.volts in (0.0, 0.4, 1.0, 1.5, 2.0):
        for drain.volts in (0.0, 0.05, 0.1, 3.0, 5.0):
            now += 1.0
            node.advance(now)
            found[gate.volts, drain.volts] = node.advance(now + 0.5).amps
    assert all(found[volts, 0.0] == 0.0 for volts in (0.0, 0.4, 1.0, 1.5, 2.0))
    assert found[0.0, 5.0] < 1e-9
    # Below the threshold it falls by a decade in 77 mV.
    assert found[0.4, 5.0] / found[0.0, 5.0] == pytest.approx(10 ** (0.4 / 0.0763), rel=0.05)
    # A resistor at a small drain voltage, and nearly a current source at a large one.
    assert found[2.0, 0.1] / found[2.0, 0.05] == pytest.approx(2.0, abs=0.1)
    assert found[2.0, 5.0] / found[2.0, 3.0] == pytest.approx(1.04, abs=0.01)
    # The square law.
    assert found[2.0, 5.0] / found[1.5, 5.0] == pytest.approx((1.3 / 0.8) ** 2, rel=0.02)
    assert 0.015 < found[2.0, 5.0] < 0.02


def test_a_transistors_gate_draws_nothing_and_its_drain_obeys_the_limit() -> None:
    world, gate, drain, node = transistor(limit_a=1e-3)
    gate.volts, drain.volts = 2.0, 5.0
    node.advance(0.0)
    node.advance(1.0)
    assert node.amps == pytest.approx(1e-3)
    assert node.is_limiting
    assert world.main().volts == pytest.approx(2.0)
    assert world.main().amps < 1e-9


def test_a_transistor_whose_gate_goes_closes_and_whose_ends_are_none_is_refused() -> None:
    world, gate, drain, node = transistor()
    gate.volts, drain.volts = 2.0, 5.0
    node.advance(1.0)
    world.disconnect("smu1")
    node.advance(2.0)
    assert node.advance(4.0).amps < 1e-9
    with pytest.raises(Invalid, match="smu1 has no output"):
        world.connect_transistor("smu1", "smu2")
    with pytest.raises(Invalid, match="both be on smu2"):
        world.connect_transistor("smu2", "smu2")
