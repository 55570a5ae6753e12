"""Runs a pipeline, from the first start to the end of its last process."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tensorbus._up import graph, tree
from tensorbus._up.control import Control
from tensorbus._up.domain import DomainNames
from tensorbus._up.events import Event, ExpectationChange, LogLine, Notice
from tensorbus._up.health import Watched
from tensorbus._up.monitor import PERIOD, Monitor, Watch
from tensorbus._up.program import Plan, Program
from tensorbus._up.state import OVER, Machine, State
from tensorbus._up.supervised import Supervised

_FAILED = 1


class Supervisor:
    """All processes of a pipeline. It runs in the main thread, whose end ends them."""

    def __init__(
        self,
        plan: Plan,
        report: Callable[[Event], None],
        watch: bool = False,
        log_folder: Path | None = None,
    ) -> None:
        """
        Args:
            plan: what to run.
            report: is called with each event.
            watch: start processes again when their files change, also those that have ended. Then
                the pipeline ends by commands and signals alone.
            log_folder: a folder whose files are not watched.
        """
        self._log_folder = log_folder
        self._plan = plan
        self._watch = watch
        self._sink = report
        self.processes = {
            program.name: Supervised(program, self.report, self._later) for program in plan.programs
        }
        self._needs = graph.graph(plan.programs)
        self._domains: dict[str | None, DomainNames] = {}
        self._watches: dict[str, Watch] = {}
        self._control = Control(self.processes, self._unmet, self._problems, self.end)
        self._status = 0
        self._ending = False
        self._signalled = False
        self._over = asyncio.Event()
        self._look_is_due = False

    async def run(self, on_ready: Callable[[Path], None]) -> int:
        """Runs the pipeline. Returns its exit status.

        Args:
            on_ready: is called with the path of the socket before the first process is started.

        Raises:
            InvalidArgument: a pipeline of this name runs on the domain.
        """
        tree.adopt_orphans()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGQUIT, self.end, _FAILED, True)
        monitors: list[asyncio.Task[None]] = []
        try:
            for domain in {None, *(program.domain for program in self._plan.programs)}:
                self._domains[domain] = DomainNames(domain, self._later)
            folder = self._domains[self._plan.domain].path
            on_ready(await self._control.open(folder, self._plan.name))
            monitors = [
                asyncio.create_task(self._watch_always("expectations", each.run))
                for each in self._monitors()
            ]
            if self._watch:
                watching = self._watch_always("files", self._watch_files)
                monitors.append(asyncio.create_task(watching))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, list(signal.Signals))
            for each in self.processes.values():
                each.command(Machine.start)
            self._later()
            await self._over.wait()
        finally:
            for task in monitors:
                task.cancel()
            await self._control.close()
            for names in self._domains.values():
                names.close()
            # Only an error leaves processes here.
            tree.end_all()
        failed = any(each.state is State.FAILED for each in self.processes.values())
        return _FAILED if failed else self._status

    def end(self, status: int, at_once: bool = False) -> None:
        """Ends all processes: each before those that provide what it waits for.

        Args:
            status: the exit status, unless a process has failed.
            at_once: with SIGKILL, all at the same time.
        """
        self._status = self._status or status
        self._ending = True
        for each in self.processes.values():
            if at_once:
                each.command(Machine.kill)
            elif each.state in (State.WAITING, State.BACKING_OFF):
                each.command(Machine.stop)
        self._later()

    def report(self, event: Event) -> None:
        """Reports an event to the output and to `tensorbus pipeline logs`."""
        self._sink(event)
        if isinstance(event, LogLine):
            self._control.print_line(event)

    def _unmet(self, name: str) -> list[str]:
        """The unmet expectations of a process, each with its cause."""
        watch = self._watches.get(name)
        expected = watch.expected if watch else []
        return [f"{each.expected}: {each.cause}" for each in expected if each.cause]

    def _problems(self) -> list[str]:
        """Why the pipeline is not healthy."""
        found = []
        for name, each in self.processes.items():
            if each.state not in (State.RUNNING, State.ENDED):
                found.append(f"{name}: {each.change().text}")
            watch = self._watches.get(name)
            if watch and each.state not in _UNWATCHED:
                found += [f"{name}: {problem}" for problem in watch.problems()]
        return found

    def _on_signal(self, number: int) -> None:
        self._notice("ends at once" if self._signalled else "ends; once more ends it at once")
        self.end(128 + number, at_once=self._signalled)
        self._signalled = True

    def _notice(self, text: str) -> None:
        self.report(Notice(time.time_ns(), text))

    def _reap(self) -> None:
        """Reaps children, and orphans that became children."""
        by_pid = {each.running.pid: each for each in self.processes.values() if each.running}
        for pid, code in tree.reap():
            if pid in by_pid:
                by_pid[pid].reaped(code)
        for each in self.processes.values():
            each.settle()

    def _later(self) -> None:
        """Has `_look` called soon, once for many changes."""
        if not self._look_is_due:
            self._look_is_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Starts and stops what can be started or stopped now."""
        self._look_is_due = False
        there: dict[str | None, set[str]] = {}
        # First those that may become ready, and then those that wait for them.
        for each in sorted(self.processes.values(), key=lambda each: each.state is State.WAITING):
            if each.state in (State.WAITING, State.STARTING) and not self._ending:
                domain = each.program.domain
                if domain not in there:
                    there[domain] = self._domains[domain].now()
                before = each.state
                each.look(there[domain])
                if before is State.WAITING and each.running and each.name in self._watches:
                    self._watches[each.name].reset()
        self._control.answer_waiting()
        if self._plan.on_failure == "stop" and not (self._ending or self._watch):
            for each in self.processes.values():
                if each.state is State.FAILED:
                    self._notice(f"ends, because {each.name} has failed")
                    return self.end(_FAILED)
        left = {name: each for name, each in self.processes.items() if each.state not in OVER}
        if not left and (self._ending or not self._watch):
            self._over.set()
        elif self._ending:
            for name in graph.next_to_stop(left, self._needs):
                self.processes[name].command(Machine.stop)
        elif not self._watch and all(map(self._waits_in_vain, left.values())):
            self._notice(f"ends: no process is left that provides what {', '.join(left)} waits for")
            self.end(_FAILED if any(each.last_exit for each in left.values()) else 0)

    def _waits_in_vain(self, process: Supervised) -> bool:
        """Whether it waits for what ended processes of the file should provide, if none runs."""
        if process.state is not State.WAITING:
            return False
        found = graph.providers(process.program, self._plan.programs)
        return any(
            found[name] and not any(self.processes[each].is_stopped for each in found[name])
            for name in process.missing
        )

    async def _watch_files(self) -> None:
        from tensorbus._up.watch import Watcher

        def start_again(program: Program, path: str) -> None:
            each = self.processes[program.name]
            if not (self._ending or each.is_stopped):
                self._notice(f"{program.name}: {path} has changed")
                each.command(Machine.restart)

        watcher = Watcher(self._plan.programs, start_again, self._notice, self._log_folder)
        await watcher.run()

    async def _watch_always(self, watched: str, watch: Callable[[], Awaitable[None]]) -> None:
        """Watches until it is cancelled, also after an error, for example without a thread left."""
        last = ""
        while True:
            try:
                return await watch()
            except Exception as error:
                why = f"{watched} cannot be watched now, it is tried again: {error!r}"
            if why != last:
                self._notice(why)
            last = why
            await asyncio.sleep(PERIOD)

    def _monitors(self) -> list[Monitor]:
        """A monitor for each domain with expectations."""
        for program in self._plan.programs:
            if program.expect:
                self._watches[program.name] = Watch(program)
        return [
            Monitor(
                domain,
                [each for each in self._watches.values() if each.program.domain == domain],
                names=self._names,
                watched=lambda program: self.processes[program.name].state not in _UNWATCHED,
                provider=self._provider,
                upstream=self._upstream,
                on_change=self._on_expectation,
                on_fault=self._on_fault,
                on_tick=self._control.answer_waiting,
            )
            for domain in {each.program.domain for each in self._watches.values()}
        ]

    def _names(self) -> Mapping[int, str]:
        return {each.running.pid: name for name, each in self.processes.items() if each.running}

    def _provider(self, program: Program, subject: str) -> str:
        """What the processes do that provide a name for this one; "" if one runs, or none does."""
        found = [
            each
            for each in self.processes.values()
            if subject in each.program.provides and each.program.domain == program.domain
        ]
        if not found or any(each.state is State.RUNNING for each in found):
            return ""
        return f"{found[0].name} is {found[0].change().text}"

    def _upstream(self, program: Program) -> str:
        """What is wrong with what this process waits for, and what that waits for; "": nothing."""
        seen: set[str] = set()
        left = [program.name]
        for name in left:  # it grows
            needed = self.processes[name].program
            for found in graph.providers(needed, self._plan.programs).values():
                faults = [self._fault(each) for each in found]
                if faults and all(faults):
                    return faults[0]
                left += [each for each in found if each not in seen]
                seen.update(found)
        return ""

    def _fault(self, name: str) -> str:
        """Why a process is not well; a process that has ended by itself is."""
        each, watch = self.processes[name], self._watches.get(name)
        well = (State.RUNNING, *([] if each.is_stopped else [State.ENDED]))
        if each.state not in well:
            return f"{name} is {each.change().text}"
        if watch and each.state not in _UNWATCHED and (problems := watch.problems()):
            return f"{name}: {problems[0]}"
        return ""

    def _on_expectation(self, program: Program, watched: Watched) -> None:
        text, met = str(watched.expected), not watched.cause
        now = time.time_ns()
        self.report(ExpectationChange(program.name, now, text, met, watched.cause))

    def _on_fault(self, program: Program, watched: Watched) -> None:
        if program.unhealthy == "report" or self._ending:
            return
        if program.unhealthy == "stop":
            self._notice(f"ends, because {program.name} is not well")
            return self.end(_FAILED)
        why = f"{watched.expected} was not met"
        self.processes[program.name].command(lambda machine: machine.replace(why))


# A process that waits says itself what for.
_UNWATCHED = (State.WAITING, State.STOPPING, State.ENDED, State.FAILED)
