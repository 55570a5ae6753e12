"""A file of Compose that runs a pipeline in containers (docs/tasks/up.md).

It is JSON, which is YAML, too.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tensorbus._base.errors import InvalidArgument
from tensorbus._up import graph
from tensorbus._up.program import Plan, Program, absolute
from tensorbus._up.units import text_of

_IMAGE = "${TENSORBUS_IMAGE:?an image that can run the programs}"
_BUS = "/bus"
_SERVICE = re.compile(r"[a-zA-Z0-9._-]+")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")  # JSON has them, YAML does not
_INTERVAL = "5s"  # `start_interval` needs Docker 25
_NEVER = "24h"  # so long a check may fail before the first one that succeeds


def compose(plan: Plan) -> str:
    """The text of the file.

    Raises:
        InvalidArgument: Compose has no services of these names; each line names one.
    """
    wrong = [each.name for each in plan.programs if not _SERVICE.fullmatch(each.name)]
    if wrong:
        problem = "Compose has no services of this name"
        raise InvalidArgument(
            "\n".join(f"{plan.path}: process.{name}: {problem}" for name in wrong)
        )
    needs = graph.graph(plan.programs)
    awaited = {name for each in plan.programs for name in each.after}
    services = {
        each.name: _service(plan, each, needs[each.name], awaited) for each in plan.programs
    }
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"uid={os.getuid()},mode=700"}
    file = {
        "x-tensorbus": _literal({"written-from": str(plan.path), "not-in-it": [*lacks(plan)]}),
        "name": re.sub(r"[^a-z0-9_-]", "-", plan.name.lower()).strip("_-") or "pipeline",
        "services": services,
        "volumes": {"bus": {"driver_opts": options}},
    }
    text = json.dumps(file, indent=2, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def lacks(plan: Plan) -> Iterator[str]:
    """What Compose cannot be told of a pipeline."""
    if any(each.policy.restart != "no" for each in plan.programs):
        yield "delays and limits of restarts"
    if plan.on_failure == "stop":
        yield "on_failure"
    for program in plan.programs:
        for name, found in graph.providers(program, plan.programs).items():
            if not found:
                yield f"{program.name}: after {name}"
        if program.nice:
            yield f"{program.name}: nice"
        yield from (f"{program.name}: expect {expected}" for expected in program.expect)


def _service(plan: Plan, program: Program, needs: set[str], awaited: set[str]) -> dict[str, Any]:
    service = {
        "command": program.command,
        "working_dir": str(program.folder),
        "environment": _environment(program),
        "user": f"{os.getuid()}:{os.getgid()}",
        "init": True,  # as the first process, many programs do not end by the stop signal
        "restart": program.policy.restart,
        "stop_signal": signal.Signals(program.stop_signal).name,
        "stop_grace_period": f"{text_of(program.stop_timeout)}s",
        "volumes": [*_volumes(plan, program)],
    }
    if program.cpus:
        service["cpuset"] = ",".join(map(str, sorted(program.cpus)))
    if needs:
        service["depends_on"] = {name: {"condition": "service_healthy"} for name in sorted(needs)}
    if checked := [name for name in program.provides if name in awaited]:
        service["healthcheck"] = {
            "test": ["CMD", "tensorbus", "wait", "--timeout", "0", "--", *checked],
            "interval": _INTERVAL,
            "start_period": _NEVER,
        }
    return {"image": _IMAGE, **_literal(service)}


def _environment(program: Program) -> dict[str, str]:
    domain = program.environment().get("TENSORBUS_DOMAIN") or "default"
    inside = {"TENSORBUS_DOMAIN": f"{_BUS}/{quote(absolute(domain), safe='')}"}
    return {"PYTHONUNBUFFERED": "1", **program.env, **inside}


def _volumes(plan: Plan, program: Program) -> Iterator[dict[str, Any]]:
    """The bus, and the files of the pipeline where they are now."""
    yield {"type": "volume", "source": "bus", "target": _BUS}
    folder = plan.path.parent
    other = program.folder
    for each in [folder] if other.is_relative_to(folder) else [folder, other]:
        yield {"type": "bind", "source": str(each), "target": str(each)}


def _literal(value: Any) -> Any:
    """A value in which `$` means nothing."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _literal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_literal, value)]
    return value
