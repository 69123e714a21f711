"""`python -m roofline.env`: every way a backend can fail is one line, and the command still answers."""

import ctypes
import json
import subprocess
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from roofline import env
from roofline.errors import UsageError
from roofline.report.environment import environment_tables

NO_DRIVER = "no NVIDIA driver (libcuda.so.1 is missing or does not load)"


@pytest.fixture(autouse=True)
def fresh():
    """Reasons are remembered for the life of a process; a test starts and ends without."""
    env._backend.cache_clear()
    yield
    env._backend.cache_clear()


@pytest.fixture
def driver(monkeypatch):
    """Pretend that a driver supports this CUDA version; None: there is no driver."""

    def pretend(version):
        monkeypatch.setattr(env, "driver_cuda_version", lambda: version)

    return pretend


def fake(monkeypatch, name, **attributes):
    """Put a module in the place of the real one; an exception as an attribute is raised when it is called."""
    module = ModuleType(name)
    module.__version__ = "9.9"
    for key, value in attributes.items():
        setattr(module, key, raising(value) if isinstance(value, Exception) else value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def raising(error):
    def call(*_, **__):
        raise error

    return call


def without(monkeypatch, name):
    """`import name` fails as it does where the package is not installed."""
    real = __import__

    def importing(module, *args, **kwargs):
        if module.split(".")[0] == name:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(module, *args, **kwargs)

    for loaded in [m for m in sys.modules if m.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr("builtins.__import__", importing)


def fake_torch(monkeypatch, cuda="13.0", ones=None):
    return fake(monkeypatch, "torch", version=SimpleNamespace(cuda=cuda), ones=ones)


@pytest.mark.parametrize("name", ["cuda", "triton", "cupy"])
def test_without_a_driver_gpu_backends_say_so(driver, name):
    driver(None)
    assert env.backend_reason(name) == NO_DRIVER


def test_triton_missing_says_what_to_install(driver, monkeypatch):
    driver(13000)
    without(monkeypatch, "triton")
    assert env.backend_reason("triton") == "triton is not installed: pip install 'roofline'"


def test_cupy_missing_says_which_extras_there_are(driver, monkeypatch):
    driver(13000)
    without(monkeypatch, "cupy")
    assert env.backend_reason("cupy").startswith("cupy is not installed: pip install 'roofline[cuda13] or")


def test_cupy_that_fails_at_import_is_a_reason(driver, monkeypatch):
    driver(13000)
    real = __import__

    def importing(module, *args, **kwargs):
        if module == "cupy":
            raise ImportError("libcuda.so.1: cannot open shared object file:\nNo such file or directory")
        return real(module, *args, **kwargs)

    monkeypatch.setattr("builtins.__import__", importing)
    expected = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    assert env.backend_reason("cupy") == expected


def test_cupy_that_fails_at_first_use_is_a_reason(driver, monkeypatch):
    driver(13000)
    fake(monkeypatch, "cupy", RawModule=RuntimeError("nvrtc: error: failed to open libnvrtc-builtins"))
    assert env.backend_reason("cupy") == "nvrtc: error: failed to open libnvrtc-builtins"


def test_cupy_built_for_a_newer_driver_names_what_the_driver_supports(driver, monkeypatch):
    driver(12020)
    error = RuntimeError(
        "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    )
    fake(monkeypatch, "cupy", RawModule=error)
    assert env.backend_reason("cupy").startswith("the driver is too old, it supports CUDA 12.2: cudaError")


def test_cupy_that_works_has_no_reason(driver, monkeypatch):
    driver(13000)
    launched = []
    kernel = SimpleNamespace(get_function=lambda name: lambda *launch: launched.append((name, *launch)))
    runtime = SimpleNamespace(deviceSynchronize=lambda: None)
    fake(monkeypatch, "cupy", RawModule=lambda code: kernel, cuda=SimpleNamespace(runtime=runtime))
    assert env.backend_reason("cupy") is None
    assert launched == [("nothing", (1,), (1,), ())]


@pytest.mark.parametrize(
    ("found", "needed", "usable"),
    # A build for CUDA 12.8 runs on every driver of CUDA 12 (minor-version compatibility) and on newer ones.
    [
        (11040, "12.8", False),
        (12020, "12.8", True),
        (12080, "13.0", False),
        (13000, "13.0", True),
        (13000, "12.4", True),
    ],
)
def test_a_driver_too_old_for_torch_is_one_line_with_both_versions(
    driver, monkeypatch, found, needed, usable
):
    driver(found)
    array = SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 2.0))
    fake_torch(monkeypatch, cuda=needed, ones=lambda *_, **__: array)
    reason = env.backend_reason("cuda")
    assert (reason is None) == usable
    if not usable:
        have = f"{found // 1000}.{found % 1000 // 10}"
        assert reason.startswith(
            f"the driver is too old: it supports CUDA {have}, torch needs {needed}. Update"
        )
        assert "\n" not in reason


def test_torch_without_cuda_says_so(driver, monkeypatch):
    driver(13000)
    fake_torch(monkeypatch, cuda=None)
    assert env.backend_reason("cuda") == "torch 9.9 was built without CUDA"


def test_hidden_gpus_name_the_variable_that_hides_them(driver, monkeypatch):
    driver(13000)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    fake_torch(monkeypatch, ones=raising(RuntimeError("No CUDA GPUs are available")))
    assert env.backend_reason("cuda") == "No CUDA GPUs are available: CUDA_VISIBLE_DEVICES is ''"


def test_triton_without_a_compiler_is_a_reason(driver, monkeypatch):
    driver(13000)

    class Driver:
        @property
        def active(self):
            raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")

    fake(monkeypatch, "triton", runtime=SimpleNamespace(driver=Driver()))
    assert env.backend_reason("triton").startswith("Failed to find C compiler")


def test_an_error_without_words_is_called_by_its_name():
    assert env.explain(OSError()) == "OSError"
    assert env.explain(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("name", ["torch", "nvrtc", "matplotlib"])
def test_backends_of_this_environment_work(name):
    assert env.backend_reason(name) is None
    assert env._backend(name).version


def test_an_unknown_backend_lists_those_there_are():
    with pytest.raises(UsageError, match=r"'opencl'.*torch, cuda, triton, cupy"):
        env.backend_reason("opencl")


def test_a_reason_is_found_out_once(driver, monkeypatch):
    driver(13000)
    calls = []
    fake(monkeypatch, "cupy", RawModule=lambda code: calls.append(code) or raising(RuntimeError("no"))())
    assert env.backend_reason("cupy") == env.backend_reason("cupy") == "no"
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("version", "extra"),
    [(None, None), (11080, None), (12000, "cuda12"), (12090, "cuda12"), (13000, "cuda13"), (13020, "cuda13")],
)
def test_the_cupy_that_fits_a_driver(version, extra):
    assert env.cupy_extra(version) == extra


@pytest.mark.parametrize(("status", "value", "version"), [(0, 13000, 13000), (0, 0, None), (3, 12000, None)])
def test_driver_version_as_the_driver_library_answers(monkeypatch, status, value, version):
    def answer(pointer):
        pointer._obj.value = value
        return status

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuDriverGetVersion=answer))
    assert env.driver_cuda_version() == version


