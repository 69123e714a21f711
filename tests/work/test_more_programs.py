"""Small programs of many kinds, each with its count derived by hand: matrix flops forward, backward, bytes moved."""

import copy
import pickle
from functools import partial

import pytest
import torch
from torch import func, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import roofline
from roofline.errors import ModelError

F32, BF16, C64, I64, FP8 = 4, 2, 8, 8, 1


def rand(*shape, grad=False, **options):
    return torch.randn(*shape, **options).requires_grad_(grad)


leaf = partial(rand, grad=True)


def no_grad(model, *args, **options):
    with torch.no_grad():
        return model(*args, **options)


def check(trace, program, args, flops, backward=None, moved=None, **options):
    result = trace(program, *args, backward=backward is not None, **options)
    assert result.flops == flops
    assert backward in (None, result.flops_backward)
    assert moved in (None, result.bytes)
    return result


N, O, I, J = 5, 6, 3, 4  # rows, results, and the two inputs of a bilinear layer  # noqa: E741
NOIJ = N * O * I * J
MM = 2 * 3 * 4 * 5  # (3 x 4) @ (4 x 5)

PRODUCTS = {
    # ((2 x 3) (3 x 4)) (4 x 5) = 48 + 80, the cheaper order; each product twice in backward
    "einsum of three": (torch.einsum, ("ij,jk,kl->il", leaf(2, 3), leaf(3, 4), leaf(4, 5)), 128, 256, None),
    # forward x1 W, summed over I, then x2; dx1: g W and x2 (nothing to sum first); dW: x1 g, then x2; dx2: x1 W, then g
    "bilinear": (
        nn.Bilinear(I, J, O), (leaf(N, I), leaf(N, J)), 2 * (NOIJ + N * O * J),
        2 * (2 * NOIJ + (N * O * I + NOIJ) + (NOIJ + N * O * J)), None,
    ),
    # (10 x 100 @ 100 x 5) @ 5 x 50: 10000 + 5000
    "multi_dot": (
        lambda *m: torch.linalg.multi_dot(m), (leaf(10, 100), leaf(100, 5), leaf(5, 50)), 15000, 30000, None,
    ),
    "chain_matmul": (torch.chain_matmul, (rand(10, 100), rand(100, 5), rand(5, 50)), 15000, None, None),
    # more than 25 rows: one product, with both norms as two more columns; fewer: element-wise
    "cdist of many": (torch.cdist, (rand(30, 4), rand(40, 4)), 2 * 30 * 40 * (4 + 2), None, None),
    "cdist of few": (torch.cdist, (rand(3, 4), rand(4, 4)), 0, None, None),
    "addr": (torch.addr, (rand(6, 10), rand(6), rand(10)), 2 * 60, None, F32 * (60 + 16 + 60)),
    # one multiplication per element and no sum: element-wise
    "outer": (torch.outer, (rand(6), rand(10)), 0, None, F32 * (16 + 60)),
    "kron": (torch.kron, (rand(2, 3), rand(4, 5)), 0, None, F32 * (6 + 20 + 120)),
    # 2 x (3 4) @ (3 4) x 5
    "tensordot": (
        partial(torch.tensordot, dims=2), (leaf(2, 3, 4), leaf(3, 4, 5)), 2 * 2 * 12 * 5, 4 * 2 * 12 * 5,
        F32 * (24 + 60 + 10),
    ),
    "baddbmm, out=": (
        lambda c, a, b, out: torch.baddbmm(c, a, b, out=out),
        (rand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5), rand(2, 3, 5)), 2 * MM, None, F32 * (30 + 24 + 40 + 30),
    ),
    "complex bmm": (
        torch.bmm, (leaf(2, 3, 4, dtype=torch.cfloat), leaf(2, 4, 5, dtype=torch.cfloat)), 4 * 2 * MM, 4 * 4 * MM,
        C64 * (24 + 40 + 30),
    ),
    # A^2, A^4 and A^4 A
    "matrix_power": (partial(torch.linalg.matrix_power, n=5), (rand(4, 4),), 3 * 2 * 64, None, None),
    "inner": (torch.inner, (rand(3, 4), rand(5, 4)), MM, None, None),
    "batched dot": (torch.einsum, ("bi,bi->b", rand(3, 7), rand(3, 7)), 2 * 3 * 7, None, None),
    "weight vector": (F.linear, (rand(3, 4), rand(4)), 2 * 3 * 4, None, None),
    "wide integers": (torch.mm, (torch.ones(3, 4).long(), torch.ones(4, 5).long()), MM, None, I64 * (12 + 20 + 15)),
    # a slice of the result's matrix: only its 15 elements are read and written
    "product into a view": (
        lambda out, a, b: out[:, :5].addmm_(a, b), (rand(3, 9), rand(3, 4), rand(4, 5)), MM, None,
        F32 * (15 + 12 + 20 + 15),
    ),
    # four equal matrices are stored once
    "expanded operand": (
        lambda x, w: x.expand(4, 3, 5) @ w, (rand(1, 3, 5), rand(5, 2)), 2 * 12 * 5 * 2, None, F32 * (15 + 10 + 24),
    ),
}  # fmt: skip

