"""Question: how many flops a second do the tensor pipes of Volta and Turing execute? (inline PTX `wmma`)

Formula: flops = 2 x 16 x 16 x 16 x tiles x unroll x loops x warps.
Bytes: each warp loads its two operands once and stores its accumulators once; in the loop nothing leaves the registers.
acc[t] <- acc[t] + A B for `tiles` independent accumulators, which hide the pipe's latency. Which element a register
holds differs between architectures: `wmma.load` and `wmma.store` alone know it. Offered only where Triton's `tl.dot`
has no tensor path, before compute capability 8.0; newer GPUs can run it too, below their full rate.
Cannot show: what a matrix product reaches that has to fetch its operands (that is the GEMM ceiling).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.raw import STOPWATCH, clock_hz, launcher
from roofline.machine.record import Device


@dataclass(frozen=True, kw_only=True)
class Pipe:
    """One combination of operand and accumulator types."""

    operand: str
    """PTX type of A and B."""
    types: str
    """PTX types of a product."""
    result: str
    """PTX type of the accumulator's elements."""
    registers: tuple[int, int]
    """Of an operand and of an accumulator, per thread."""
    accumulator: tuple[str, str]
    """C type of a register of the accumulator and its letter in inline assembly."""
    dtypes: tuple[str, str]
    """torch types of operands and result."""
    spread: float
    """Of the random operands: small where sums could overflow."""
    tolerance: float
    capability: tuple[int, int]


PIPES = {
    "tensor_fp16_fp16": Pipe(
        operand="f16", types="f16.f16", result="f16", registers=(8, 4), accumulator=("unsigned", "r"),
        dtypes=("float16", "float16"), spread=0.02, tolerance=5e-2, capability=(7, 0),
    ),
    "tensor_fp16_fp32": Pipe(
        operand="f16", types="f32.f32", result="f32", registers=(8, 8), accumulator=("float", "f"),
        dtypes=("float16", "float32"), spread=1.0, tolerance=1e-3, capability=(7, 0),
    ),
    "tensor_int8": Pipe(
        operand="s8", types="s32.s8.s8.s32", result="s32", registers=(2, 8), accumulator=("int", "r"),
        dtypes=("int8", "int32"), spread=1.0, tolerance=0.0, capability=(7, 2),
    ),
}  # fmt: skip
_SIDE = 16  # m = n = k
_LOOP = r"""
// a: (16, 16) row-major, bt: (16, 16) = B transposed, out: (warps, TILES, 16, 16)
extern "C" __global__ void __launch_bounds__(THREADS)
wmma_loop(const void* a, const void* bt, unsigned char* out, int loops, long long* ticks) {
    const Stopwatch stopwatch;
    unsigned fa[OPERAND_REGISTERS], fb[OPERAND_REGISTERS];
    Accumulator c[TILES][ACCUMULATOR_REGISTERS];
    load_a(fa, a);
    load_b(fb, bt);
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int i = 0; i < ACCUMULATOR_REGISTERS; ++i) c[t][i] = 0;
#pragma unroll 1
    for (int i = 0; i < loops; ++i)
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int t = 0; t < TILES; ++t) multiply_add(c[t], fa, fb);
    const long long warp = ((long long)blockIdx.x * THREADS + threadIdx.x) / 32;
#pragma unroll
    for (int t = 0; t < TILES; ++t) store(out + (warp * TILES + t) * 256 * ITEM_BYTES, c[t]);
    stopwatch.stop(ticks);
}
"""


def _places(first: int, count: int) -> str:
    """Operands of an assembly template: _places(2, 3) = "{%2,%3,%4}"."""
    return "{" + ",".join(f"%{first + i}" for i in range(count)) + "}"


def _bound(constraint: str, name: str, count: int) -> str:
    """Registers bound to them: "=r"(x[0]), "=r"(x[1]) …"""
    return ", ".join(f'"{constraint}"({name}[{i}])' for i in range(count))


def _load(pipe: Pipe, which: str, layout: str) -> str:
    n = pipe.registers[0]
    return f"""__device__ __forceinline__ void load_{which}(unsigned* x, const void* p) {{
    asm volatile("wmma.load.{which}.sync.aligned.{layout}.m16n16k16.{pipe.operand} {_places(0, n)}, [%{n}], 16;"
        : {_bound("=r", "x", n)} : "l"(p));
}}"""