def test_no_driver_library_is_no_driver(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", raising(OSError("libcuda.so.1: cannot open shared object file")))
    assert env.driver_cuda_version() is None


GPU = env.Gpu(index=0, name="NVIDIA A30", uuid="GPU-a", compute_capability="8.0", memory_bytes=24 * 2**30)


def test_gpus_are_matched_by_uuid_not_by_number():
    # CUDA_VISIBLE_DEVICES=1: torch's GPU 0 is NVML's second.
    first, second = replace(GPU, index=None, uuid="GPU-b"), replace(GPU, index=None, mig=True)
    assert env.merge_gpus((GPU,), (first, second)) == (replace(GPU, mig=True), first)


def test_a_mig_slice_is_known_by_its_name():
    piece = replace(GPU, name="NVIDIA A30 MIG 1g.6gb", uuid="MIG-c")
    assert [gpu.mig for gpu in env.merge_gpus((piece,), ())] == [True]


def test_gpus_as_torch_and_nvml_report_them(monkeypatch):
    properties = SimpleNamespace(name="NVIDIA A30", uuid="a", major=8, minor=0, total_memory=24 * 2**30)
    cuda = SimpleNamespace(device_count=lambda: 1, get_device_properties=lambda index: properties)
    fake(monkeypatch, "torch", cuda=cuda)
    fake(
        monkeypatch,
        "pynvml",
        NVMLError=LookupError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMigMode=LookupError("not supported"),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (8, 0),
        nvmlDeviceGetName=lambda handle: "NVIDIA A30",
        nvmlDeviceGetUUID=lambda handle: "GPU-a",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=24 * 2**30),
    )
    assert env._torch_gpus() == (GPU,)
    assert env._nvml_gpus() == (replace(GPU, index=None),)


def test_looking_for_gpus_survives_a_broken_stack():
    assert env._safely(raising(RuntimeError("driver shut down"))) == ()


ENVIRONMENT = env.Environment(
    roofline="0.1.0",
    python="3.12.1",
    system="Linux 6 x86_64",
    cpu="A CPU",
    cores=4,
    memory_bytes=8 * 10**9,
    driver="580.1",
    driver_cuda="13.0",
    variables={"CUDA_VISIBLE_DEVICES": "1"},
    gpus=(GPU, replace(GPU, index=None, name="NVIDIA T4", mig=True)),
    backends=(
        env.Backend(name="torch", serves="tracing", version="2.11", reason=None),
        env.Backend(name="cupy", serves="FMA", version=None, reason="install 'roofline[cuda13]'"),
    ),
)


def printed(environment):
    console = Console(width=120)
    with console.capture() as capture:
        console.print(environment_tables(environment))
    return capture.get()


def test_tables_show_everything_and_lose_nothing_to_markup():
    text = printed(ENVIRONMENT)
    for words in (
        "580.1, supports CUDA 13.0",
        "CUDA_VISIBLE_DEVICES",
        "cuda:0",
        "not visible",
        "25.8 GB",
        "MIG",
    ):
        assert words in text
    assert "install 'roofline[cuda13]'" in text


def test_tables_without_a_gpu_say_what_the_probe_does():
    text = printed(replace(ENVIRONMENT, gpus=(), driver=None, driver_cuda=None))
    assert "No GPU found: `roofline probe` measures the CPU." in text and "none" in text


@pytest.mark.slow
def test_the_command_answers_on_this_machine():
    out = subprocess.run(
        [sys.executable, "-m", "roofline.env", "--json"], capture_output=True, text=True, timeout=120
    )
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)
    assert {backend["name"] for backend in found["backends"]} == set(env._CHECKS)
    # Usable or not, never both and never neither.
    assert all((b["version"] is None) != (b["reason"] is None) for b in found["backends"])
    assert found["cores"] >= 1 and found["memory_bytes"] > 0
