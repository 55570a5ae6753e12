"""A pipeline, as its file describes it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tensorbus._up.expectation import Expectation
from tensorbus._up.state import Policy

Unhealthy = Literal["report", "restart", "stop"]
OnFailure = Literal["continue", "stop"]


def absolute(domain: str) -> str:
    """A domain's name, or its path, which then depends on no working directory."""
    return os.path.abspath(domain) if "/" in domain else domain


@dataclass(frozen=True)
class Program:
    """One process of a pipeline. Times are in seconds."""

    name: str
    """Its name; with `replicas`, that of its table, a dot and a number from 1."""
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """Variables in addition to those of `tensorbus up`."""
    domain: str | None
    after: tuple[str, ...]
    provides: tuple[str, ...]
    policy: Policy
    stop_signal: int
    stop_timeout: float
    cpus: frozenset[int]
    """The processors on which it may run; empty: all."""
    nice: int
    expect: tuple[Expectation, ...]
    grace: float
    unhealthy: Unhealthy
    watch: tuple[str, ...]
    """Files, folders and patterns whose changes start it again, beside those of its command."""

    @property
    def folder(self) -> Path:
        """`cwd` without `..`, for programs that take no other paths."""
        return self.cwd.resolve() if ".." in self.cwd.parts else self.cwd

    def environment(self) -> dict[str, str]:
        """All variables of its environment.

        `python` is the Python of `tensorbus up`, and output arrives line by line.
        """
        inherited = dict(os.environ)
        own = str(Path(sys.executable).parent)
        inherited["PATH"] = os.pathsep.join([own, inherited.get("PATH", os.defpath)])
        inherited.setdefault("PYTHONUNBUFFERED", "1")
        if self.domain:
            inherited["TENSORBUS_DOMAIN"] = self.domain
        return {**inherited, **self.env}

    def find(self) -> str | None:
        """The path of its program; None if there is none."""
        program = self.command[0]
        if "/" in program:
            program = str(self.cwd / program)
        return shutil.which(program, path=self.environment()["PATH"])


@dataclass(frozen=True)
class Plan:
    """All processes of a pipeline."""

    path: Path
    name: str
    domain: str | None
    on_failure: OnFailure
    programs: tuple[Program, ...] = field(default=())
