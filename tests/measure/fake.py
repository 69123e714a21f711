"""A synthetic device behind the engine's seam: rates, noise, clocks, sensors and failures as the test wants them."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Device, Health
from roofline.measure import limits
from roofline.measure.stopping import Effort, SettlingRule, StoppingRule

# 1000 lanes: 10 SMs at 1 GHz with the 256 flops per clock and SM of compute capability 9.0 make 2.56 TFLOP/s of fp32;
# 1000 bits at 1 GHz and two transfers per clock make 250 GB/s.
TOY = Device(
    name="Toy", kind="cuda", compute_capability="9.0", sm_count=10, memory_bus_bits=1000, boost_clock_hz=1e9,
    memory_clock_hz=1e9,
)  # fmt: skip
FP32_LIMIT = 2.56e12
DRAM_LIMIT = 2.5e11

BRIEF = Effort("brief", 5, 0.01, 0.0, SettlingRule(0.01, 0.02, 0.2), StoppingRule(0.005, 0.1, 0.4))
"""As the real efforts, without a burst."""


@dataclass
class Behaviour:
    """What one variant does. Rates are in the ceiling's unit: work a second, or seconds per unit of work."""

    rate: float
    work: float = 1e9
    fixed_s: float = 0.0
    """Time of a launch that does not depend on the work."""
    noise: object = staticmethod(lambda sample: 1.0)
    """Number of the sample on this bench → factor of its time."""
    error: object = 0.0
    """Relative error of the output, or what checking raises."""
    prepare_raises: BaseException | None = None
    time_raises: BaseException | None = None
    after: int = 0
    """Calls of `time` that succeed before `time_raises` is raised."""
    clock_hz: float | None = None
    """What the SMs count themselves."""
    buffer_bytes: int = 0
    zeros: float = 0.0
    """Rate on operands that are all zero."""
    x: float = 0.0
    """Where on a sweep it lies."""


class FakeBench:
    """`behaviours`: (ceiling, backend) → variant name → Behaviour. Every request is kept in `requests`.

    With a third word, "bytes" or "flops_per_byte", in the key the variants are points of a sweep. With `axes` (m, n)
    the variants "m x n" are a lattice that is searched from `starts` on.
    """

    def __init__(
        self, behaviours, device=TOY, health=None, unusable=None, warnings=(), compile_raises=None, axes=None, starts=()
    ):
        self.behaviours, self.device, self.axes, self.starts = behaviours, device, axes, starts
        self.software, self.environment, self.warnings = {"toy": "1"}, {"TOY": "set"}, list(warnings)
        self.health = health or Health(clock_hz=1e9, memory_clock_hz=1e9, samples=3)
        self.unusable_backends, self.compile_raises = unusable or {}, compile_raises
        self.requests, self.rests, self.releases, self.watched = [], [], 0, 0
        self._timed, self._samples = Counter(), count()

    def microkernels(self):
        axes = self.axes and (lambda device: dict(zip("mn", self.axes, strict=True)))
        return tuple(
            Microkernel(
                ceiling, backend, partial(self._variants, (ceiling, backend, *sweep)), None, 1e-3, axes=axes,
                sweep=sweep[0] if sweep else None, bandwidth="dram_read",
            )
            for ceiling, backend, *sweep in self.behaviours
        )  # fmt: skip

    def _variants(self, key, device):
        if self.axes:
            return tuple(Variant(" x ".join(map(str, p)), dict(zip("mn", p, strict=True))) for p in self.starts)
        return tuple(Variant(name, x=behaviour.x) for name, behaviour in self.behaviours[key].items())

    def unusable(self, kernel):
        return self.unusable_backends.get(kernel.backend)

    def compile(self, kernels, variants):
        self.requests.append(("compile", tuple(k.ceiling for k in kernels), variants))
        if self.compile_raises:
            raise self.compile_raises

    def rest(self, seconds):
        self.rests.append(seconds)

    def prepare(self, kernel, variant, scale, zeros=False):
        self.requests.append(("prepare", kernel.ceiling, variant.name, scale))
        key = (kernel.ceiling, kernel.backend, *([kernel.sweep] if kernel.sweep else []))
        behaviour = self.behaviours[key][variant.name]
        if zeros:
            behaviour = replace(behaviour, rate=behaviour.zeros)
        if behaviour.prepare_raises:
            raise behaviour.prepare_raises
        clock = None if behaviour.clock_hz is None else (lambda: behaviour.clock_hz)
        run = partial(self._launch, kernel.ceiling, variant.name, behaviour)
        return Job(run, behaviour.work * scale, lambda: _error(behaviour), behaviour.buffer_bytes, clock)

    def _launch(self, ceiling, variant, behaviour, work):
        """Seconds of one launch."""
        seconds = work * behaviour.rate if BY_NAME[ceiling].unit == "s" else work / behaviour.rate
        return (behaviour.fixed_s + seconds) * behaviour.noise(next(self._samples))

    def time(self, job, launches):
        ceiling, variant, behaviour = job.run.args
        self.requests.append(("time", ceiling, variant, launches))
        self._timed[id(behaviour)] += 1
        if behaviour.time_raises and self._timed[id(behaviour)] > behaviour.after:
            raise behaviour.time_raises
        return [job.run(job.work) for _ in range(launches)]

    @contextmanager
    def watch(self):
        self.watched += 1
        yield lambda: self.health

    def limit(self, ceiling, health):
        return limits.limit(self.device, ceiling, health)

    def release(self):
        self.releases += 1


def _error(behaviour):
    if isinstance(behaviour.error, BaseException):
        raise behaviour.error
    return behaviour.error
