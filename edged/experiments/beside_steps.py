"""The keys of a plan beside its steps that the steps have to bear out: plots, report, resume."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from edged.experiments.model import (
    AskStep,
    AskType,
    CheckStep,
    Experiment,
    RampStep,
    before,
    way_to,
)
from edged.experiments.problem import Problems, close
from edged.profiles.model import CommandStep, ForStep, walk


def check_plots(plan: Experiment, known: Collection[str], found: Problems) -> None:
    """Every column of a picture is there."""
    for at, plot in enumerate(plan.plots):
        if not plot.map and not plot.line:
            found.add(f"plots[{at}]", "grammar", "it has neither map nor line.", "Add one.")
        for key in ("map", "line", "x", "y"):
            name = getattr(plot, key)
            if name and name not in known:
                near = close(name, known)
                found.add(
                    f"plots[{at}].{key}",
                    "unknown_column",
                    f"there is no column {name}.",
                    f"Write {near[0]}." if near else "",
                    near,
                    about=(name,),
                )


def check_report(plan: Experiment, found: Problems) -> None:
    """Files of verdicts need something that is judged."""
    report, steps = plan.report, tuple(walk(plan.steps))
    if report is None or any(
        isinstance(step, CheckStep)
        or (isinstance(step, AskStep) and step.type is AskType.PASS_FAIL)
        for step in steps
    ):
        return
    for form in report.formats:
        if form != "html":
            message = f"{form} is of checks, and the plan has none."
            remedy = f"Leave {form} out, or add a step check."
            judges = ("check", "pass_fail")
            found.add("report.formats", "no_checks", message, remedy, about=judges)


def check_resume(plan: Experiment, found: Problems) -> None:
    """Its loop can be gone on with."""
    resume = plan.resume
    if resume is None:
        return
    way = way_to(plan.steps, resume.at)
    of_units = (one for one in way[:-1] if isinstance(one, ForStep) and one.unit is not None)
    if not way:
        found.add(
            "resume.at",
            "unknown_loop",
            f"{resume.at} stands in finally, which is not repeated.",
            "Write a loop of steps.",
        )
    for loop in of_units:
        found.add(
            "resume.at",
            "inside_unit",
            f"{resume.at} stands inside of the units of {loop.name}, and a unit that was "
            "interrupted is tested again as a whole.",
            f"Write {loop.name}.",
            (loop.name,),
        )


def not_again(plan: Experiment) -> Iterator[str]:
    """What a resume does not do again, and may have to."""
    if plan.resume is not None:
        skipped = [
            step.path
            for step in before(plan.steps, plan.resume.at)
            if any(isinstance(one, CommandStep | RampStep) for one in walk((step,)))
        ]
        if skipped:
            yield f"resume: {', '.join(skipped)} would not be done again; only first steps are"
