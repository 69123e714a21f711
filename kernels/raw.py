"""CUDA C through CuPy: compile once, launch on torch's current stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

STOPWATCH = r"""
// The SM's own clock: cycles and nanoseconds of each block, since sensors lag and overstate it under a power limit.
struct Stopwatch {
    unsigned long long ns;
    long long cycles;
    __device__ __forceinline__ static unsigned long long now() {
        unsigned long long t;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
        return t;
    }
    __device__ __forceinline__ Stopwatch() : ns(now()), cycles(clock64()) {}
    __device__ __forceinline__ void stop(long long* ticks) const {  // ticks: (blocks, 2)
        if (threadIdx.x == 0) {
            ticks[2 * blockIdx.x] = clock64() - cycles;
            ticks[2 * blockIdx.x + 1] = now() - ns;
        }
    }
};
"""


def clock_hz(ticks: Any) -> float:
    """Clock of the SMs during the last launch from its (blocks, 2) cycles and nanoseconds.

    Of the block that ran longest: blocks that finish early have seen the clock rise at the start of the launch only.
    """
    cycles, ns = ticks[ticks[:, 1].argmax()].tolist()
    return cycles / ns * 1e9


def defines(options: Mapping[str, int | str]) -> tuple[str, ...]:
    """Compiler options that define a macro for each option."""
    return tuple(f"-D{key}={value}" for key, value in sorted(options.items()))


@cache
def _function(source: str, name: str, options: tuple[str, ...], device: int) -> Any:
    import cupy

    with cupy.cuda.Device(device):
        return cupy.RawModule(code=source, options=options).get_function(name)


def launcher(source: str, name: str, options: Mapping[str, int | str], device: int) -> Any:
    """`launch(grid, block, arguments)` for the `extern "C"` kernel `name`; tensors are passed by pointer."""
    function = _function(source, name, defines(options), device)

    def launch(grid: int, block: int, arguments: Sequence[Any]) -> None:
        import cupy
        import torch

        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream, device)
        values = tuple(a.data_ptr() if isinstance(a, torch.Tensor) else a for a in arguments)
        with cupy.cuda.Device(device):
            function((grid,), (block,), values, stream=stream)

    return launch
