"""`import roofline` must stay cheap and must not need a GPU stack."""

import subprocess
import sys


def test_import_loads_nothing_heavy():
    heavy = ("torch", "triton", "cupy", "matplotlib", "numpy", "scipy")
    code = f"import sys, roofline; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
