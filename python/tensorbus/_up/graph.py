"""Which process of a pipeline waits for which other one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from tensorbus._up.program import Plan, Program


def providers(program: Program, programs: Iterable[Program]) -> dict[str, list[str]]:
    """For each name in `after`, the processes of the same domain that provide it."""
    others = [
        other for other in programs if other is not program and other.domain == program.domain
    ]
    return {
        name: [other.name for other in others if name in other.provides] for name in program.after
    }


def graph(programs: Collection[Program]) -> dict[str, set[str]]:
    """For each process, those that provide what it waits for."""
    return {
        program.name: {name for names in providers(program, programs).values() for name in names}
        for program in programs
    }


def problems(programs: Collection[Program]) -> Iterator[str]:
    """Why the processes cannot all start."""
    by_name = {program.name: program for program in programs}
    for program in programs:
        for name, found in providers(program, programs).items():
            if name in program.provides:
                yield f"process.{program.name}: it waits for {name}, which it provides itself"
            elif name in by_name and not found:
                provided = ", ".join(by_name[name].provides)
                what = f"it provides {provided}" if provided else "give it a key `provides`"
                yield f"process.{program.name}: after: {name} is a process of this file: {what}"
    try:
        TopologicalSorter(graph(programs)).prepare()
    except CycleError as error:
        cycle = " waits for ".join(reversed(error.args[1]))
        yield f"no process of this cycle can start: {cycle}"


def next_to_stop(running: Collection[str], needs: dict[str, set[str]]) -> set[str]:
    """Of these processes, those that provide nothing to others of them.

    >>> needs = {"sink": {"model"}, "model": {"camera"}, "camera": set()}
    >>> next_to_stop({"camera", "model", "sink"}, needs), next_to_stop({"camera"}, needs)
    ({'sink'}, {'camera'})
    """
    needed = {name for each in running for name in needs[each]}
    return {name for name in running if name not in needed}


def declared(program: Program) -> dict[str, object]:
    """A process as the file describes it, for JSON."""
    return {
        "process": program.name,
        "command": program.command,
        "after": program.after,
        "provides": program.provides,
        "expectations": [str(each) for each in program.expect],
    }


def shown(plan: Plan) -> Iterator[str]:
    """The graph as lines of text, in the order of starting."""
    by_name = {program.name: program for program in plan.programs}
    for name in TopologicalSorter(graph(plan.programs)).static_order():
        program = by_name[name]
        yield f"{name}: {' '.join(program.command)}"
        for waits, found in providers(program, plan.programs).items():
            source = ", ".join(found) or "no process of this file: it must come from outside"
            yield f"  after {waits} <- {source}"
        for provided in program.provides:
            yield f"  provides {provided}"
        for watched in program.watch:
            yield f"  watches {watched}"
        for expected in program.expect:
            yield f"  expects {expected}, grace {program.grace:g} s"
