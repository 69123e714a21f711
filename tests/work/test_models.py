import json

import pytest
import torch

from roofline.errors import UsageError
from roofline.work import models
from roofline.work.trace import trace


def test_names_are_those_the_libraries_register():
    torchvision, timm = pytest.importorskip("torchvision"), pytest.importorskip("timm")
    assert models.names("torchvision") == set(torchvision.models.list_models())
    assert models.names("timm") == set(timm.list_models())
    assert models.names("no_such_library") == frozenset()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet50", (4, 3, 224, 224)),
        ("inception_v3", (4, 3, 299, 299)),
        ("fcn_resnet50", (4, 3, 520, 520)),
        ("r3d_18", (4, 3, 16, 112, 112)),
        ("vit_base_patch16_224", (4, 3, 224, 224)),
        ("timm:resnet18", (4, 3, 224, 224)),
        ("vit_base_patch16_224.augreg_in21k", (4, 3, 224, 224)),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_images(name, shape):
    pytest.importorskip("torchvision")
    pytest.importorskip("timm")
    program = models.load(name, batch=4, dtype="bf16")
    (images,) = program.args
    assert images.is_meta and next(program.function.parameters()).is_meta
    assert images.dtype == next(program.function.parameters()).dtype == torch.bfloat16
    assert images.shape[:2] == shape[:2]
    if name != "fcn_resnet50":
        assert images.shape == shape


def test_a_model_that_reads_values_while_it_is_built():
    pytest.importorskip("torchvision")
    program = models.load("regnet_y_400mf")
    assert next(program.function.parameters()).is_meta


def test_detection_takes_a_list():
    pytest.importorskip("torchvision")
    program = models.load("ssd300_vgg16", batch=2)
    assert [image.shape for image in program.args[0]] == [(3, 800, 800)] * 2


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("gpt2", {"input_ids": (2, 64)}),
        ("t5", {"input_ids": (2, 64), "decoder_input_ids": (2, 64)}),
        ("vit", {"pixel_values": (2, 3, 224, 224)}),
    ],
)
def test_hugging_face_types(name, inputs):
    pytest.importorskip("transformers")
    program = models.load(f"hf:{name}", batch=2, sequence=64)
    assert {key: tuple(value.shape) for key, value in program.kwargs.items()} == inputs
    assert next(program.function.parameters()).is_meta


def test_hugging_face_configuration_of_the_users(tmp_path):
    pytest.importorskip("transformers")
    small = {
        "model_type": "gpt2",
        "n_layer": 1,
        "n_embd": 8,
        "n_head": 2,
        "n_positions": 16,
        "vocab_size": 11,
    }
    (tmp_path / "config.json").write_text(json.dumps(small))
    program = models.load(f"hf:{tmp_path}")
    assert program.kwargs["input_ids"].shape == (1, 16)  # no more than the model can take
    assert len(program.function.transformer.h) == 1


def test_train_mode_and_layout():
    pytest.importorskip("torchvision")
    program = models.load("resnet18", train=True, channels_last=True)
    assert program.function.training
    assert program.args[0].is_contiguous(memory_format=torch.channels_last)
    assert program.function.conv1.weight.is_contiguous(memory_format=torch.channels_last)
    assert not models.load("resnet18").function.training


def test_inference_frees_its_activations():
    pytest.importorskip("torchvision")
    # ResNet-50 holds the most in the first shortcut's batch norm: its input, its result and the main branch
    # (256 channels each) and the block's input (64), all 56 x 56; forward as a whole makes more than ten times that.
    held = 4 * 2 * 56 * 56 * (3 * 256 + 64)
    program = models.load("resnet50", batch=2)
    assert held <= trace(program.function, program.args).peak_activation_bytes < 1.01 * held
    assert not any(weight.requires_grad for weight in program.function.parameters())
    assert all(weight.requires_grad for weight in models.load("resnet50", train=True).function.parameters())


def test_tf32_switches_are_put_back():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with models.precision("tf32"):
        assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("resnet5O", {}, "resnet50"),
        ("timm:resnet5O", {}, "resnet50"),
        ("torchvision:vit_b_17", {}, "vit_b_16"),
        ("hf:lama", {}, "llama"),
        ("hf:wav2vec2", {}, "input_values"),
        ("os:path", {}, "is a module"),
        ("math:hypot", {}, "must return"),
        ("resnet50", {"batch": -1}, "-1"),
        ("resnet50", {"dtype": "fp12"}, "fp16"),
    ],
)
def test_what_cannot_be_loaded(name, options, text):
    for library in ("torchvision", "timm", "transformers"):
        pytest.importorskip(library)
    with pytest.raises(UsageError, match=text):
        models.load(name, **options)


@pytest.mark.parametrize("name", ["hf:gpt2", "timm:resnet18", "torchvision:resnet18"])
def test_missing_library_names_the_extra(name, monkeypatch):
    def refuse(module):
        raise ImportError(f"No module named '{module}'")

    monkeypatch.setattr(models, "import_module", refuse)
    with pytest.raises(UsageError, match=r"pip install 'roofline\[models\]'"):
        models.load(name)
