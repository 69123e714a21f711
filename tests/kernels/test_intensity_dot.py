"""The measured roof of the tensor pipe: points, tiles and flops of each; the kernel under the interpreter."""

from fractions import Fraction

import pytest
import torch

from roofline.kernels import intensity_dot as dot
from roofline.kernels.intensity import INTENSITIES
from roofline.kernels.microkernel import Variant, relative_error
from roofline.machine.record import Device

pytestmark = pytest.mark.xdist_group("interpreter")


def device(capability):
    return Device(name="toy", kind="cuda", compute_capability=capability, sm_count=3)


@pytest.mark.parametrize("capability", ["8.0", "8.6", "9.0", "10.0", "12.0"])
def test_flops_per_byte_are_what_the_point_says(capability):
    variants = dot.variants(device(capability))
    assert [v.x for v in variants] == [float(i) for i in INTENSITIES]
    for variant in variants:
        o = variant.options
        # 2 x 64 x n x 64 flops per product; a tile of 64 x 64 fp32 numbers is 16 KiB.
        assert 2 * 64 * o["N"] * 64 * o["R"] / (16384 * o["P"]) == variant.x
        assert o["N"] <= (256 if capability in ("9.0", "10.0") else 128)


def test_shapes():
    assert dot.shape(Fraction(128), 256) == (256, 1, 1)
    assert dot.shape(Fraction(4096), 256) == (256, 32, 1)
    assert dot.shape(Fraction(4096), 128) == (128, 64, 1)
    # 24 = 16 x 3 / 2; 1/16 = 16 / 2 / 128.
    assert dot.shape(Fraction(24), 256) == (16, 3, 1)
    assert dot.shape(Fraction(1, 16), 256) == (16, 1, 128)
    assert dot.shape(Fraction(3, 32), 256) == (16, 3, 256)


def test_groups_of_a_launch():
    low, *_, high = dot.variants(device("9.0"))
    # 2e9 bytes / (16 KiB x 128 tiles x 2 programs x 132 SMs) = 3.6.
    # 4096 flop/byte: 8e9 x 132 / 4096 = 258 MB / (16 KiB x 2 x 132) = 59.6.
    assert dot.groups_of(low, 2_000_000_000, 132, 1.0) == 3
    assert dot.groups_of(high, 2_000_000_000, 132, 1.0) == 59
    assert dot.groups_of(low, 1 << 20, 132, 1.0) == 1


# tiles, P, R, programs, groups, start: fewer tiles than asked for; a start in the middle; no group to follow.
@pytest.mark.parametrize(
    ("tiles", "p", "r", "programs", "groups", "start"),
    [(8, 1, 1, 2, 3, 0), (5, 1, 3, 2, 4, 3), (7, 3, 2, 2, 2, 0), (4, 5, 1, 1, 1, 2)],
)
def test_products(interpret, tiles, p, r, programs, groups, start):
    n = 16
    a, bt = torch.randn(tiles, dot.M, dot.K), torch.randn(n, dot.K).half()
    out, ticks = torch.full((programs, dot.M, n), 99.0), torch.zeros((programs, 2), dtype=torch.int64)
    meta = {**dot.meta(Variant("", {"N": n, "P": p})), "CLOCK": False}
    interpret(dot.intensity_dot_kernel, (programs,), a, bt, out, ticks, tiles, start, groups, p, r, **meta)
    # Group g of program i is start + i + g x programs; its tiles are the p from there on, wrapped around.
    expected = torch.zeros(programs, dot.M, n, dtype=torch.float64)
    for i in range(programs):
        for g in range(groups):
            first = (start + i + g * programs) * p
            total = sum(a[(first + k) % tiles] for k in range(p))
            expected[i] += r * (total.half().double() @ bt.double().T)
    assert relative_error(out, expected) < 1e-3
    if start == 0:
        assert relative_error(dot.reference(a, bt, programs, groups, {"P": p, "R": r}), expected) < 1e-6


class Launched(list):
    """Stands in for the kernel and keeps the arguments of each launch."""

    def __getitem__(self, grid):
        return lambda *arguments, **meta: self.append((grid, arguments, meta))


def test_launches_go_on_where_the_one_before_has_stopped(cpu_arena, monkeypatch):
    launches = Launched()
    monkeypatch.setattr(dot, "intensity_dot_kernel", launches)
    arena = cpu_arena()
    for variant in dot.variants(device("9.0"))[::6]:
        job = dot.prepare(variant, arena, 1.0)
        launches.clear()
        for i in range(3):
            job.run(i)
        starts = [arguments[5] for _, arguments, _ in launches]
        (programs,), (a, _, out, ticks, tiles, _, groups, p, _), _ = next(iter(launches))
        assert starts == [i * groups * programs % tiles for i in range(3)]
        assert tiles * dot.TILE_BYTES == a.nbytes and len(out) == len(ticks) == programs
        assert job.work == pytest.approx(variant.x * groups * programs * p * dot.TILE_BYTES)
