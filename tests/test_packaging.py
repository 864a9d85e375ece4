"""`pyproject.toml` describes the package correctly, and a wheel is complete."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from conftest import CommandResult

import meanfield
from meanfield import _folders
from meanfield._folders import BUNDLE_FOLDER, root_of, templates
from meanfield.errors import InputFileError, UnsupportedError
from meanfield.plotting import typeset
from meanfield.training import optimisers

CLI = Callable[..., CommandResult]

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = ("experiments", "benchmarks", "docs/extending")  # bundled in the wheel
PEERS = {"geomloss", "ott", "pykeops", "torch"}  # of the extra `bench`


def names_of(requirements: list[str]) -> set[str]:
    """The required distributions, without the package itself."""
    actual = {
        re.split(r"[\[<>=; ]", requirement)[0].lower() for requirement in requirements
    }
    return actual - {PROJECT["project"]["name"]}


def imported_distributions(*folders: str) -> set[str]:
    """The distributions whose modules the files of some folders import."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    modules = {module for file in files for module in modules_of(file)}
    ours = {"meanfield", "experiments", "benchmarks"}
    foreign = modules - set(sys.stdlib_module_names) - ours - PEERS
    homes = packages_distributions()
    return {homes[module][0].lower() for module in foreign}


def modules_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).split(".")[0]


def test_dependencies_match_the_imports():
    declared_names = names_of(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]
    optional = [*extras["formulas"], *extras["models"], *extras["train"]]
    assert (
        declared_names
        <= imported_distributions("meanfield")
        <= declared_names | names_of(optional)
    )
    assert imported_distributions("experiments", "benchmarks") <= declared_names


def test_dependencies_are_few():
    assert len(PROJECT["project"]["dependencies"]) <= 15


@pytest.mark.parametrize(
    ("name", "package", "call"),
    [
        ("train", "optax", lambda: optimisers["adam"]()),
        ("formulas", "latex2mathml.converter", lambda: typeset("$r$")),
    ],
)
def test_a_missing_extra_is_named(
    name: str, package: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=rf"meanfield-attention\[{name}\]"):
        call()


def test_a_page_needing_a_missing_extra_is_rejected_early(
    cli: CLI, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "latex2mathml", None)
    failure = cli("verify", "lemma-4", "--html", "lemmas.html")
    assert "[formulas]" in failure.err
    assert failure.out == ""


def test_every_marker_is_used():
    tests = [file.read_text(encoding="utf-8") for file in ROOT.glob("tests/test_*.py")]
    for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]:
        name = re.split(r"[:(]", marker)[0]
        assert any(f"mark.{name}" in text for text in tests)


