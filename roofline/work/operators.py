"""What the schema of an operator says: what it writes, whether it moves anything, how it is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from roofline.work import registry
from roofline.work.formulas.elementwise import POINTWISE, entry_by_tag
from roofline.work.registry import Entry


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FACTORIES = _names("""
    empty empty_like empty_strided new_empty new_empty_strided empty_permuted _efficientzerotensor empty_quantized
    _empty_affine_quantized
""")
_METADATA = _names("""
    is_same_size _reshape_alias _unsafe_view _debug_has_internal_overlap _version set_ resize_ is_pinned record_stream
    resize_as_
    _has_compatible_shallow_copy_type _nested_tensor_offsets _nested_get_offsets _nested_get_lengths _nested_get_values
    _nested_get_ragged_idx _nested_get_min_seqlen _nested_get_max_seqlen _nested_get_jagged_dummy _assert_scalar
    sym_constrain_range sym_constrain_range_for_size _coalesced is_coalesced _coalesced_ dense_dim sparse_dim _dimI
    _dimV _nnz _fw_primal _backward q_scale q_zero_point qscheme q_per_channel_axis transpose_ squeeze_ unsqueeze_ t_
    swapaxes_ swapdims_ as_strided_ detach_ rename_ requires_grad_
""")
_VALUES = _names("_local_scalar_dense equal is_nonzero allclose")
"""Ops that return no tensor and still read their argument."""
_OVERWRITING = _names("""
    copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ _foreach_copy_
    _foreach_zero_ eye arange
""")
"""In-place ops that do not read what they replace."""
_UNDECLARED = {
    "native_batch_norm": (3, 4),
    "cudnn_batch_norm": (3, 4),
    "miopen_batch_norm": (3, 4),
    "_batch_norm_impl_index": (3, 4),
    "instance_norm": (3, 4),
}
"""Arguments that an op writes although its schema does not say so: the running statistics."""


@dataclass(frozen=True)
class Operator:
    """An operator, as the recorder needs it."""

    name: str
    """Namespace and overload packet: `aten.addmm`."""
    entry: Entry | None
    """How it is counted; None: no formula knows it."""
    moves: bool
    """False for views, queries and bare allocations: nothing to record."""
    factory: bool
    composite: bool
    """Made of other operators only, and not counted as one: it is taken apart."""
    writes: tuple[int | str, ...]
    """Arguments (position or keyword) it writes."""
    unread: frozenset[int | str]
    """Arguments it does not read: results, and what it overwrites."""
    hidden: tuple[int, ...]
    """Arguments it writes without declaring it."""


def describe(func: Any) -> Operator:
    """The facts of an `OpOverload`."""
    schema = func._schema
    short = func._opname
    name = f"{func.namespace}.{short}"
    aten = func.namespace in ("aten", "prim", "prims")
    entry = registry.lookup(name) or (entry_by_tag(func) if aten or func.namespace == "quantized" else None)
    if entry is None and func.namespace == "prims":
        entry = registry.lookup(f"aten.{short}") or POINTWISE
    written = [
        (a.name if a.kwarg_only else i, a)
        for i, a in enumerate(schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]
    hidden = _UNDECLARED.get(short, ()) if aten else ()
    results = [r.alias_info for r in schema.returns]
    view = bool(results) and not written and all(alias is not None and not alias.is_write for alias in results)
    silent = not _returns_tensors(schema) and not written and short not in _VALUES
    query = func.namespace in ("prim", "profiler") or (aten and (short in _METADATA or silent))
    overwrites = short in _OVERWRITING
    return Operator(
        name=name, entry=entry, moves=not (view or query or (aten and short in _FACTORIES)),
        factory=aten and short in _FACTORIES,
        composite=(aten or entry is None) and _is_composite(func),
        writes=(*(where for where, _ in written), *hidden),
        unread=frozenset(where for where, a in written if a.is_out or overwrites), hidden=hidden,
    )  # fmt: skip


def _returns_tensors(schema: Any) -> bool:
    return any("Tensor" in str(r.type) for r in schema.returns)


def _is_composite(func: Any) -> bool:
    if func.namespace == "prim":  # known to the interpreter only, not to the dispatcher
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def take_apart(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a composite op as the ops it is made of, by its C++ kernel: torch's Python decompositions may differ."""
    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
