"""Models by name, with inputs: timm, torchvision, Hugging Face configurations, and functions of the user.

Everything is built on the meta device: no memory, no download, random weights that are never drawn.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roofline.errors import ModelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

DTYPES = {
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp64": "float64",
}
"""Names of number formats; tf32 is fp32 with torch's TF32 switches on."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A model or function and what to call it with."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def load(
    name: str,
    *,
    batch: int | None = None,
    dtype: str | None = None,
    sequence: int | None = None,
    train: bool = False,
    channels_last: bool = False,
) -> Program:
    """The program that `name` stands for.

    A torchvision or timm name, `hf:CONFIG_OR_PATH`, or `package.module:function` with a function that returns
    (model, args) or (model, args, kwargs). `batch` is 1 and `dtype` fp32 for named models unless given;
    `sequence` is the number of tokens of a language model. Unless `train`, the weights of named models need no
    gradient. Raises `UsageError` for unknown names and missing packages.
    """
    if batch is not None and batch < 0:
        raise UsageError(f"the batch is {batch}; it cannot be negative")
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"no dtype is called '{dtype}'; there are {', '.join(DTYPES)}")
    program = _find(name, batch, sequence)
    if is_named(name) and not train:  # else every activation would be kept, as if a backward pass followed
        cast("torch.nn.Module", program.function).requires_grad_(False)
    return _prepared(program, dtype, train, channels_last)


def is_named(name: str) -> bool:
    """Whether a library builds the model of that name, and not a function of the user's."""
    source, _, rest = name.partition(":")
    return not rest or source in ("hf", *_BUILDERS)


@contextmanager
def precision(dtype: str | None) -> Iterator[None]:
    """Torch's TF32 switches on within the block if `dtype` is "tf32"; else as they are."""
    import torch

    if dtype != "tf32":
        yield
        return
    switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = True
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def _find(name: str, batch: int | None, sequence: int | None) -> Program:
    source, _, rest = name.partition(":")
    images = 1 if batch is None else batch
    if source == "hf" and rest:
        return _hugging_face(rest, images, sequence)
    if source in ("torchvision", "timm") and rest:
        return _BUILDERS[source](rest, images)
    if rest:
        return _user_function(source, rest, batch)
    for library, build in _BUILDERS.items():
        if name in names(library) or (library == "timm" and name.partition(".")[0] in names(library)):
            return build(name, images)
    raise UsageError(_unknown(name))


@lru_cache(maxsize=2)
def names(library: str) -> frozenset[str]:
    """Models that a library registers, read from its source files: importing it all takes seconds."""
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        return frozenset()
    files = sorted((Path(spec.origin).parent / "models").rglob("*.py"))
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    found = re.findall(r'^@register_model(?:\(name="(\w+)"\))?(?:.*\n)+?def (\w+)\(', text, re.MULTILINE)
    return frozenset(given or function for given, function in found)


def _unknown(name: str) -> str:
    known = {n for library in _BUILDERS for n in names(library)}
    missing = [library for library in _BUILDERS if find_spec(library) is None]
    install = f" {' and '.join(missing)} not installed: `pip install 'roofline[models]'`." if missing else ""
    near = get_close_matches(name, sorted(known), 5)
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return (
        f"no model is called '{name}'.{hint}{install} Give a torchvision or timm name, hf:CONFIG_OR_PATH, "
        "or package.module:function returning (model, args)."
    )


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"this model needs {name}, which cannot be imported ({error}): `pip install 'roofline[models]'`"
        ) from error


def _on_meta(name: str, build: Callable[[], Any]) -> Any:
    """The model built without memory; its own failure becomes a `ModelError`."""
    import torch

    try:
        try:
            with torch.device("meta"):
                return build()
        except RuntimeError:  # some compute with values while they are built, such as RegNet its widths
            return build().to("meta")
    except Exception as error:
        raise ModelError(f"building '{name}' failed: {type(error).__name__}: {error}") from error


def _meta(*shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    import torch

    return torch.empty(shape, dtype=dtype, device="meta")


def _torchvision(name: str, batch: int) -> Program:
    models = _library("torchvision.models")
    if name not in models.list_models():
        raise UsageError(f"torchvision has no model '{name}'{_near(name, models.list_models())}")
    builder = models.get_model_builder(name)
    backbone = {"weights_backbone": None} if "weights_backbone" in _parameters(builder) else {}
    model = _on_meta(name, lambda: builder(weights=None, **backbone))
    weights = getattr(models.get_model_weights(name), "DEFAULT", None)
    transform = getattr(weights.transforms, "keywords", {}) if weights else {}
    size = transform.get("crop_size", 224)
    height, width = size if isinstance(size, tuple | list) else (size, size)
    module = builder.__module__.split(".")
    if "detection" in module:
        return Program(name=name, function=model, args=([_meta(3, 800, 800) for _ in range(batch)],))
    frames = (16,) if "video" in module else ()
    return Program(name=name, function=model, args=(_meta(batch, 3, *frames, height, width),))


def _timm(name: str, batch: int) -> Program:
    timm = _library("timm")
    if not timm.is_model(name):
        raise UsageError(f"timm has no model '{name}'{_near(name, timm.list_models())}")
    model = _on_meta(name, lambda: timm.create_model(name, pretrained=False))
    shape = model.pretrained_cfg.get("input_size", (3, 224, 224))
    return Program(name=name, function=model, args=(_meta(batch, *shape),))


_BUILDERS: dict[str, Callable[[str, int], Program]] = {"torchvision": _torchvision, "timm": _timm}


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 5)
    return f". Nearest: {', '.join(near)}" if near else ""