def test_folders_of_an_installed_package_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another package or the working folder may have a folder `experiments`."""
    package = tmp_path / "site" / "meanfield"
    (package / BUNDLE_FOLDER / "experiments").mkdir(parents=True)
    (tmp_path / "site" / "experiments").mkdir()
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(_folders, "__file__", str(package / "_folders.py"))
    monkeypatch.chdir(tmp_path)
    assert root_of("experiments") == package / BUNDLE_FOLDER
    with pytest.raises(InputFileError, match="`benchmarks/` is missing"):
        root_of("benchmarks")
    with pytest.raises(InputFileError, match="`docs/extending/` is missing"):
        templates()


def test_folders_of_a_checkout_stand_beside_the_package():
    assert root_of("experiments") == root_of("benchmarks") == ROOT
    paths = {path.relative_to(ROOT).as_posix() for path in templates().values()}
    kinds = ("attention", "panel", "statement", "task")
    assert paths == {f"docs/extending/template_{kind}.py" for kind in kinds}


def test_one_version_is_stated_everywhere():
    """In the package, the citation and the changelog, which also has its date."""
    citation = dict(re.findall(r"^([\w-]+): (\S+)$", text_of("CITATION.cff"), re.M))
    version, date = re.findall(r"^## \[(.+)\] - (.+)$", text_of("CHANGELOG.md"), re.M)[
        0
    ]
    assert meanfield.__version__ == citation["version"] == version
    assert citation["date-released"] == date
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_workflow_runs_the_promised_versions():
    workflow = text_of(".github/workflows/ci.yml")
    tested_versions = re.search(r"python: \[(.+)\]", workflow)
    promised_versions = re.findall(
        r":: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"])
    )
    assert tested_versions
    assert re.findall(r"\d\.\d+", tested_versions[1]) == [
        promised_versions[0],
        promised_versions[-1],
    ]
    assert PROJECT["project"]["requires-python"] == f">={promised_versions[0]}"


def test_the_workflow_finds_the_lowest_jax(tmp_path: Path):
    """Its own line of shell, on the present `pyproject.toml`."""
    command = re.search(r"(sed -n .+) > lowest", text_of(".github/workflows/ci.yml"))
    assert command
    output = subprocess.run(
        ["bash", "-c", command[1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (lowest,) = (d for d in PROJECT["project"]["dependencies"] if d.startswith("jax>="))
    version = lowest.removeprefix("jax>=")
    assert output.stdout == f"jax=={version}\njaxlib=={version}\n"


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tracked_files(*folders: str) -> list[str]:
    result = subprocess.run(
        ["git", "ls-files", *folders],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return result.stdout.split()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `pip install` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
    result = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_a_wheel_holds_every_file_once(wheel: Path):
    """Of the package and its bundled folders; nothing at the top level."""
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if ".dist-info/" not in n]
    bundle = f"meanfield/{BUNDLE_FOLDER}"
    expected = [
        name if name.startswith("meanfield/") else f"{bundle}/{name}"
        for name in tracked_files("meanfield", *FOLDERS)
        if not name.startswith("benchmarks/results/")  # of one machine
    ]
    assert sorted(names) == sorted(expected)
    assert "meanfield/py.typed" in names


@pytest.mark.slow
def test_a_source_distribution_holds_the_tree_and_makes_the_wheel(
    wheel: Path, tmp_path: Path
):
    """`python -m build` makes the wheel from the source distribution."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    for command in (
        [python, "-m", "pip", "install", "--quiet", "build"],
        [python, "-m", "build", "--outdir", str(tmp_path), str(ROOT)],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    left_out = {n for n in tracked_files() if re.fullmatch(r"figures/.+\.pdf", n)}
    assert {*tracked_files()} - names == left_out
    (wheel_path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel_path) as ours, zipfile.ZipFile(wheel) as rebuilt:
        assert {*ours.namelist()} == {*rebuilt.namelist()}


@pytest.mark.slow
def test_an_editable_installation_copies_nothing(tmp_path: Path):
    """A copy would become outdated when files are edited."""
    venv.create(tmp_path / "venv")
    where = str(tmp_path / "venv" / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", where, "install", "--quiet"]
    result = subprocess.run(
        [*command, "--no-deps", "--editable", str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    assert not (site / "meanfield").exists()
    assert any(file.read_text().strip() == str(ROOT) for file in site.glob("*.pth"))


@pytest.mark.slow
def test_a_wheel_reproduces_and_measures(wheel: Path, tmp_path: Path):
    """From an empty folder, with the files of the wheel alone."""
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(site)}
    for command in (
        ["reproduce", "castin2025-fig1b", "--size", "quick"],
        ["bench", "--quick", "--case", "gaussians", "--method", "NumPy*"],
    ):
        result = subprocess.run(
            [sys.executable, "-m", "meanfield", *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=empty,
            env={**os.environ, **environment},
        )
        assert result.returncode == 0, result.stderr
    files = {file.name for file in (empty / "figures" / "quick").iterdir()}
    assert files == {f"castin2025-fig1b.{kind}" for kind in ("pdf", "png", "json")}


COMMANDS = (
    "simulate --A=-1 --V 1 --t 0.5 --frames 3 --n 50 --out run.zarr",
    "plot run.zarr",
    "verify lemma-4",
    "reproduce castin2025-fig1b --size quick",
    "bench --quick --case gaussians --method NumPy*",
)


@pytest.mark.slow
@pytest.mark.parametrize("versions", ["lowest", "newest"])
def test_an_installed_wheel_runs_its_commands(
    wheel: Path, tmp_path: Path, versions: str
):
    """In an empty environment, with the oldest or newest versions allowed."""
    requirements = PROJECT["project"]["dependencies"]
    pins = [requirement.replace(">=", "==") for requirement in requirements]
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    constraints = pins if versions == "lowest" else []
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for command in (
        [*install, "--quiet", str(wheel), *constraints],
        *([str(python), "-m", "meanfield", *command.split()] for command in COMMANDS),
    ):
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert result.returncode == 0, result.stderr
