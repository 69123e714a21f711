"""The constants of the time model: few, physical, each with its value, spread and origin, all in `constants.json`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import msgspec

from roofline.errors import FileError

PATH = Path(__file__).with_name("constants.json")


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One number of the model."""

    name: str
    value: float
    spread: float
    """One standard deviation, relative: from the fit, or of the prior where the data say nothing."""
    prior: float
    """What it was taken to be before the fit, from `source`."""
    prior_spread: float
    """Relative; 0: a published number that the fit leaves alone."""
    unit: str
    meaning: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Constants:
    """All constants by name. Floats; the fit also passes arrays of shape (variants, 1)."""

    tensor_efficiency: float
    fp32_efficiency: float
    attention_efficiency: float
    attention_lanes_efficiency: float
    depthwise_efficiency: float
    depthwise_backward_share: float
    conv_backward_copies: float
    dram_efficiency: float
    l2_efficiency: float
    norm_elements_per_clock: float
    early_norms: float
    pointwise_elements_per_clock: float
    copy_elements_per_clock: float
    overlap: float
    kernel_s: float
    host_s: float
    host_per_parameter: float
    ecc_bandwidth: float
    consumer_clock: float
    odd_stride_rate: float
    unaligned_share: float
    emulated_half_rate: float
    layout_share: float
    winograd_gain: float
    power_depth: float
    power_activity: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The data file: the constants, what they were fitted on, and how wrong they are on what they never saw."""

    constants: tuple[Constant, ...]
    log_error: float
    """Half-width of the interval in ln(seconds) of an inference that the device limits: it holds as many published
    GPUs that the fit had not seen, and runs of other networks, as `coverage` says."""
    host_log_error: float
    """The same for training and for programs that the host limits, from the runs on the H200."""
    coverage: float
    fitted_on: str
    created: str

    @property
    def values(self) -> Constants:
        """The numbers alone."""
        return Constants(**{constant.name: constant.value for constant in self.constants})

    def constant(self, name: str) -> Constant:
        """The constant of that name, with its origin."""
        return next(constant for constant in self.constants if constant.name == name)


def load(path: Path) -> Calibration:
    """A calibration file; `FileError` if it cannot be read or lacks a constant."""
    try:
        calibration = msgspec.json.decode(path.read_bytes(), type=Calibration)
        _ = calibration.values
    except (OSError, msgspec.MsgspecError, TypeError) as error:
        raise FileError(f"{path} is not a calibration file: {error}. `make calibrate` writes one.") from error
    return calibration


def save(calibration: Calibration, path: Path) -> None:
    """Write the calibration, atomically."""
    draft = path.with_suffix(".tmp")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
    draft.replace(path)


@lru_cache(maxsize=1)
def shipped() -> Calibration:
    """The calibration that this package carries."""
    return load(Path(str(files("roofline.analysis").joinpath("constants.json"))))