def _hugging_face(name: str, batch: int, sequence: int | None) -> Program:
    transformers = _library("transformers")
    config = _configuration(transformers, name)
    model = _on_meta(name, lambda: _architecture(transformers, config))
    return Program(name=name, function=model, kwargs=_hf_inputs(model, config, batch, sequence))


def _configuration(transformers: Any, name: str) -> Any:
    """A local file or folder, the default configuration of a model type, or one in the local cache."""
    types = transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    try:
        if name in types and not os.path.exists(name):
            return transformers.AutoConfig.for_model(name)
        return transformers.AutoConfig.from_pretrained(name, local_files_only=True)
    except Exception as error:
        raise UsageError(
            f"'{name}' is neither a folder or file with a configuration, nor a cached one, nor a model type"
            f"{_near(name, list(types))}. Nothing is downloaded ({type(error).__name__})."
        ) from error


def _architecture(transformers: Any, config: Any) -> Any:
    """The configuration's own class, else the model with its type's usual head, else the bare one."""
    own = getattr(transformers, (getattr(config, "architectures", None) or [""])[0], None)
    if own is not None:
        return own(config)
    heads = ("Seq2SeqLM", "MaskedLM", "CausalLM", "ImageClassification")
    classes = (getattr(transformers, f"AutoModelFor{head}") for head in heads)
    chosen = next((c for c in classes if type(config) in c._model_mapping), transformers.AutoModel)
    return chosen.from_config(config)


def _pixels(config: Any, batch: int) -> torch.Tensor:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 224)
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return _meta(batch, getattr(vision, "num_channels", 3), height, width)


def _hf_inputs(model: Any, config: Any, batch: int, sequence: int | None) -> dict[str, Any]:
    """Inputs on meta by the model's main input: tokens or images."""
    import torch

    if model.main_input_name == "pixel_values":
        return {"pixel_values": _pixels(config, batch)}
    if model.main_input_name != "input_ids":
        raise UsageError(
            f"{type(model).__name__} takes {model.main_input_name}, for which no input is known here; "
            "write a function that returns (model, args, kwargs) and give package.module:function"
        )
    longest = getattr(config, "max_position_embeddings", None) or 512
    tokens = _meta(batch, sequence or min(512, longest), dtype=torch.long)
    inputs = {"input_ids": tokens}
    if hasattr(config, "vision_config") and hasattr(config, "projection_dim"):  # two encoders, as in CLIP
        inputs["pixel_values"] = _pixels(config, batch)
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens
    return inputs


def _user_function(module: str, function: str, batch: int | None) -> Program:
    name = f"{module}:{function}"
    sys.path.insert(0, os.getcwd())
    try:
        build = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot import '{name}': {error}") from error
    except Exception as error:
        raise ModelError(f"importing '{module}' failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(build):
        raise UsageError(f"{name} is a {type(build).__name__}; expected a function returning (model, args)")
    takes_batch = "batch" in _parameters(build)
    if batch is not None and not takes_batch:
        raise UsageError(f"--batch {batch} has no effect: {name} has no parameter 'batch'")
    try:
        made = build(batch=batch) if batch is not None else build()
    except Exception as error:
        raise ModelError(f"'{name}' failed: {type(error).__name__}: {error}") from error
    return _checked(name, made)


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none where Python cannot tell, as for some built-in functions."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except ValueError:
        return frozenset()


def _checked(name: str, made: Any) -> Program:
    """What the user's function returned, if it is (model, args) or (model, args, kwargs)."""
    if isinstance(made, tuple) and len(made) in (2, 3) and callable(made[0]):
        model, args, kwargs = (*made, {}) if len(made) == 2 else made
        if isinstance(args, tuple | list) and isinstance(kwargs, Mapping):
            return Program(name=name, function=model, args=tuple(args), kwargs=kwargs)
    raise UsageError(
        f"{name} must return (model, args) or (model, args, kwargs); it returned {type(made).__name__}"
    )


def _prepared(program: Program, dtype: str | None, train: bool, channels_last: bool) -> Program:
    """Number format, mode and memory layout applied to the model and to its floating-point inputs."""
    import torch
    from torch.utils._pytree import tree_map

    number = getattr(torch, DTYPES[dtype]) if dtype else None
    layout = torch.channels_last if channels_last else torch.preserve_format

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        value = value.to(number) if number else value
        return value.contiguous(memory_format=layout) if channels_last and value.dim() == 4 else value

    model = program.function
    if isinstance(model, torch.nn.Module):
        model = model.to(number) if number else model
        model = (model.to(memory_format=layout) if channels_last else model).train(train)
    return replace(
        program,
        function=model,
        args=tree_map(moved, program.args),
        kwargs=tree_map(moved, dict(program.kwargs)),
    )
