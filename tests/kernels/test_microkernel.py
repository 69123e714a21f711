import math

import pytest
import torch

from roofline.kernels.microkernel import relative_error

ONES = torch.ones(4)


@pytest.mark.parametrize(
    ("result", "reference", "expected"),
    [
        (ONES, ONES, 0.0),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]), 0.5),  # 2 off, of 4
        (torch.tensor([1.0, -8.0]), torch.tensor([1.0, -4.0]), 1.0),
        (torch.tensor([5], dtype=torch.int8), torch.tensor([4], dtype=torch.int32), 0.25),
        (torch.tensor([math.nan, 1.0]), ONES[:2], math.inf),  # never written
        (torch.tensor([math.inf]), ONES[:1], math.inf),
        (ONES, ONES * math.nan, math.inf),
        (ONES, ONES * 0, math.inf),  # a reference of zeros proves nothing
    ],
)
def test_relative_error(result, reference, expected):
    assert relative_error(result, reference) == expected


def test_whole_words_are_compared_exactly():
    # Neighbouring 32-bit words differ in float32 by nothing, in float64 by one.
    a = torch.tensor([2**31 - 1], dtype=torch.int32)
    assert relative_error(a - 1, a) > 0
