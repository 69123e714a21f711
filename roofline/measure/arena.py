"""Device memory for microkernels: large arrays of random data, allocated once, and small operands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from roofline.errors import OutOfDeviceMemory
from roofline.machine.record import Device

CACHE_MULTIPLE = 4
"""A DRAM buffer is at least this many times the last-level cache."""
SWEEP_S = 4e-4
"""A buffer is large enough to keep DRAM busy for about this long: a hundred times a launch."""
_LARGEST_SHARE = 0.6
_GRANULE = 1 << 16


class TorchArena:
    """Arena on a torch device; what the user must know about the sizes is added to `warnings`."""

    zeros = False

    def __init__(
        self,
        device: Device,
        torch_device: Any,
        free_bytes: int,
        dram_bytes_per_s: float | None,
        warnings: list[str],
    ) -> None:
        self.device = device
        self.torch_device = torch_device
        self.warnings = warnings
        self._free_bytes = free_bytes
        self._wanted_bytes = int(max(self.minimum_bytes, SWEEP_S * (dram_bytes_per_s or 0)))
        self._arrays: list[Any] = []

    @property
    def minimum_bytes(self) -> int:
        """Smallest buffer that cannot live in the last-level cache."""
        return CACHE_MULTIPLE * (self.device.l2_bytes or 4 << 20)

    def arrays(self, count: int, scale: float) -> list[Any]:
        """`count` distinct float32 arrays of one size; a smaller scale gives the front part of each."""
        while len(self._arrays) < count:
            self._allocate(count)
        n = max(1, int(self._arrays[0].numel() * scale) // _GRANULE) * _GRANULE
        return [array[:n] for array in self._arrays[:count]]

    def _allocate(self, count: int) -> None:
        import torch

        size = min(self._wanted_bytes, int(self._free_bytes * _LARGEST_SHARE) // count)
        while size >= self.minimum_bytes:
            try:
                n = max(1, size // 4 // _GRANULE) * _GRANULE
                arrays = [torch.empty(n, dtype=torch.float32, device=self.torch_device) for _ in range(count)]
                for array in arrays:
                    array.uniform_(-1, 1)
                self._arrays = arrays
                if size < self._wanted_bytes:
                    self.warnings.append(
                        f"memory is short: DRAM buffers of {size / 1e6:.0f} MB "
                        f"instead of {self._wanted_bytes / 1e6:.0f} MB"
                    )
                return
            except torch.OutOfMemoryError:
                size //= 2
        raise OutOfDeviceMemory(
            f"{count} buffers of {self.minimum_bytes / 1e6:.0f} MB ({CACHE_MULTIPLE} x the last-level cache) "
            f"do not fit into {self._free_bytes / 1e6:.0f} MB of free device memory. Free some and run again."
        )

    @contextmanager
    def filled(self, zeros: bool) -> Iterator[None]:
        """While the context is open, small operands are all zero, if `zeros`."""
        self.zeros = zeros
        try:
            yield
        finally:
            self.zeros = False

    def random(self, shape: tuple[int, ...], dtype: str, spread: float = 1.0) -> Any:
        """Normally distributed numbers; for integers, uniform over -64 … 63 (int8) or the whole range."""
        import torch

        kind = getattr(torch, dtype)
        if self.zeros:
            return torch.zeros(shape, dtype=kind, device=self.torch_device)
        if kind == torch.int8:
            return torch.randint(-64, 64, shape, dtype=kind, device=self.torch_device)
        if not kind.is_floating_point:
            return torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int64, device=self.torch_device).to(kind)
        wide = torch.float64 if kind == torch.float64 else torch.float32
        return (torch.randn(shape, dtype=wide, device=self.torch_device) * spread).to(kind)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Memory filled with NaN, or with the smallest integer."""
        import torch

        kind = getattr(torch, dtype)
        poison = float("nan") if kind.is_floating_point else torch.iinfo(kind).min
        return torch.full(shape, poison, dtype=kind, device=self.torch_device)

    def release(self) -> None:
        """Drops the large arrays."""
        self._arrays = []
