"""``tensorbus up``: the processes of a file, started, watched and ended together."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorbus._cli.options import Domain, Json
from tensorbus._cli.output import fail
from tensorbus._cli.records import print_record

if TYPE_CHECKING:
    from tensorbus._up.output import Style
    from tensorbus._up.program import Plan

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = """\b
Examples:
  tensorbus up pipeline.toml
  tensorbus up --check pipeline.toml
  tensorbus up pipeline.toml --log-dir logs --json
  tensorbus up --watch pipeline.toml
  tensorbus up --systemd ~/.config/systemd/user pipeline.toml"""


@app.command(epilog=_EXAMPLES)
def up(
    file: Annotated[Path, typer.Argument(help="The file of the pipeline.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Check the file and print the graph; start nothing.")
    ] = False,
    log_dir: Annotated[
        Path | None, typer.Option(help="A folder for a file of each process.", metavar="FOLDER")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Start a process again when one of its files changes.")
    ] = False,
    systemd: Annotated[
        Path | None,
        typer.Option(
            help="Write units of systemd that do the same to a folder; start nothing.",
            metavar="FOLDER",
        ),
    ] = None,
    compose: Annotated[
        Path | None,
        typer.Option(
            help="Write a file of Compose that runs the same in containers; start nothing.",
            metavar="FILE",
        ),
    ] = None,
    domain: Domain = None,
    as_json: Json = False,
) -> None:
    """Start the processes of a file, keep them alive, and end them together.

    Ctrl-C ends them in order, and once more at once. The exit status is 1 if a process has failed.
    """
    from tensorbus._up.guard import run
    from tensorbus._up.schema import load

    plan = load(file, domain)
    if check:
        raise typer.Exit(_check(plan, as_json))
    if systemd:
        raise typer.Exit(_write_units(plan, systemd))
    if compose:
        raise typer.Exit(_write_compose(plan, compose))
    if watch and find_spec("watchfiles") is None:
        fail("needs watchfiles: pip install 'tensorbus[watch]'")
    sys.stdout.flush()
    style: Style = "json" if as_json else "colour" if sys.stdout.isatty() else "plain"
    raise typer.Exit(run(file, style=style, log_folder=log_dir, domain=domain, watch=watch))


def _check(plan: Plan, as_json: bool) -> int:
    """Prints the graph. Returns the exit status."""
    from tensorbus._up import graph

    missing = _missing(plan)
    if as_json:
        for each in plan.programs:
            print_record("declared_process", graph.declared(each))
    else:
        for line in graph.shown(plan):
            print(line)
    return 1 if missing else 0


def _missing(plan: Plan) -> bool:
    """Names the programs and folders that do not exist; False if all do."""
    from tensorbus._up.schema import missing_programs

    missing = [*missing_programs(plan)]
    for problem in missing:
        print(f"tensorbus: {plan.path}: {problem}", file=sys.stderr)
    return bool(missing)


def _write_units(plan: Plan, folder: Path) -> int:
    """Writes units of systemd. Returns the exit status."""
    from tensorbus._up.deploy.systemd import lacks, units

    texts = {folder / name: os.fsencode(text) for name, text in units(plan).items()}
    if _missing(plan):
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        if path.exists() and not path.read_bytes().startswith(text.partition(b"\n")[0] + b"\n"):
            fail(f"{path} was written from another file: remove it, or rename this pipeline")
    for path, text in texts.items():
        path.write_bytes(text)
        print(path)
    if missing := [*lacks(plan)]:
        print(f"tensorbus: systemd does not check: {'; '.join(missing)}", file=sys.stderr)
    return 0


def _write_compose(plan: Plan, path: Path) -> int:
    """Writes a file of Compose. Returns the exit status."""
    from tensorbus._up.deploy.compose import compose, lacks

    text = compose(plan).encode()
    path.write_bytes(text)
    print(path)
    if missing := [*lacks(plan)]:
        print(f"tensorbus: Compose has no {'; '.join(missing)}", file=sys.stderr)
    return 0
