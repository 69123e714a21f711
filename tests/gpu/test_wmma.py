"""`wmma` is offered on Volta and Turing alone, but newer GPUs can run it: its output is checked on any."""

import pytest

from roofline.kernels import wmma

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("variant", wmma.VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("kernel", wmma.MICROKERNELS, ids=lambda k: k.ceiling)
def test_products_agree_with_their_reference(bench, kernel, variant):
    reason = bench.unusable(kernel)
    if reason:
        pytest.skip(reason)
    assert bench.prepare(kernel, variant, 0.1).check() <= kernel.tolerance
