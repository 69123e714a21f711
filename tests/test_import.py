"""`import roofline` must stay cheap and must not need a GPU stack."""

import subprocess
import sys


def test_import_loads_nothing_heavy():
    code = "import sys, roofline; print(sorted(m for m in ('torch','triton','cupy','matplotlib','numpy','scipy') if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
