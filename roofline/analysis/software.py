"""What the software decides: TF32 switches, fused attention, ECC, host speed. Facts of a run, not of the hardware."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Software:
    """Assumptions about a run that neither the trace nor the data sheet knows. None: the stated default."""

    name: str = "as traced"
    tf32_products: bool | None = None
    """Whether fp32 matrix products may run as TF32. None: as the trace was taken."""
    tf32_convolutions: bool | None = None
    """The same for convolutions and recurrent layers."""
    fused_attention: bool = True
    """False: attention as plain products, scale, softmax and copies, as before torch 2."""
    unaligned_tensor: bool = True
    """Whether products with rows of no multiple of eight elements can still use tensor cores."""
    modern_norms: bool = True
    """Whether norms and softmax read vectors of elements, as their kernels do since torch 1.10."""
    ecc: bool | None = None
    """Whether ECC is on. None: as the machine says, else on for data-centre boards with GDDR memory only."""
    host_s: float | None = None
    """Host time per op call. None: the constant of that name, from the H200's host."""


AS_TRACED = Software()
TORCH_1_9 = Software(
    name="torch 1.9",
    tf32_products=True,
    tf32_convolutions=True,
    fused_attention=False,
    unaligned_tensor=False,
    modern_norms=False,
)
"""torch <= 1.11 leaves TF32 on for products and convolutions; attention was written out in the model."""
PRESETS = {preset.name: preset for preset in (AS_TRACED, TORCH_1_9)}
