"""The errors a user can meet. Each says what was given, what was expected and what to do."""


class RooflineError(Exception):
    """Root of every error this package raises on purpose; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(RooflineError):
    """An argument cannot be used: unknown ceiling, unknown model, impossible batch."""

    exit_code = 2


class UnknownMachine(UsageError):
    """No machine of that name is known; the message lists the nearest names."""


class DeviceError(RooflineError):
    """The device asked for is not there or cannot be used here."""

    exit_code = 3


class BackendUnavailable(DeviceError):
    """Triton, CuPy or NVML is missing, or failed at import or first use; the message is the reason."""


class OutOfDeviceMemory(DeviceError):
    """A buffer does not fit in the device's free memory."""


class FileError(RooflineError):
    """A file cannot be read, written or understood."""

    exit_code = 4


class CheckFailed(RooflineError):
    """A microkernel's output differs from its reference, so its rate is not reported."""

    exit_code = 5


class ModelError(RooflineError):
    """The user's model or function failed while it was traced; its own error is the cause."""

    exit_code = 6


class MissingCeiling(RooflineError):
    """The machine has no ceiling that the analysis needs; the message names it and the machine."""

    exit_code = 7
