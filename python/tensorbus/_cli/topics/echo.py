"""``tensorbus topic echo``: prints the samples of a topic, received with best effort."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, NoReturn

import typer

from tensorbus._base.errors import Timeout as TimedOut
from tensorbus._cli.options import Count, Domain, Json, Topic
from tensorbus._cli.output import fail
from tensorbus._cli.records import print_record
from tensorbus._cli.values import LIBRARY, NotThere, cells_of, data_of, field_of, json_of, lines_of
from tensorbus._inspection.units import shown
from tensorbus._topics.listing import list_topics
from tensorbus._topics.preview import fields_of, is_tensor, pixels
from tensorbus._topics.sample import Sample, format_age
from tensorbus._topics.subscriber import Subscriber

EXAMPLES = """\b
Examples:
  tensorbus topic echo camera/image --once --image
  tensorbus topic echo state --field pose.position --csv > positions.csv
  tensorbus topic echo state --json | jq .data.id"""

Patience = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0, help="End after this many seconds without a sample.", metavar="S"
    ),
]


def echo(
    topic: Topic,
    count: Count = None,
    once: Annotated[bool, typer.Option("--once", help="The same as --count 1.")] = False,
    field: Annotated[
        str | None, typer.Option(help="Only this field, as in pose.position or poses.0.")
    ] = None,
    image: Annotated[
        bool | None,
        typer.Option("--image/--no-image", help="Draw images; by default on a terminal."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    patience: Patience = None,
    domain: Domain = None,
) -> None:
    """Print the samples of a topic; only the newest, if they come faster than they are printed.

    No publisher waits for this command. A tensor is shown by its dtype, shape, device, a few
    values, minimum, mean, maximum and the number of NaNs. With --json, each line is a sample.
    """
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other")
    if once and count not in (None, 1):
        raise typer.BadParameter("--once and --count exclude each other")
    show: Callable[[Sample[Any], Any], None]
    if as_json:
        show = _show_json
    elif as_csv:
        show = _Csv(field or "").show
    else:
        drawn = sys.stdout.isatty() if image is None else image
        show = _Text(drawn, image is True).show
    for sample in _samples_of(topic, 1 if once else count, patience, domain):
        data = data_of(sample)
        try:
            show(sample, data if field is None else field_of(data, field))
        except NotThere:
            fail(f"a sample of {topic!r} has no field {field!r}")


@contextmanager
def monitor(topic: str, domain: str | None, depth: int) -> Iterator[Subscriber[Any]]:
    """Subscribes with best effort, so that no publisher waits. The topic may be published later."""
    with Subscriber[Any](
        topic, depth=depth, reliable=False, library=LIBRARY, domain=domain
    ) as subscriber:
        if not any(each.name == topic for each in list_topics(domain)):
            print(f"tensorbus: topic {topic!r} has no publisher yet", file=sys.stderr)
        yield subscriber


def fail_for_silence(topic: str, patience: float) -> NoReturn:
    """Ends the command with an error: no sample arrived in `patience` seconds."""
    fail(f"no sample on {topic!r} in {patience:g} s")


def _samples_of(
    topic: str, count: int | None, patience: float | None, domain: str | None
) -> Iterator[Sample[Any]]:
    with monitor(topic, domain, 1) as subscriber:
        received = 0
        while count is None or received < count:
            try:
                yield subscriber.receive(patience)
            except TimedOut:
                fail_for_silence(topic, patience or 0.0)
            received += 1


def _show_json(sample: Sample[Any], data: Any) -> None:
    header = sample.header
    machine = header.origin.machine if header.origin else ""
    print_record("sample", {**header._asdict(), "machine": machine, "data": json_of(data)})


class _Csv:
    """Prints a line for each sample, with the columns of the first sample.

    On a terminal, `shown` replaces control characters in texts.
    """

    def __init__(self, name: str) -> None:
        self._name = name  # of the only field that is shown; "": all fields are shown
        self._columns: list[str] = []
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._is_terminal = sys.stdout.isatty()

    def show(self, sample: Sample[Any], data: Any) -> None:
        cells = cells_of(data, self._name)
        if not self._columns:
            self._columns = list(cells)
            self._write(["sequence", "timestamp_ns", *self._columns])
        header = sample.header
        values = [cells.get(column) for column in self._columns]
        self._write([header.sequence, header.timestamp_ns, *values])
        sys.stdout.flush()

    def _write(self, cells: list[Any]) -> None:
        if self._is_terminal:
            cells = ["" if cell is None else shown(str(cell)) for cell in cells]
        self._writer.writerow(cells)


class _Text:
    def __init__(self, drawn: bool, coloured: bool) -> None:
        self._drawn = drawn
        self._coloured = coloured  # even if standard output is not a terminal

    def show(self, sample: Sample[Any], data: Any) -> None:
        header = sample.header
        origin = f" from {shown(header.origin.machine)}" if header.origin else ""
        age = format_age(time.time_ns() - header.timestamp_ns)
        print(f"{shown(header.topic)} #{header.sequence}{origin}, {age} old")
        for line in lines_of(data):
            print(line)
        if self._drawn:
            self._draw(data)
        print("---", flush=True)

    def _draw(self, data: Any) -> None:
        from tensorbus._cli.topics.image import draw

        found = fields_of(data)
        for value in [data] if found is None else found.values():
            if is_tensor(value):
                encoding = None if found is None else found.get("encoding")
                draw(partial(pixels, value, encoding=encoding), self._coloured)
