"""Records what a bench answered and answers the same again: a probe of a real GPU can be repeated without one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofline.errors import BackendUnavailable, FileError, RooflineError
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.record import Device, Health
from roofline.measure import limits
from roofline.measure.bench import Bench


@dataclass
class JobLog:
    """Everything one job was asked and answered, in order."""

    work: float = 0.0
    buffer_bytes: int = 0
    failure: str = ""
    has_clock: bool = False
    times_s: list[list[float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    clocks_hz: list[float] = field(default_factory=list)


@dataclass
class Recording:
    """A whole probe as the engine saw it."""

    device: Device
    software: dict[str, str]
    environment: dict[str, str]
    warnings: list[str]
    unusable: dict[str, str | None]
    jobs: dict[str, list[JobLog]]
    health: list[Health]

    def save(self, path: Path) -> None:
        """Writes the recording as JSON."""
        import msgspec

        from roofline.machine.file import write_atomically

        write_atomically(path, msgspec.json.encode(self))


def load(path: Path) -> Recording:
    """Reads a recording; FileError if it is not one."""
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=Recording)
    except (OSError, msgspec.MsgspecError) as error:
        raise FileError(f"{path} is no recording of a probe: {error}. Record it again on the GPU.") from error


def _key(kernel: Microkernel, variant: Variant, scale: float, zeros: bool) -> str:
    return f"{kernel.ceiling} | {kernel.backend} | {variant.name} | {scale:g}{' | zeros' if zeros else ''}"


class Recorder:
    """A bench that passes everything on to another one and keeps a log."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._logs: list[tuple[Job, JobLog]] = []
        self.device, self.software, self.environment = bench.device, bench.software, bench.environment
        self.recording = Recording(
            bench.device, dict(bench.software), dict(bench.environment), [], {}, defaultdict(list), []
        )

    @property
    def warnings(self) -> list[str]:
        """The warnings of the real bench so far."""
        self.recording.warnings = list(self._bench.warnings)
        return self._bench.warnings

    def microkernels(self) -> tuple[Microkernel, ...]:
        """Those of the real bench."""
        return self._bench.microkernels()

    def unusable(self, kernel: Microkernel) -> str | None:
        """The real bench's reason."""
        reason = self._bench.unusable(kernel)
        self.recording.unusable[f"{kernel.ceiling} | {kernel.backend}"] = reason
        return reason

    def compile(self, kernels: Sequence[Microkernel], variants: int) -> None:
        """Compiles for real; leaves no trace in the log."""
        self._bench.compile(kernels, variants)

    def rest(self, seconds: float) -> None:
        """Rests for real."""
        self._bench.rest(seconds)

    def prepare(self, kernel: Microkernel, variant: Variant, scale: float, zeros: bool = False) -> Job:
        """Prepares for real; work, errors and clocks go into the log."""
        log = JobLog()
        self.recording.jobs[_key(kernel, variant, scale, zeros)].append(log)
        job: Job = _noting(log, lambda: self._bench.prepare(kernel, variant, scale, zeros))()
        log.work, log.buffer_bytes, log.has_clock = job.work, job.buffer_bytes, job.clock_hz is not None
        logged = Job(
            job.run,
            job.work,
            _noting(log, _logging(job.check, log.errors)),
            job.buffer_bytes,
            _logging(job.clock_hz, log.clocks_hz) if job.clock_hz else None,
        )
        self._logs.append((logged, log))
        return logged

    def time(self, job: Job, launches: int) -> list[float]:
        """Times for real."""
        log = next(log for known, log in reversed(self._logs) if known is job)
        times: list[float] = _noting(log, lambda: self._bench.time(job, launches))()
        log.times_s.append(times)
        return times

    @contextmanager
    def watch(self) -> Iterator[Callable[[], Health]]:
        """Watches for real."""
        with self._bench.watch() as health:
            yield _logging(health, self.recording.health)

    def limit(self, ceiling: str, health: Health) -> tuple[float, str] | None:
        """The real bench's limit."""
        return self._bench.limit(ceiling, health)

    def release(self) -> None:
        """Releases for real."""
        self._bench.release()


def _noting(log: JobLog, function: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Any:
        try:
            return function()
        except RooflineError as error:
            log.failure = str(error)
            raise

    return call


def _logging(function: Callable[[], Any], log: list[Any]) -> Callable[[], Any]:
    def call() -> Any:
        log.append(function())
        return log[-1]

    return call


class Replay:
    """A bench that answers from a recording. The engine must ask the same questions in the same order."""

    def __init__(self, recording: Recording, microkernels: tuple[Microkernel, ...]) -> None:
        self.device = recording.device
        self.software: Mapping[str, str] = recording.software
        self.environment: Mapping[str, str] = recording.environment
        self.warnings = list(recording.warnings)
        self._recording = recording
        self._microkernels = microkernels
        self._jobs = {key: iter(logs) for key, logs in recording.jobs.items()}
        self._health = iter(recording.health)
        self._played: list[tuple[Job, Iterator[list[float]], str]] = []

    def microkernels(self) -> tuple[Microkernel, ...]:
        """Those given."""
        return self._microkernels

    def unusable(self, kernel: Microkernel) -> str | None:
        """The recorded reason."""
        return self._recording.unusable.get(f"{kernel.ceiling} | {kernel.backend}", "not in the recording")

    def compile(self, kernels: Sequence[Microkernel], variants: int) -> None:
        """Nothing to do."""

    def rest(self, seconds: float) -> None:
        """Nothing to do."""

    def prepare(self, kernel: Microkernel, variant: Variant, scale: float, zeros: bool = False) -> Job:
        """The recorded job."""
        key = _key(kernel, variant, scale, zeros)
        log = next(self._jobs.get(key, iter(())), None)
        if log is None or (log.failure and not log.times_s):
            raise BackendUnavailable(
                log.failure if log else f"{key} is not in the recording"
            )
        errors, clocks = iter(log.errors), iter(log.clocks_hz)

        def check() -> float:
            error = next(errors, None)
            if error is None:
                raise BackendUnavailable(log.failure or "the recording holds no further check: record the probe again")
            return error

        job = Job(
            lambda _: None,
            log.work,
            check,
            log.buffer_bytes,
            (lambda: next(clocks)) if log.has_clock else None,
        )
        self._played.append((job, iter(log.times_s), log.failure))
        return job

    def time(self, job: Job, launches: int) -> list[float]:
        """The recorded times; refuses if the engine asks for another number of launches than was recorded."""
        recorded, failure = next((times, why) for known, times, why in reversed(self._played) if known is job)
        times = next(recorded, None)
        if times is None and failure:
            raise BackendUnavailable(failure)
        if times is None or len(times) != launches:
            have = "no more" if times is None else len(times)
            raise FileError(
                f"The engine asks for {launches} launches, the recording has {have}: record the probe again."
            )
        return times

    @contextmanager
    def watch(self) -> Iterator[Callable[[], Health]]:
        """The recorded sensors."""
        yield lambda: next(self._health)

    def limit(self, ceiling: str, health: Health) -> tuple[float, str] | None:
        """Derived from the recorded clocks."""
        return limits.limit(self.device, ceiling, health)

    def release(self) -> None:
        """Nothing to do."""