def source(ceiling: str) -> str:
    """CUDA C of one pipe."""
    pipe = PIPES[ceiling]
    ab, c = pipe.registers
    kind, letter = pipe.accumulator
    operands = f"{_places(0, c)}, {_places(c, ab)}, {_places(c + ab, ab)}, {_places(0, c)}"
    return f"""{STOPWATCH}
typedef {kind} Accumulator;
#define OPERAND_REGISTERS {ab}
#define ACCUMULATOR_REGISTERS {c}
#define ITEM_BYTES {2 if pipe.result == "f16" else 4}
{_load(pipe, "a", "row")}
{_load(pipe, "b", "col")}
__device__ __forceinline__ void multiply_add(Accumulator* c, const unsigned* a, const unsigned* b) {{
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.{pipe.types} {operands};"
        : {_bound("+" + letter, "c", c)} : {_bound("r", "a", ab)}, {_bound("r", "b", ab)});
}}
__device__ __forceinline__ void store(void* p, const Accumulator* c) {{
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.{pipe.result} [%{c}], {_places(0, c)}, 16;"
        :: {_bound(letter, "c", c)}, "l"(p) : "memory");
}}
{_LOOP}"""


VARIANTS = tuple(
    Variant(
        f"m16n16k16, {tiles} tiles, {threads} threads, {blocks} blocks/SM",
        {"TILES": tiles, "UNROLL": unroll, "THREADS": threads, "BLOCKS": blocks},
    )
    for tiles, unroll, threads, blocks in ((4, 8, 256, 2), (8, 4, 256, 1), (2, 16, 256, 4), (4, 8, 512, 1))
)
"""Tiles x threads x resident blocks per SM; the dozens of products in a loop hide its overhead."""
LAUNCH_FLOPS = 2.5e9  # per SM: two milliseconds at 1.2 TFLOP/s an SM


def variants(device: Device) -> tuple[Variant, ...]:
    """None from compute capability 8.0 on: there Triton reaches the full rate."""
    return VARIANTS if int((device.compute_capability or "8.0").split(".")[0]) < 8 else ()


def compile_options(variant: Variant) -> dict[str, int]:
    """Macros of a variant."""
    return {key: variant.options[key] for key in ("TILES", "UNROLL", "THREADS")}


def prepare(ceiling: str, variant: Variant, arena: Arena, scale: float) -> Job:
    """Ceiling, variant, arena, scale of the work → job."""
    import numpy as np

    o, pipe, sms = variant.options, PIPES[ceiling], arena.device.sm_count or 1
    operand, result = pipe.dtypes
    grid = sms * o["BLOCKS"]
    warps = grid * o["THREADS"] // 32
    a, bt = (arena.random((_SIDE, _SIDE), operand, pipe.spread) for _ in range(2))
    out = arena.empty((warps, o["TILES"], _SIDE, _SIDE), result)
    ticks = arena.empty((grid, 2), "int64")
    per_loop = 2.0 * _SIDE**3 * o["TILES"] * o["UNROLL"] * warps
    loops = max(2, int(scale * LAUNCH_FLOPS * sms / per_loop))
    call = launcher(source(ceiling), "wmma_loop", compile_options(variant), arena.torch_device.index)

    def launch(count: int) -> None:
        call(grid, o["THREADS"], (a, bt, out, np.int32(count), ticks))

    def check() -> float:
        launch(2)
        expected: Any = 2 * o["UNROLL"] * (a.double() @ bt.double().T)
        return relative_error(out, expected.expand_as(out))

    return Job(lambda _: launch(loops), per_loop * loops, check, clock_hz=lambda: clock_hz(ticks))


def _microkernel(ceiling: str) -> Microkernel:
    def run(variant: Variant, arena: Arena, scale: float) -> Job:
        return prepare(ceiling, variant, arena, scale)

    pipe = PIPES[ceiling]
    return Microkernel(ceiling, "cupy", variants, run, pipe.tolerance, pipe.capability)


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in PIPES)