CONVOLUTIONS = {
    # 2 x 7 input positions, each with 6 channels x 2 per group x 5; output (7 - 1) 3 - 2 + 5 + 2 = 23 long
    "transposed, grouped, output_padding": (
        nn.ConvTranspose1d(6, 4, 5, stride=3, padding=1, output_padding=2, groups=2), (leaf(2, 6, 7),),
        2 * 14 * 6 * 2 * 5, 4 * 14 * 6 * 2 * 5, F32 * (84 + 60 + 4 + 2 * 4 * 23),
    ),
    "transposed, dilated": (
        nn.ConvTranspose3d(4, 6, 3, stride=2, dilation=2, groups=2), (leaf(2, 4, 3, 3, 3),), 2 * 54 * 4 * 3 * 27,
        4 * 54 * 4 * 3 * 27, None,
    ),
    "unbatched, grouped": (
        nn.Conv2d(4, 6, 3, groups=2), (leaf(4, 8, 8),), 2 * 36 * 6 * 2 * 9, 4 * 36 * 6 * 2 * 9, None,
    ),
    # torch makes one complex convolution out of three real ones
    "complex": (
        nn.Conv1d(3, 4, 3, bias=False, dtype=torch.cfloat), (rand(2, 3, 8, dtype=torch.cfloat),),
        3 * 2 * 12 * 4 * 9, None, None,
    ),
    "circular padding": (
        nn.Conv1d(3, 4, 3, padding=1, padding_mode="circular"), (rand(2, 3, 8),), 2 * 16 * 4 * 9, None, None,
    ),
    "time first": (
        torch.conv_tbc, (leaf(8, 2, 3), leaf(3, 3, 4), leaf(4)), 2 * 12 * 4 * 9, 4 * 12 * 4 * 9, None,
    ),
    # 5 x 2 images with one weight; with a weight each, 5 groups: the same work
    "vmap": (
        lambda x, w: torch.vmap(lambda one: F.conv1d(one, w))(x), (rand(5, 2, 3, 8), rand(4, 3, 3)),
        2 * 10 * 6 * 4 * 9, None, None,
    ),
    "vmap over weights": (
        torch.vmap(F.conv1d), (rand(5, 2, 3, 8), rand(5, 4, 3, 3)), 2 * 10 * 6 * 4 * 9, None, None,
    ),
    # columns: 27 x 16, made by a copy of 108 elements
    "unfold": (
        lambda x, w: w @ F.unfold(x, 3), (rand(1, 3, 6, 6), rand(4, 27)), 2 * 4 * 27 * 16, None,
        F32 * (108 + 432 + 432 + 108 + 64),
    ),
    "fold": (lambda x: F.fold(x, (6, 6), 3), (rand(1, 27, 16),), 0, None, F32 * (432 + 108)),
}  # fmt: skip

DENSE = torch.zeros(6, 8)
DENSE[[0, 2, 5, 4, 5], [1, 3, 5, 0, 7]] = 2.0  # 5 stored elements; in 2 x 2 blocks also 5, no two in one
SPARSE = {
    # row ends, columns, values, the dense operand, the result
    "csr": (
        torch.matmul, (DENSE.to_sparse_csr(), rand(8, 3)), 2 * 5 * 3, None, I64 * (7 + 5) + F32 * (5 + 24 + 18),
    ),
    "csr times vector": (torch.mv, (DENSE.to_sparse_csr(), rand(8)), 2 * 5, None, None),
    "bsr": (torch.matmul, (DENSE.to_sparse_bsr((2, 2)), rand(8, 3)), 2 * 5 * 4 * 3, None, None),
    "coo, dense gradient": (torch.sparse.mm, (DENSE.to_sparse(), leaf(8, 3)), 2 * 5 * 3, 2 * 5 * 3, None),
    "coo, added": (torch.sparse.addmm, (rand(6, 3), DENSE.to_sparse(), rand(8, 3)), 2 * 5 * 3, None, None),
}  # fmt: skip

