"""Machine code for tests of the audit: compiled here, for GPUs that are not here."""

import os

import pytest

from roofline.errors import BackendUnavailable
from roofline.measure import aot, sass


@pytest.fixture(scope="session")
def cuda_listing():
    """`(source, arch, options, function)` → `Listing`. Skips without an NVRTC for it, but not in CI."""

    def listing(source, arch, options=(), function=None):
        try:
            cubin = aot.compile_cuda(source, arch, options)
        except BackendUnavailable as reason:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(reason))
        return sass.disassemble(cubin, function)

    return listing
