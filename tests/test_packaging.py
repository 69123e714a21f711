"""The wheel and the layout that makes a bare clone, `pip install .`, `-e .` and sdist → wheel all work."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")  # one worker builds the wheels for all

ROOT = Path(__file__).parents[1]
KERNELS = {f"roofline/kernels/{path.name}" for path in (ROOT / "kernels").glob("*.py")}
DATA = {
    str(path.relative_to(ROOT))
    for pattern in ("machine/specs.csv", "machine/measured/*.json", "analysis/*.json", "py.typed")
    for path in (ROOT / "roofline").glob(pattern)
}


def run(*command, cwd, **environment):
    """Output of a command; the test fails with everything it printed if it does."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source, out, *kind):
    """Build without isolation: setuptools is here, nothing is downloaded."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *kind, str(source), cwd=out)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """What a user clones: tracked and untracked files of this tree, without ignored ones, links kept."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    clone = tmp_path_factory.mktemp("checkout")
    for name in filter(None, listed):
        source, target = ROOT / name, clone / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(os.readlink(source))
            else:
                target.write_bytes(source.read_bytes())
    return clone


@pytest.fixture(scope="session")
def wheel(checkout, tmp_path_factory):
    """A wheel built straight from a checkout."""
    return build(checkout, tmp_path_factory.mktemp("wheel"), "--wheel")


@pytest.fixture(scope="session")
def sdist(checkout, tmp_path_factory):
    """A source distribution built from a checkout."""
    return build(checkout, tmp_path_factory.mktemp("sdist"), "--sdist")


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist, tmp_path_factory):
    """A wheel built from the unpacked source distribution."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = unpacked.iterdir()
    return build(source, tmp_path_factory.mktemp("again"), "--wheel")


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """A folder with nothing but the installed wheel; its dependencies come from the running environment."""
    target = tmp_path_factory.mktemp("installed")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
    )
    run(*pip, str(wheel), cwd=target)
    return target


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def from_wheel(installed, folder, *arguments):
    """Run Python in `folder` with the installed wheel in front of an editable install of this tree."""
    return run(sys.executable, *arguments, cwd=folder, PYTHONPATH=str(installed))


def test_kernels_is_a_committed_symbolic_link():
    mode, _, _, path = run("git", "ls-files", "--stage", "roofline/kernels", cwd=ROOT).split()
    assert (mode, path) == ("120000", "roofline/kernels")
    assert os.readlink(ROOT / "roofline" / "kernels") == "../kernels"


def test_the_kernels_folder_does_not_shadow_the_package_of_that_name():
    # A namespace package has no origin: any real package called "kernels" on the path goes before it.
    code = "import importlib.util as u; spec = u.find_spec('kernels'); print(spec and spec.origin)"
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "None"


def test_wheel_installs_one_top_level_package(wheel):
    tops = {name.split("/")[0] for name in contents(wheel)}
    (info,) = tops - {"roofline"}
    assert info.endswith(".dist-info")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{info}/top_level.txt").split() == [b"roofline"]
        assert f"{info}/licenses/LICENSE" in archive.namelist()


def test_wheel_holds_every_kernel_and_data_file(wheel):
    assert KERNELS and contents(wheel) >= KERNELS
    assert "roofline/machine/specs.csv" in DATA and "roofline/py.typed" in DATA
    assert contents(wheel) >= DATA


def test_wheel_holds_every_module(wheel):
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "roofline").rglob("*.py")}
    assert contents(wheel) >= {name for name in modules if "__pycache__" not in name}


def test_wheel_of_the_sdist_holds_the_same_files(wheel, wheel_of_sdist):
    def without_record(names):
        return {name for name in names if ".dist-info/" not in name}

    assert without_record(contents(wheel_of_sdist)) == without_record(contents(wheel))


@pytest.mark.parametrize(
    "command", [("roofline.probe", "--help"), ("roofline.env", "--help"), ("roofline", "--help")]
)
def test_installed_wheel_runs_from_an_empty_folder(installed, tmp_path, command):
    assert "Usage:" in from_wheel(installed, tmp_path, "-m", *command)


def test_installed_wheel_finds_its_own_data_and_kernels(installed, tmp_path):
    code = (
        "import roofline, importlib.util as u; kernel = u.find_spec('roofline.kernels.fma').origin; "
        "print(roofline.__file__, kernel, roofline.machine('A40').name, sep='|')"
    )
    package, kernel, machine = from_wheel(installed, tmp_path, "-c", code).strip().split("|")
    assert Path(package) == installed / "roofline" / "__init__.py"
    assert Path(kernel) == installed / "roofline" / "kernels" / "fma.py"
    assert machine == "A40"


@pytest.mark.parametrize("module", ["roofline.probe", "roofline.env"])
def test_a_bare_clone_runs_without_being_installed(checkout, module):
    # `python -m` puts the folder it runs in at the head of the path, before any installed roofline.
    assert "Usage:" in run(sys.executable, "-m", module, "--help", cwd=checkout)


@pytest.mark.parametrize(
    ("python", "message"),
    [("", "roofline needs Python >= 3.10; name one"), ("/bin/false", "is older than Python 3.10")],
)
@pytest.mark.parametrize("goal", ["probe", "test"])
def test_make_says_so_where_python_is_missing_or_too_old(tmp_path, goal, python, message):
    command = ["make", goal, f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and message in done.stderr
    assert not (tmp_path / "venv").exists()


def test_every_make_command_explains_itself():
    listed = run("make", "help", cwd=ROOT)
    assert {line.split("\t")[0] for line in listed.splitlines()} >= {"probe", "test", "check", "plots"}
    assert "Set up, then measure" in listed
