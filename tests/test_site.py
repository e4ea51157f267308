"""What the site is made of, as far as it can be checked without building it: `make docs` does the rest."""

import ast
import json
import re
from pathlib import Path

import pytest

from dlhmc import cli
from dlhmc.errors import ExitCode
from dlhmc.settings import read_table
from dlhmc.spec.training import TrainSpec

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))


def plan(path):
    return TrainSpec.of({}, read_table(path), str(path))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    for cell in code:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        ast.parse("".join(cell["source"]))


def test_there_are_two_notebooks_and_three_configurations():
    assert [path.stem for path in NOTEBOOKS] == ["first-steps", "train-and-compare"]
    assert [path.stem for path in CONFIGS] == ["continuum", "laptop", "paper"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_are_for_training(path):
    # All that stands there is something that is not by default, or worth saying.
    assert plan(path).theory.name == "u1"
    assert f"configs/{path.name}" in path.read_text(encoding="utf-8")
    page = (ROOT / "docs/guides/configuration.md").read_text(encoding="utf-8")
    assert f"--config configs/{path.name}" in page


def test_towards_the_continuum_the_physical_size_stays():
    target = plan(ROOT / "configs/continuum.toml").target
    assert target.lattice[0] * target.lattice[1] / target.beta == 16 * 16 / 7


def test_a_configuration_on_the_command_line(capsys, monkeypatch, tmp_path):
    # One that is cheap to compile: a dry run measures a step.
    monkeypatch.chdir(tmp_path)
    arguments = [
        "train",
        "u1",
        "local",
        "--config",
        str(ROOT / "configs/laptop.toml"),
        "--chains",
        "4",
        "--out",
        "run",
        "--dry-run",
    ]
    assert cli.run(arguments) == ExitCode.OK
    shown = capsys.readouterr().out
    assert 'name = "local"' in shown
    assert "chains = 4" in shown
    assert re.search(r"parameters   [\d,]+\n", shown)
    assert re.search(r"time   \d+ s to compile, .* for 1,500 steps", shown)
    assert list(tmp_path.iterdir()) == []


def test_every_page_is_found_from_the_contents():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w/-]+\.(?:md|ipynb)", contents))
    for page in listed:
        assert (ROOT / "docs" / page).exists() or (ROOT / page).exists(), page
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not page.startswith("results/tables/")} <= listed
