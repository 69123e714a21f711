"""Library products: operands, checks, switches, lattice. On the CPU, whose library has the same functions."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from roofline.kernels import gemm
from roofline.machine.record import Device
from roofline.measure.arena import TorchArena

H200 = Device(name="H200", kind="cuda", sm_count=132, l2_bytes=60 << 20, memory_bytes=150 << 30)
# Memory for sides of 600 in fp64: 3 x 8 x 8 x 600^2 bytes. So the lattice is empty and pools stay small.
SMALL = Device(name="small", kind="cpu", sm_count=6, l2_bytes=1 << 16, memory_bytes=3 * 8 * 8 * 600**2)
SHAPE = gemm.variant((256, 128, 192))
KERNELS = {kernel.ceiling: kernel for kernel in gemm.MICROKERNELS}


@pytest.fixture
def arena():
    torch.manual_seed(0)
    return TorchArena(SMALL, torch.device("cpu"), 1 << 30, None, [])


@pytest.mark.parametrize("ceiling", gemm.PRODUCTS)
def test_product_is_right(ceiling, arena):
    job = KERNELS[ceiling].prepare(SHAPE, arena, 1.0)
    assert job.check() <= KERNELS[ceiling].tolerance
    assert job.work == 2 * 256 * 128 * 192


@pytest.mark.parametrize(
    ("ceiling", "narrower"), [("gemm_fp16", "bfloat16"), ("gemm_fp32", "bfloat16"), ("gemm_fp64", "float32")]
)
def test_a_narrower_product_is_refused(ceiling, narrower, arena, monkeypatch):
    def rounded(a, bt, out):
        kind = getattr(torch, narrower)
        out.copy_(a.to(kind).double() @ bt.to(kind).double())

    product = gemm.PRODUCTS[ceiling]
    monkeypatch.setitem(gemm.PRODUCTS, ceiling, gemm.Product(product.operand, product.result, rounded, 0.0))
    assert gemm.prepare(ceiling, SHAPE, arena, 1.0).check() > KERNELS[ceiling].tolerance


def test_an_unwritten_result_is_an_infinite_error(arena):
    a, b = arena.random((64, 32), "float32"), arena.random((96, 32), "float32")
    out = a @ b.t()
    assert gemm.error(out, a, b.t()) < 1e-6
    out[63, 1] = float("nan")
    assert gemm.error(out, a, b.t()) == float("inf")


def test_half_the_work_is_half_the_depth(arena):
    # 192 / 2 = 96 → the multiple of 64 nearest to 1.5 x 64, rounded to even: 128.
    assert KERNELS["gemm_fp32"].prepare(SHAPE, arena, 0.5).work == 2 * 256 * 128 * 128


def test_launches_take_turns_on_operands_that_do_not_overlap(arena):
    # 4 caches of 64 KiB = 65536 floats; (16 + 16) x 64 = 2048 elements a launch: 32 sets.
    job = KERNELS["gemm_fp32"].prepare(gemm.variant((16, 16, 64)), arena, 1.0)
    _, pool, operands = job.run.args
    assert len(operands) == 32 and pool.values.nbytes == job.buffer_bytes == 4 * (64 << 10)
    starts = sorted(t.data_ptr() for a, bt, _ in operands for t in (a, bt))
    assert all(later - earlier >= 16 * 64 * 4 for earlier, later in pairwise(starts))


def test_jobs_share_one_pool_that_dies_with_them(arena):
    jobs = [KERNELS["gemm_fp32"].prepare(SHAPE, arena, scale) for scale in (1.0, 0.5)]
    assert jobs[0].run.args[1] is jobs[1].run.args[1]
    alive = len(gemm._pools)
    jobs.clear()
    assert len(gemm._pools) == alive - 1


def test_zeros_have_a_pool_of_their_own(arena):
    random = KERNELS["gemm_fp32"].prepare(SHAPE, arena, 1.0)
    with arena.filled(True):
        zeros = KERNELS["gemm_fp32"].prepare(SHAPE, arena, 1.0)
    assert random.run.args[1].values.any() and not zeros.run.args[1].values.any()


@pytest.mark.parametrize("setting", ["highest", "high", "medium"])
def test_switches_of_fp32_products_are_put_back(setting):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(setting)
        allowed = torch.backends.cuda.matmul.allow_tf32
        for precision in ("tf32", "ieee"):
            with gemm.fp32_products(precision):
                seen = getattr(torch.backends.cuda.matmul, "fp32_precision", precision)
                assert seen == precision
        assert torch.get_float32_matmul_precision() == setting
        assert torch.backends.cuda.matmul.allow_tf32 == allowed
    finally:
        torch.set_float32_matmul_precision(before)


def test_switches_are_put_back_after_a_failure():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError), gemm.fp32_products("tf32"):
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == before


def test_torch_before_2_9_has_one_switch(monkeypatch):
    settings = ["medium"]
    monkeypatch.setattr(gemm.torch.backends.cuda, "matmul", SimpleNamespace())
    monkeypatch.setattr(gemm.torch, "get_float32_matmul_precision", lambda: settings[-1])
    monkeypatch.setattr(gemm.torch, "set_float32_matmul_precision", settings.append)
    with gemm.fp32_products("tf32"), gemm.fp32_products("ieee"):
        pass
    assert settings == ["medium", "high", "highest", "high", "medium"]


@pytest.mark.parametrize(("sms", "steps"), [(132, (11, 12)), (82, (2, 41)), (108, (9, 12)), (84, (7, 12)), (7, (1, 7))])
def test_steps_fill_whole_waves(sms, steps):
    assert gemm.wave_steps(sms) == (128 * steps[0], 128 * steps[1])


def test_the_lattice_of_an_h200():
    # Steps 1408 and 1536 near 3072, 4096, 6144, 8192, 12288, and powers of two: 14 sides; 14 x 14 x 6 = 1176 shapes.
    lattice = gemm.axes("gemm_bf16", H200)
    assert (len(lattice["m"]), len(lattice["n"]), len(lattice["k"])) == (14, 14, 6)
    assert {2816, 4224, 8448, 4608, 7680} <= set(lattice["m"])
    assert max(gemm.axes("gemm_fp64", H200)["m"]) == 8448


@pytest.mark.parametrize("ceiling", gemm.PRODUCTS)
def test_starts_lie_on_the_lattice_and_carry_their_shape(ceiling):
    lattice = gemm.axes(ceiling, H200)
    starts = gemm.starts(ceiling, H200)
    assert starts[0].options == {"m": 4096, "n": 4096, "k": 4096} and starts[0].name == "4096 x 4096 x 4096"
    assert len({s.name for s in starts}) == len(starts) >= 5
    assert all(size in lattice[axis] for start in starts for axis, size in start.options.items())


def test_shapes_fit_into_a_small_memory():
    # 1 GiB: three square matrices of 4 bytes in an eighth of it are 2^27 / 12 = 3344^2.
    device = Device(name="small", kind="cuda", sm_count=20, memory_bytes=1 << 30)
    assert 2048 <= max(gemm.axes("gemm_tf32", device)["m"]) <= 3344


def test_where_no_start_fits_the_smallest_shape_is_one():
    # 2 GiB: three square matrices of 8 bytes in an eighth of it are 2^28 / 24 = 3344^2, less than 4096.
    device = Device(name="small", kind="cuda", sm_count=20, memory_bytes=2 << 30)
    assert [v.options for v in gemm.starts("gemm_fp64", device)] == [{"m": 2048, "n": 2048, "k": 2048}]
    assert gemm.starts("gemm_fp64", Device(name="tiny", kind="cuda", memory_bytes=1 << 20)) == ()