CELL = 4 * 8 * 6 + 4 * 8 * 3 + 3 * 8  # LSTM of 8 with projection to 3: input (6), state (3) and projection matrices
STEPS = 5 * 2
RECURRENT = {
    # two layers, two directions, the second layer's input is 2 x 3 = 6 wide too. Backward: all dW; dx everywhere;
    # dh except in the first of 5 steps; and through the projection
    "lstm, projected both ways": (
        lambda m, x: m(x)[0], (nn.LSTM(6, 8, 2, bidirectional=True, proj_size=3), leaf(5, 2, 6)),
        2 * STEPS * 4 * CELL,
        2 * 4 * (STEPS * CELL + STEPS * 4 * 8 * 6 + (STEPS - 2) * 4 * 8 * 3 + STEPS * 3 * 8), None,
    ),
    # the input needs no gradient: dW, and dh of four steps
    "gru both ways": (
        lambda m, x: m(x)[0], (nn.GRU(6, 8, bidirectional=True, batch_first=True), rand(2, 5, 6)),
        2 * STEPS * 2 * 24 * 14, 2 * 2 * (STEPS * 24 * 14 + (STEPS - 2) * 24 * 8), None,
    ),
    "gru, unbatched": (lambda m, x: m(x)[0], (nn.GRU(6, 8), rand(5, 6)), 2 * 5 * 24 * 14, None, None),
    # one step: dW and dx, no dh
    "cell": (
        lambda m, x: m(x)[0], (nn.LSTMCell(6, 8), leaf(3, 6)), 2 * 3 * 32 * 14, 2 * 3 * 32 * (14 + 6), None,
    ),
    # lengths 3 and 5: 8 steps in each direction
    "packed, unsorted": (
        lambda m, x: m(pack_padded_sequence(x, torch.tensor([3, 5]), batch_first=True, enforce_sorted=False))[0].data,
        (nn.LSTM(6, 8, bidirectional=True, batch_first=True), rand(2, 5, 6)), 2 * 8 * 2 * 32 * 14, None, None,
    ),
}  # fmt: skip

MLP = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
ONCE = 2 * 5 * (8 * 16 + 16 * 4)


def selective(model, x):
    contexts = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    return checkpoint(model, x, use_reentrant=False, context_fn=contexts)


def gradient_penalty(model, x):
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return gradient.pow(2).sum()


def ensemble(base, x):
    parameters, buffers = func.stack_module_state([copy.deepcopy(base) for _ in range(3)])
    return torch.vmap(lambda p, b: func.functional_call(base, (p, b), (x,)))(parameters, buffers)


TRANSFORMS = {
    # the product and its tangent, and torch multiplies with the zero tangent of w too
    "jvp": (lambda x, w: func.jvp(lambda a: a @ w, (x,), (x,)), (rand(3, 4), rand(4, 5)), 3 * MM, None, None),
    # the value, then one product of all 3 unit vectors with w
    "jacrev": (
        lambda x, w: func.jacrev(lambda a: w @ a)(x), (rand(4), rand(3, 4)), 2 * 12 + 2 * 3 * 12, None, None,
    ),
    # the value and dx
    "func.grad": (
        lambda x, w: func.grad(lambda a: (a @ w).pow(2).sum())(x), (rand(3, 4), rand(4, 5)), 2 * MM, None, None,
    ),
    "ensemble": (ensemble, (nn.Linear(8, 4), rand(5, 8)), 3 * 2 * 5 * 32, None, None),
    # dx inside the program; outside, dW of that product only, since y's sum has a constant gradient
    "gradient penalty": (gradient_penalty, (nn.Linear(8, 4), leaf(3, 8)), 2 * 3 * 32, 2 * (2 * 3 * 32), None),
    # the whole forward again, then dX and dW
    "checkpoint, reentrant": (partial(checkpoint, MLP, use_reentrant=True), (leaf(5, 8),), ONCE, 3 * ONCE, None),
    # the products are kept, only GELU runs again
    "checkpoint, selective": (selective, (MLP, leaf(5, 8)), ONCE, 2 * ONCE, None),
    "weight_norm": (parametrizations.weight_norm(nn.Linear(8, 4)), (leaf(3, 8),), 2 * 96, 4 * 96, None),
    # a power iteration (W v, W^T u), then u (W v), all 4 x 8, and the layer
    "spectral_norm": (
        parametrizations.spectral_norm(nn.Linear(8, 4)), (rand(3, 8),), 3 * 2 * 32 + 2 * 4 + 2 * 96, None, None,
    ),
    "DataParallel": (nn.DataParallel(MLP), (leaf(5, 8),), ONCE, 2 * ONCE, None),
    "fft": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), (rand(4, 16),), 0, None, None),
}  # fmt: skip

