"""All commands in Python. The module of a command is imported when the command is named."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tensorbus._cli import plain
from tensorbus._core import version

# The module that defines a command, as `app` or as a command of `app`, by the command's name.
_MODULES = {
    "topic": "pub",
    "queue": "queue",
    "recording": "recording",
    "metrics": "metrics",
    "up": "pipelines.up",
    "pipeline": "pipelines.pipeline",
    "wait": "pipelines.wait",
    "top": "screens",
    "view": "screens",
    "trace": "screens",
}


class _Commands(TyperGroup):
    """Finds the commands by their names, so that only the command that runs is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*plain.HELP, *_MODULES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in plain.HELP:
            return _plain(cmd_name)
        if cmd_name not in _MODULES:
            return None
        found: Any = typer.main.get_command(
            import_module(f"tensorbus._cli.{_MODULES[cmd_name]}").app
        )
        return found.commands[cmd_name] if cmd_name in getattr(found, "commands", ()) else found


def _plain(name: str) -> Any:
    """Wraps a command of argparse, so that help and completion include it."""
    app = typer.Typer(add_completion=False)

    @app.command(
        name,
        help=plain.HELP[name],
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": [],
        },
    )
    def run_plain(context: typer.Context) -> None:
        raise typer.Exit(plain.run([name, *context.args]))

    return typer.main.get_command(app)


app = typer.Typer(
    name="tensorbus",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tensorbus {version}")
        raise typer.Exit


@app.callback()
def tensorbus(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """The commands of `tensorbus` that need Python. `tensorbus` itself runs them.

    The exit status is 0; 1 if something was not found or has failed; 2 for a wrong command line;
    130 after Ctrl-C.
    """
