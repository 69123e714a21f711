"""Triton kernels on the CPU, in a process of their own: Triton chooses to interpret when it is imported."""

import importlib
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch.multiprocessing


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
