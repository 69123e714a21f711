import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_training_step_of_the_users_is_counted_and_placed():
    """Convolution forward: 32 images x 64 channels x 32 x 32 places x 3 x 7 x 7 taps x 2 = 616.6 MFLOP.

    Backward needs only the weight's gradient, as images need none: the same again. The linear layer has
    2 x 32 x 65536 x 10 = 41.9 MFLOP, and twice that in backward. Sum: 2 x 616.6 + 3 x 41.9 = 1359 MFLOP.
    """
    script = ROOT / "examples" / "place_training_step.py"
    run = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Sum: 1.359 GFLOP" in run.stdout
    assert "aten.convolution_backward" in run.stdout
    user_code = script.read_text().split("trace = ")[1].splitlines()
    assert len(user_code) < 10