IDS, BAGS, TABLE = torch.tensor([1, 1, 4, 7]), torch.tensor([0, 3]), rand(10, 16)


def returning(change):
    def program(x):
        change(x)
        return x

    return program


MOVES = {
    # 4 ids, 2 offsets, 3 distinct rows in, 2 rows out; torch also keeps a bag number per id, 2 sizes and 2 maxima
    "embedding bag": (
        nn.EmbeddingBag(10, 16), (IDS, BAGS), 0, 0, I64 * (4 + 2) + F32 * 16 * (3 + 2) + I64 * (4 + 2 + 2),
    ),
    "in-place on rows": (returning(lambda x: x[:2].add_(1)), (rand(6, 10),), 0, None, F32 * 2 * 20),
    "in-place on every second column": (returning(lambda x: x[:, ::2].mul_(2)), (rand(6, 10),), 0, None, F32 * 2 * 30),
    # element-wise, although torch does not tag them so
    "floor_divide": (torch.floor_divide, (rand(6, 10), 2), 0, None, F32 * 2 * 60),
    "isnan": (torch.isnan, (rand(6, 10),), 0, None, (F32 + 1) * 60),
    "in-place abs": (returning(lambda x: x.abs_()), (rand(6, 10),), 0, None, F32 * 2 * 60),
    "in-place comparison": (returning(lambda x: x.eq_(0)), (rand(6, 10),), 0, None, F32 * 2 * 60),
    "rows weighted in a bag": (
        lambda w: F.embedding_bag(IDS, TABLE, BAGS, mode="sum", per_sample_weights=w), (leaf(4),), 0, 0, None,
    ),
    # each once in, once out
    "diag_embed": (torch.diag_embed, (rand(4),), 0, None, F32 * (4 + 16)),
    "pool in space": (nn.AdaptiveAvgPool3d(2), (leaf(1, 1, 4, 4, 4),), 0, 0, F32 * (64 + 8)),
    "mirrored border": (nn.ReflectionPad2d(1), (leaf(1, 1, 4, 4),), 0, 0, F32 * (16 + 36)),
}  # fmt: skip

FAMILIES = (PRODUCTS, CONVOLUTIONS, SPARSE, RECURRENT, TRANSFORMS, MOVES)
PROGRAMS = {name: program for family in FAMILIES for name, program in family.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(trace, name):
    program, args, flops, backward, moved = PROGRAMS[name]
    check(trace, program, args, flops, backward, moved)


def test_attention_with_own_widths_and_appended_keys(trace):
    layer = nn.MultiheadAttention(16, 4, add_bias_kv=True, add_zero_attn=True, kdim=12, vdim=10, batch_first=True)
    args = layer, leaf(2, 5, 16), leaf(2, 7, 12), leaf(2, 7, 10)
    projections = 2 * 10 * 16 * 16 + 2 * 14 * 12 * 16 + 2 * 14 * 10 * 16 + 2 * 10 * 16 * 16
    flops = projections + 4 * 2 * 5 * (7 + 2) * 16  # a learned and a zero key are appended
    check(trace, lambda m, *qkv: m(*qkv)[0], args, flops, 2 * flops)


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_nested_fast_path_drops_the_padding(trace, target):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 2 + [True] * 3])
    rows, pairs = 5 + 2, 5 * 5 + 2 * 2
    layer = 2 * rows * 16 * 64 + 4 * pairs * 16 + 4 * rows * 16 * 32
    check(
        trace,
        lambda m, x, p: no_grad(m, x, src_key_padding_mask=p),
        (encoder, rand(2, 5, 16), padding),
        2 * layer,
        target=target,
    )


@pytest.mark.parametrize("attention", ["flash", "efficient", "math"])
@pytest.mark.parametrize("options", [{"dropout_p": 0.1}, {"attn_mask": True}, {"enable_gqa": True}])
@pytest.mark.parametrize(("device", "dtype"), [("cpu", torch.float32), ("meta", torch.float16)])
def test_attention_options(trace, attention, options, device, dtype):
    kv_heads, keys = (2, 24) if "enable_gqa" in options else (8, 16)
    make = partial(leaf, dtype=dtype, device=device)
    args = make(2, 8, 16, 4), make(2, kv_heads, keys, 4), make(2, kv_heads, keys, 4)
    if "attn_mask" in options:
        options = {"attn_mask": rand(16, 16, dtype=dtype, device=device)}
    one = 2 * 2 * 8 * 16 * keys * 4  # a product; fused backward: five, plain: four
    program = partial(F.scaled_dot_product_attention, **options)
    check(trace, program, args, 2 * one, (4 if attention == "math" else 5) * one, attention=attention)


