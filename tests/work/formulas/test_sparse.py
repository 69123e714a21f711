"""Sparse operands: each stored element meets every column of the other, 2 flops each."""

import pytest
import torch

PLACES = [(0, 1), (2, 3), (5, 5), (7, 0), (7, 7)]
STORED, COLUMNS = 5, 4


def matrix(dtype=torch.float32):
    dense = torch.zeros(8, 8, dtype=dtype)
    for row, column in PLACES:
        dense[row, column] = 2
    return dense


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_times_dense(trace, rand, convert):
    sparse = getattr(matrix(), convert)()
    assert trace(torch.matmul, sparse, rand(8, COLUMNS)).flops == 2 * STORED * COLUMNS
    assert trace(lambda a, b: b @ a, sparse, rand(COLUMNS, 8)).flops == 2 * STORED * COLUMNS
    if convert != "to_sparse_csc":
        assert trace(torch.mv, sparse, rand(8)).flops == 2 * STORED
        assert trace(torch.addmm, rand(8, COLUMNS), sparse, rand(8, COLUMNS)).flops == 2 * STORED * COLUMNS


def test_block_sparse_counts_whole_blocks(trace, rand):
    sparse = matrix().to_sparse_bsr((2, 2))
    # (0,1), (2,3), (5,5), (7,0), (7,7) lie in five different 2 x 2 blocks
    assert trace(torch.matmul, sparse, rand(8, COLUMNS)).flops == 2 * 5 * 4 * COLUMNS


def test_batches_complex_and_backward(trace, rand):
    assert trace(torch.bmm, torch.stack([matrix()] * 2).to_sparse(), rand(2, 8, 4)).flops == 2 * 2 * STORED * 4
    sparse = matrix(torch.cfloat).to_sparse()
    assert trace(torch.sparse.mm, sparse, rand(8, 4, dtype=torch.cfloat)).flops == 8 * STORED * 4
    result = trace(torch.sparse.mm, matrix().to_sparse(), rand(8, 4, grad=True), backward=True)
    assert result.flops_backward == 2 * STORED * 4  # A^T g


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr"])
def test_both_sparse(trace, convert):
    # stored per column: 0:1 1:1 3:1 5:1 7:1; per row: 0:1 2:1 5:1 7:2; products for k = 0, 5 and 7: 1 + 1 + 2
    sparse = getattr(matrix(), convert)()
    assert trace(torch.matmul, sparse, sparse).flops == 2 * (1 + 1 + 2)


def test_sampled_product(trace, rand):
    assert trace(torch.sparse.sampled_addmm, matrix().to_sparse_csr(), rand(8, 3), rand(3, 8)).flops == 2 * STORED * 3


def test_two_of_four_halves_the_sum(trace):
    kept = torch.empty(32, 32, dtype=torch.float16, device="meta")  # of 64 dense columns
    metadata = torch.empty(32, 4, dtype=torch.int16, device="meta")
    dense = torch.empty(64, 16, dtype=torch.float16, device="meta")
    result = trace(torch.ops.aten._sparse_semi_structured_mm, kept, metadata, dense)
    assert result.flops == 2 * 32 * 16 * 64 // 2


def test_values_and_indices_are_what_moves(trace, rand):
    result = trace(torch.mv, matrix().to_sparse(), rand(8))
    assert result.bytes == STORED * 4 + 2 * STORED * 8 + 8 * 4 + 8 * 4
