"""Every microkernel on the GPU: right output, and time that follows the work."""

from statistics import median

import pytest

from roofline.errors import RooflineError
from roofline.measure.plan import cuda_microkernels

pytestmark = pytest.mark.gpu
KERNELS = [k for k in cuda_microkernels() if k.sweep is None]
SWEEPS = [k for k in cuda_microkernels() if k.sweep is not None]


def name(kernel):
    return f"{kernel.ceiling}-{kernel.backend}"


def usable(bench, kernel):
    reason = bench.unusable(kernel)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def compiled(bench):
    """The bench with every variant compiled, on all cores at once."""
    bench.compile([k for k in KERNELS if k.axes is None], 99)
    return bench


def variants(bench, kernel):
    """All of them; of library products, where each shape is a variant, two."""
    found = kernel.variants(bench.device)
    return found if kernel.axes is None else found[:2]


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_every_variant_agrees_with_its_reference(compiled, kernel):
    usable(compiled, kernel)
    wrong = {}
    for variant in variants(compiled, kernel):
        try:
            error = compiled.prepare(kernel, variant, 1.0).check()
        except RooflineError as failure:
            error = str(failure)
        if isinstance(error, str) or not error <= kernel.tolerance:
            wrong[variant.name] = error
    compiled.release()
    assert wrong == {}


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not k.ceiling.startswith(("gemm", "conv"))], ids=name)
def test_time_follows_the_work(compiled, kernel):
    # Time per unit of work at half the work over that at full: 1, and 2 for a loop that was optimised away.
    usable(compiled, kernel)
    found = {}
    for variant in variants(compiled, kernel):
        full, half = (compiled.prepare(kernel, variant, scale) for scale in (1.0, 0.5))
        per_work = [median(compiled.time(job, 9)[2:]) / job.work for job in (full, half)]
        found[variant.name] = per_work[1] / per_work[0]
    compiled.release()
    assert {v: ratio for v, ratio in found.items() if not 0.75 < ratio < 1.3} == {}


@pytest.mark.parametrize("kernel", SWEEPS, ids=lambda k: f"{name(k)}-{k.sweep}")
def test_points_of_each_sweep_agree_with_their_references(bench, kernel):
    usable(bench, kernel)
    points = kernel.variants(bench.device)
    some = [points[0], points[len(points) // 3], points[2 * len(points) // 3], points[-1]]
    errors = {v.name: bench.prepare(kernel, v, 1.0).check() for v in some}
    assert {v: error for v, error in errors.items() if not error <= kernel.tolerance} == {}


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_clocks_that_the_sms_count_are_those_of_a_gpu(compiled, kernel):
    usable(compiled, kernel)
    first = next(iter(variants(compiled, kernel)), None)
    if first is None:
        pytest.skip("no variant for this GPU")
    job = compiled.prepare(kernel, first, 1.0)
    if job.clock_hz is None:
        pytest.skip("does not count its clock")
    compiled.time(job, 3)
    assert 2e8 < job.clock_hz() < 1.05 * (compiled.device.boost_clock_hz or 4e9)


def test_a_variant_that_cannot_be_built_is_one_line(bench):
    from roofline.kernels import fma
    from roofline.kernels.microkernel import Variant

    kernel = fma.MICROKERNELS[0]
    usable(bench, kernel)
    broken = Variant("broken", {"CHAINS": 0, "THREADS": 256, "UNROLL": 8, "BLOCKS": 1})
    with pytest.raises(RooflineError) as error:
        bench.prepare(kernel, broken, 1.0)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
