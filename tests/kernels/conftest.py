"""Triton kernels on the CPU, in a process of their own: Triton chooses to interpret when it is imported."""

import importlib
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch.multiprocessing

from roofline.machine.record import Device
from roofline.measure.arena import TorchArena


def launch(module, kernel, grid, arguments, meta):
    """Runs in the interpreting process."""
    getattr(importlib.import_module(module), kernel)[grid](*arguments, **meta)


@pytest.fixture(scope="session")
def interpret():
    """`interpret(kernel, grid, *arguments, **meta)` runs a `@triton.jit` function on CPU tensors, writing to them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        patch.syspath_prepend(Path(__file__).parents[2])
        with ProcessPoolExecutor(1, torch.multiprocessing.get_context("spawn")) as pool:

            def run(kernel, grid, *arguments, **meta):
                job = pool.submit(launch, kernel.fn.__module__, kernel.fn.__name__, grid, arguments, meta)
                error = job.exception()
                # Triton 3.6 relies on a conversion that NumPy 2.4 dropped.
                if "0-dimensional arrays" in str(error) and not os.environ.get("CI"):
                    pytest.skip(f"the interpreter of this Triton does not know this NumPy: {error}")
                job.result()

            yield run


def toy(capability="9.0"):
    """A small GPU: 3 SMs, 1 MiB of L2."""
    return Device(name="toy", kind="cuda", compute_capability=capability, sm_count=3, l2_bytes=1 << 20)


@pytest.fixture
def cpu_arena():
    """`cpu_arena(capability)`: the memory of a small GPU, on the CPU."""
    return lambda capability="9.0": TorchArena(toy(capability), torch.device("cpu"), 1 << 34, None, [])


@pytest.fixture
def emulate(monkeypatch):
    """`emulate(module, function)`: launches of CUDA C call `function(name, options, grid, block, *arguments)` instead.

    Returns the list that grids, blocks and arguments of all launches are put in.
    """

    def install(module, function=lambda *_: None):
        launches = []

        def launcher(source, name, options, device):
            def launch(grid, block, arguments):
                launches.append((grid, block, arguments))
                function(name, options, grid, block, *arguments)

            return launch

        monkeypatch.setattr(module, "launcher", launcher)
        return launches

    return install
