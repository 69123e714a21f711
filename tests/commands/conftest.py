"""A small model of the user's, and a runner for commands."""

import pytest
from click.testing import CliRunner

MODEL = '''
import torch

def net(batch=2):
    """A linear layer and a relu: 2 x 4 x 8 x 16 flops at batch 4."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
    return model, (torch.randn(batch, 8),)

def fixed():
    return torch.nn.Linear(8, 16), (torch.randn(2, 8),), {}

def wrong():
    return torch.nn.Linear(8, 16)

def failing():
    return torch.nn.Linear(8, 16), (torch.randn(2, 9),)

def broken():
    raise ValueError("no weights here")
'''


@pytest.fixture
def toy_module(tmp_path, monkeypatch):
    """The current folder holds the module `toymodel`."""
    (tmp_path / "toymodel.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "toymodel", raising=False)
    return tmp_path


@pytest.fixture
def invoke():
    """Runs a command in this process."""

    def run(command, *arguments):
        return CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=True)

    return run
