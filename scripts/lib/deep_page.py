"""Puts what a part of scripts/deep found into docs/internals/evidence.md, and prints it.

    python scripts/lib/deep_page.py PART RESULT SECONDS LOG PAGE    PAGE: true; false to print only

The table stands between `<!-- deep: figures -->` and `<!-- end -->`, with one row for each part;
the rows of the other parts stay as they are.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "evidence.md"
BLOCK = re.compile(r"(<!-- deep: figures -->\n).*?(<!-- end -->)", re.DOTALL)
ORDER = [
    "asan",
    "tsan",
    "tidy",
    "models",
    "instructions",
    "kills",
    "storm",
    "ray",
    "bridge",
    "view",
    "fuzz",
    "older",
    "musl",
    "containers",
    "arm64",
    "wheels",
    "packages",
    "debian",
]
HEAD = ["part", "result", "when, commit", "took", "figures"]


def last(log: str, pattern: str) -> str:
    """The last number that the log has there, with commas; "?" where there is none."""
    found = re.findall(pattern, log, re.MULTILINE)
    return f"{int(found[-1]):,}" if found else "?"


def named(log: str, name: str) -> str:
    """The number in a line like "kills     10049"."""
    return last(log, rf"^{re.escape(name)} +(\d+)$")


def tests(log: str) -> str:
    """What ctest and pytest say in the end."""
    said = last(log, r"tests (?:passed|failed) out of (\d+)") + " C++ tests"
    for what in ("passed", "failed", "skipped"):
        if (count := last(log, rf"(\d+) {what}\b.* in [\d.]+s")) != "?":
            said += f", {count} Python tests {what}"
    return said


def repeated(log: str) -> str:
    """What ctest and pytest say in the end, where they run several times."""
    ctests = [int(each) for each in re.findall(r"tests (?:passed|failed) out of (\d+)", log)]
    said = [f"{sum(ctests):,} runs of C++ tests"] if ctests else []
    for what in ("passed", "failed", "skipped"):
        if counts := re.findall(rf"(\d+) {what}\b.* in [\d.]+s", log):
            said.append(f"{sum(map(int, counts)):,} of Python tests {what}")
    return ", ".join(said) or "no figures"


def tidy(log: str) -> str:
    return f"{len(re.findall(': (?:error|warning): ', log)):,} findings"


def models(_: str) -> str:
    """Each test of a model records how many states it went through."""
    states = 0
    reports = list((ROOT / "build" / "deep" / "models").glob("*.json"))
    for report in reports:
        for suite in json.loads(report.read_text()).get("testsuites", []):
            states += sum(int(test.get("states", 0)) for test in suite["testsuite"])
    return f"{states:,} states"


def instructions(log: str) -> str:
    """Of the table that bench/instructions.py prints."""
    changes = [float(each) for each in re.findall(r"([+-]?\d+\.\d) ?%", log)]
    return f"{len(changes)} paths, at most {max(changes):+.1f} %" if changes else "no figures"


def kills(log: str) -> str:
    return (
        f"{named(log, 'kills')} kills, {named(log, 'samples checked')} samples checked, "
        f"{named(log, 'wrong samples')} wrong; {named(log, 'calms, as before the storm')} calms; "
        f"seed {seed(log)}"
    )


def storm(log: str) -> str:
    return (
        f"{named(log, 'killed')} kills, {named(log, 'stopped')} stops, "
        f"{named(log, 'workers killed')} workers of a pool; {named(log, 'items')} items, "
        f"{named(log, 'deliveries')} deliveries, {named(log, 'delivered again, by the rules')} of "
        f"them again, {named(log, 'lost, and counted')} lost and counted, "
        f"{named(log, 'wrong')} wrong; {named(log, 'balances')} balances; seed {seed(log)}; "
        f"{last(log, r'^recordings: ([0-9]+) kills')} kills of recorders and players"
    )


def ray(log: str) -> str:
    """The line that the storm ends with."""
    said = re.findall(r"^actors of Ray: (.*)$", log, re.MULTILINE)
    return str(said[-1]) if said else "no figures"


def bridge(log: str) -> str:
    storms = re.split(r"^(?=seed )", log, flags=re.MULTILINE)[1:]
    return "; ".join(
        f"{named(storm, 'faults')} faults, {named(storm, 'connections lost')} connections and "
        f"{named(storm, 'sessions ended')} sessions ended, {checked_in(storm)} checked, "
        f"{named(storm, 'wrong')} wrong, seed {seed(storm)}"
        for storm in storms
    )


def checked_in(storm: str) -> str:
    if "once: got" in storm:
        return f"{named(storm, 'once: got')} and {named(storm, 'again: got')} items of queues"
    return f"{named(storm, 'samples checked')} samples, {named(storm, 'bytes checked')} bytes"


def seed(log: str) -> str:
    return named(log, "seed").replace(",", "")


def view(log: str) -> str:
    return last(log, r"(\d+) passed\b.* in [\d.]+s") + " tests passed"


def fuzz(log: str) -> str:
    """Of the table that scripts/fuzz prints: target, executions, per second, edges, findings."""
    rows = re.findall(r"^(\w+) +(\d+) +(\d+) +(\d+) +(\d+)$", log, re.MULTILINE)
    executions, edges, findings = (sum(int(row[i]) for row in rows) for i in (1, 3, 4))
    return f"{len(rows)} targets, {executions:,} executions, {edges:,} edges, {findings} findings"


def debian(log: str) -> str:
    release = re.findall(r"^-- debootstrap of (\S+)", log, re.MULTILINE)
    return f"{tests(log)}; {' '.join(release)}"


def packages(log: str) -> str:
    debs = len(set(re.findall(r"(\S+)\.deb$", log, re.MULTILINE)))
    return f"{debs} Debian packages" + ("; Conan and FetchContent" if "-- Conan" in log else "")


def wheels(log: str) -> str:
    """Of scripts/wheels and scripts/try_wheels."""
    built = len(re.findall(r"^tensorbus-\S+\.whl ", log, re.MULTILINE))
    systems = re.findall(r"^-- (bullseye|sid|arm64)$", log, re.MULTILINE)
    programs = sum(map(int, re.findall(r"^(\d+) C tests passed$", log, re.MULTILINE)))
    return f"{built} wheels; {', '.join(systems)}: {programs} C tests, {repeated(log)}"


FIGURES: dict[str, Callable[[str], str]] = {
    "asan": tests,
    "tsan": tests,
    "tidy": tidy,
    "models": models,
    "instructions": instructions,
    "kills": kills,
    "storm": storm,
    "ray": ray,
    "bridge": bridge,
    "view": view,
    "fuzz": fuzz,
    "older": repeated,
    "musl": repeated,
    "containers": repeated,
    "arm64": repeated,
    "wheels": wheels,
    "packages": packages,
    "debian": debian,
}


def git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()


def commit() -> str:
    """What was run. The page itself may have been written by the part before."""
    changed = git("status", "--porcelain", "--", ".", f":!{PAGE.relative_to(ROOT)}")
    return f"`{git('rev-parse', '--short', 'HEAD')}`" + (" and changes" if changed else "")


def row(part: str, result: str, seconds: int, log: str) -> list[str]:
    when = time.strftime("%d %B %Y").lstrip("0")
    took = f"{seconds // 60} min {seconds % 60} s"
    return [f"`{part}`", result, f"{when}, {commit()}", took, FIGURES[part](log)]


def with_row(page: str, new: list[str]) -> str:
    """The page, with this row in place of the one of the same part."""
    block = BLOCK.search(page)
    if block is None:
        raise SystemExit(f"error: {PAGE} has no '<!-- deep: figures -->' with an '<!-- end -->'")
    lines = block[0].splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}
    rows[new[0]] = as_line(new)
    table = [as_line(HEAD), "|---" * len(HEAD) + "|"]
    table += [rows[f"`{part}`"] for part in ORDER if f"`{part}`" in rows]
    return (
        page[: block.start()] + block[1] + "\n".join(table) + "\n" + block[2] + page[block.end() :]
    )


def as_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    part, result, seconds, log, page = sys.argv[1:]
    new = row(part, result, int(seconds), Path(log).read_text(errors="replace"))
    if page == "true":
        PAGE.write_text(with_row(PAGE.read_text(), new))
    print(f"{part:13} {result:12} {new[3]:>12}  {new[4]}")


if __name__ == "__main__":
    main()