def test_attention_without_heads_is_never_fused(trace):
    args = [leaf(2, 16, 4) for _ in range(3)]
    check(trace, F.scaled_dot_product_attention, args, 2 * 2 * 2 * 16 * 16 * 4, 4 * 2 * 2 * 16 * 16 * 4)


def test_rowwise_scales(trace):
    """fp8 operands and fp32 scales, 32 for the rows and 48 for the columns; a bf16 result."""
    a, b = (torch.empty(rows, 64, device="meta", dtype=torch.float8_e4m3fn) for rows in (32, 48))
    scales = torch.empty(32, 1, device="meta"), torch.empty(1, 48, device="meta")
    scaled = partial(torch._scaled_mm, out_dtype=torch.bfloat16)
    moved = FP8 * (32 + 48) * 64 + F32 * (32 + 48) + BF16 * 32 * 48
    result = check(trace, scaled, (a, b.t(), *scales), 2 * 32 * 48 * 64, None, moved)
    assert result.calls[0].pipe == "tensor_fp8_e4m3"


@pytest.mark.skipif(not hasattr(torch.ops.aten.mm, "dtype"), reason="this torch has no mm with a wider result")
def test_wide_result_of_narrow_operands(trace):
    args = rand(3, 4, dtype=torch.bfloat16, device="meta"), rand(4, 5, dtype=torch.bfloat16, device="meta")
    result = check(trace, partial(torch.mm, out_dtype=torch.float32), args, MM, None, BF16 * (12 + 20) + F32 * 15)
    assert result.calls[0].pipe == "tensor_bf16_fp32"


def test_autocast_chooses_the_pipe(trace):
    def program(model, x):
        with torch.autocast("cpu", dtype=torch.float16):
            return model(x)

    result = check(trace, program, (nn.Linear(16, 8), rand(4, 16)), 2 * 4 * 16 * 8)
    assert {c.pipe for c in result.calls if c.flops} == {"tensor_fp16_fp32"}


def test_deformable_convolution(trace):
    deform = pytest.importorskip("torchvision.ops").DeformConv2d(4, 6, 3)
    one = 2 * 36 * 6 * 4 * 9
    check(trace, deform, (leaf(1, 4, 8, 8), leaf(1, 18, 6, 6)), one, 2 * one)


@pytest.mark.filterwarnings("ignore")
def test_dynamically_quantised_layer(trace):
    if "none" in torch.backends.quantized.supported_engines and len(torch.backends.quantized.supported_engines) == 1:
        pytest.skip("no engine for quantised layers in this build of torch")
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(16, 8)), {nn.Linear})
    assert check(trace, model, (rand(3, 16),), 2 * 3 * 16 * 8).by_pipe()["tensor_int8"].flops == 2 * 3 * 16 * 8


@pytest.mark.skipif(not hasattr(F, "linear_cross_entropy"), reason="torch before 2.14")
def test_fused_classifier_and_loss(trace):
    """The logits; their gradients in the same pass if the loss is one number, else later, from logits made again."""
    args, target = (leaf(6, 8), leaf(10, 8)), torch.arange(6)
    logits, options = 2 * 6 * 8 * 10, nn.LinearCrossEntropyOptions()
    program = partial(F.linear_cross_entropy, target=target, options=options)
    check(trace, program, args, 3 * logits, 0)
    dots = 2 * (2 * 6)  # the loss of 6 rows, in two parts
    check(trace, partial(program, reduction="none"), args, logits, 3 * logits + dots)


@pytest.mark.parametrize("solver", [torch.linalg.inv, torch.linalg.cholesky, torch.linalg.svdvals])
def test_factorisations_are_named_as_uncounted(solver):
    result = roofline.trace(solver, (torch.eye(4),))
    assert sum(result.uncounted.values()) == 1
    assert result.flops == 0


def test_a_traced_model_can_be_copied_and_pickled_as_before():
    model = copy.deepcopy(MLP)
    roofline.trace(model, (leaf(5, 8),), backward=True)
    restored = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert set(vars(restored)) == set(vars(MLP))
    assert restored.state_dict().keys() == MLP.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(restored.parameters(), MLP.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("missing")])
def test_an_exception_leaves_nothing_behind(error):
    def failing(model, x):
        model(x)
        raise error

    with pytest.raises(ModelError):
        roofline.trace(failing, (MLP, rand(5, 8)))
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not nn.modules.module._global_forward_pre_hooks
    assert roofline.trace(MLP, (rand(5, 8),)).flops == ONCE
