"""Compile a microkernel ahead of time for any architecture; no GPU is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from roofline.measure import nvrtc


@cache
def _cuda(source: str, arch: str, options: tuple[str, ...]) -> bytes:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None:
        raise ValueError(f"arch is '{arch}'; expected sm_80, sm_90a or the like")
    return nvrtc.supporting(int(match[1])).compile(source, (f"--gpu-architecture={arch}", *options))


def compile_cuda(source: str, arch: str, options: Sequence[str] = ()) -> bytes:
    """CUDA C → cubin for `arch`, such as "sm_86"; `BackendUnavailable` if no installed NVRTC knows it."""
    return _cuda(source, arch, tuple(options))


def compile_triton(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    arch: int,
    num_warps: int = 4,
    num_stages: int = 3,
) -> bytes:
    """A `@triton.jit` function → cubin for compute capability `arch`, such as 86.

    `signature` gives the type of each run-time argument, "*fp32" or "i32"; ":16" behind it says that the
    value is a multiple of 16, as Triton finds for torch's pointers at a launch. `constexprs` has the others.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {name: signature.get(name, "constexpr").split(":")[0] for name in kernel.arg_names}
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(kernel.arg_names)
        if signature.get(name, "").endswith(":16")
    }
    source = ASTSource(kernel, types, dict(constexprs), aligned)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm["cubin"]
