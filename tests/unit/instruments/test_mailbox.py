import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Conflict, ErrorCode, Failed
from edged.instruments.identify import identify
from edged.instruments.mailbox import CAPACITY, Job, Mailbox, Priority
from tests.bench.job_owner import NoActor
from tests.bench.scripted_link import ScriptedLink


def a_job(loop: asyncio.AbstractEventLoop, priority: Priority, name: str = "job") -> Job:
    return Job(
        make=identify,
        priority=priority,
        name=name,
        deadline=1.0,
        unit=0,
        future=loop.create_future(),
        owner=NoActor(ScriptedLink.wake, loop),
    )


@pytest.fixture
def loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@given(st.lists(st.sampled_from(Priority), max_size=30), st.sets(st.integers(0, 29)))
def test_jobs_come_by_priority_then_by_age_without_the_withdrawn(
    priorities: list[Priority], withdrawn: set[int]
) -> None:
    loop = asyncio.new_event_loop()
    mailbox = Mailbox()
    jobs = [a_job(loop, priority) for priority in priorities]
    for job in jobs:
        mailbox.put(job)
    for place in withdrawn & set(range(len(jobs))):
        assert mailbox.withdraw(jobs[place])
    stay = [job for place, job in enumerate(jobs) if place not in withdrawn]
    taken = [mailbox.take(0) for _ in stay]
    assert taken == sorted(stay, key=lambda job: (job.priority, jobs.index(job)))
    assert len(mailbox) == 0
    loop.close()


def test_a_full_mailbox_says_busy_and_still_takes_safe_jobs(
    loop: asyncio.AbstractEventLoop,
) -> None:
    mailbox = Mailbox()
    for _ in range(CAPACITY):
        mailbox.put(a_job(loop, Priority.MEASURE))
    with pytest.raises(Conflict) as caught:
        mailbox.put(a_job(loop, Priority.COMMAND, "set_voltage"))
    assert caught.value.code is ErrorCode.BUSY
    assert "set_voltage" in caught.value.message
    safe = a_job(loop, Priority.SAFE)
    mailbox.put(safe)
    assert mailbox.safe
    assert mailbox.take(0) is safe


def test_taking_from_an_empty_mailbox_ends_with_its_time_or_a_nudge() -> None:
    mailbox = Mailbox()
    assert mailbox.take(0) is None
    mailbox.nudge()
    assert mailbox.take(None) is None


def test_a_job_put_back_is_the_next_one(loop: asyncio.AbstractEventLoop) -> None:
    mailbox = Mailbox()
    first, second = a_job(loop, Priority.COMMAND), a_job(loop, Priority.COMMAND)
    mailbox.put(first)
    mailbox.put(second)
    assert mailbox.take(0) is first
    mailbox.put_back(first)
    assert mailbox.drain() == [first, second]


def test_a_job_under_way_cannot_be_withdrawn(loop: asyncio.AbstractEventLoop) -> None:
    mailbox = Mailbox()
    job = a_job(loop, Priority.COMMAND)
    mailbox.put(job)
    mailbox.take(0)
    assert not mailbox.withdraw(job)


async def test_results_arrive_once_and_late_ones_are_dropped() -> None:
    job = a_job(asyncio.get_running_loop(), Priority.COMMAND)
    job.deliver("first")
    job.fail(Failed("second"))
    assert await job.future == "first"


def test_a_result_for_a_loop_that_is_closed_harms_nobody() -> None:
    loop = asyncio.new_event_loop()
    job = a_job(loop, Priority.COMMAND)
    loop.close()
    job.deliver("late")
