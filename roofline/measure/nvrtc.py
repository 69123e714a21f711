"""NVIDIA's run-time compiler, from CUDA C to machine code, on a machine with or without a GPU.

Bound with ctypes because several releases are needed side by side: CUDA 13 dropped Volta, CUDA 12 has it.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from roofline.errors import BackendUnavailable, RooflineError

INSTALL = "pip install nvidia-cuda-nvrtc nvidia-cuda-nvrtc-cu12"


class Nvrtc:
    """One loaded release."""

    def __init__(self, path: Path) -> None:
        # Looked up by name when compiling starts, and found only if it is in memory by then.
        for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))
        self._library = ctypes.CDLL(str(path))

    @property
    def architectures(self) -> tuple[int, ...]:
        """Compute capabilities it compiles for, such as 75 or 120."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        values = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(values)
        return tuple(values)

    def compile(self, source: str, options: Sequence[str]) -> bytes:
        """The cubin; `RooflineError` carries the compiler's log."""
        program = ctypes.c_void_p()
        self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        try:
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if self._library.nvrtcCompileProgram(program, len(options), arguments):
                log = self._output(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
                raise RooflineError(f"NVRTC refused the source with {' '.join(options)}:\n{log}")
            return self._output(program, "CUBIN")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _output(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self._library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw


@lru_cache(maxsize=1)
def installed() -> tuple[Nvrtc, ...]:
    """Every release that pip installed, the newest first."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    paths = {path for folder in folders for path in folder.glob("*/lib/libnvrtc.so.*")}
    return tuple(Nvrtc(path) for path in sorted(paths, key=lambda p: int(p.suffix[1:]), reverse=True))


def supporting(capability: int) -> Nvrtc:
    """The newest release that compiles for a compute capability, such as 70."""
    for release in installed():
        if capability in release.architectures:
            return release
    have = "; ".join(f"one for {release.architectures}" for release in installed()) or "none"
    raise BackendUnavailable(f"No NVRTC here compiles for sm_{capability}; found: {have}. Install: {INSTALL}")
