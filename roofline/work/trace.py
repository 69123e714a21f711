"""`roofline.trace`: run a program once, on whatever device its tensors are (meta too), and list its op calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import roofline.work.formulas as _formulas  # noqa: F401  (registers the formulas)
from roofline.errors import ModelError, RooflineError, UsageError
from roofline.work.guard import Guard
from roofline.work.intercept import intercepting
from roofline.work.modules import ModuleScopes
from roofline.work.record import Call as Call
from roofline.work.record import Trace
from roofline.work.recorder import Recorder
from roofline.work.roots import Reach, reach, tensors_in
from roofline.work.storage import Storages, total_bytes

_TARGETS = ("cuda", "cpu")
_ATTENTION = ("auto", "flash", "efficient", "math")


def trace(
    model_or_function: Callable[..., Any],
    args: Sequence[Any] | Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    target: str = "cuda",
    attention: str = "auto",
    name: str | None = None,
) -> Trace:
    """Run `model_or_function(*args, **kwargs)` once and return every op call with its flops and bytes.

    `backward` also runs the backward of the sum of all floating-point outputs. `target` ("cuda" or "cpu") is the device
    whose op list is wanted, wherever the tensors are; `attention` its attention backend ("auto": what torch would
    choose). Parameters, buffers, gradients, random states and flags are put back. `ModelError` if the program fails.
    """
    positional = (args,) if isinstance(args, Tensor) else tuple(args)
    keywords = dict(kwargs or {})
    _check(model_or_function, target, attention)
    reached = reach(model_or_function, positional, keywords)
    scopes, storages, guard = ModuleScopes(reached.modules), Storages(), Guard(reached)
    _adopt(storages, reached)
    recorder = Recorder(scopes, storages, guard, target)
    with guard:
        output = _run(recorder, scopes, model_or_function, positional, keywords, backward, attention)
        guard.keep(output)
        weights = _weights(reached)
    return Trace(
        name=name or _name_of(model_or_function), calls=tuple(recorder.calls), target=target, attention=attention,
        modules=scopes.all_names, parameters=sum(w.numel() for w in weights if isinstance(w, nn.Parameter)),
        weight_bytes=total_bytes(weights), peak_activation_bytes=storages.peak_bytes, output=output,
    )  # fmt: skip


def _run(
    recorder: Recorder, scopes: ModuleScopes, program: Callable[..., Any], args: tuple[Any, ...],
    kwargs: dict[str, Any], backward: bool, attention: str,
) -> Any:  # fmt: skip
    try:
        with ExitStack() as stack:
            stack.enter_context(_eager())
            stack.enter_context(scopes.following())
            stack.enter_context(intercepting(recorder, attention))
            stack.enter_context(recorder)
            output = program(*args, **kwargs)
            if backward:
                _backward(recorder, output)
            return output
    except RooflineError:
        raise
    except Exception as error:
        where = f" in module '{scopes.failed}'" if scopes.failed else ""
        raise ModelError(
            f"{_name_of(program)} failed{where} while it was traced: {type(error).__name__}: {error}. "
            "Check that it runs by itself with these arguments."
        ) from error


def _backward(recorder: Recorder, output: Any) -> None:
    """Backward from every floating-point output that needs a gradient, each with a gradient of ones."""
    outputs = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
    if not outputs:
        raise UsageError("backward=True, but no output of the program needs a gradient.")
    with recorder.paused():
        gradients = [torch.ones_like(out) for out in outputs]
    torch.autograd.backward(outputs, gradients)


@contextmanager
def _eager() -> Iterator[None]:
    """Compiled functions run uncompiled, and are neither compiled here nor marked as not to be compiled."""
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        warnings.filterwarnings("ignore", message="Using `torch.compile\\(module\\)` when there are global hooks")
        yield


def _adopt(storages: Storages, reached: Reach) -> None:
    """Tell parameters, buffers and inputs apart."""
    for weight in _weights(reached):
        storages.adopt(weight, "parameter" if isinstance(weight, nn.Parameter) else "buffer")
    for tensor in reached.inputs:
        storages.adopt(tensor, "parameter" if isinstance(tensor, nn.Parameter) else "input")


def _weights(reached: Reach) -> list[Tensor]:
    """Distinct parameters and buffers, but for lazy ones that have no shape yet."""
    found: dict[int, Tensor] = {}
    for root in reached.modules.values():
        for tensor in (*root.parameters(), *root.buffers()):
            if not nn.parameter.is_lazy(tensor):
                found.setdefault(id(tensor), tensor)
    return list(found.values())


def _check(program: Any, target: str, attention: str) -> None:
    if not callable(program):
        raise UsageError(f"roofline.trace needs a model or a function, and got a {type(program).__name__}.")
    if target not in _TARGETS:
        raise UsageError(f"target must be one of {', '.join(_TARGETS)}, and is {target!r}.")
    if attention not in _ATTENTION:
        raise UsageError(f"attention must be one of {', '.join(_ATTENTION)}, and is {attention!r}.")


def _name_of(program: Any) -> str:
    inner = getattr(program, "_orig_mod", program)
    return type(inner).__name__ if isinstance(inner, nn.Module) else getattr(inner, "__name__", type(inner).__name__)
