"""The code in the documentation runs as it stands there, and its commands are those that there are."""

import ast
import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest

from dlhmc.errors import UserError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "\n>>> " in path.read_text(encoding="utf-8"))


def name(path):
    return str(path.relative_to(DOCS))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples(page):
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def blocks(language):
    """The code on all pages."""
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        yield from re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def test_code_without_a_prompt_names_what_there_is():
    problems = []
    for code in blocks("python"):
        for node in ast.walk(ast.parse("" if ">>>" in code else code)):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module.startswith("dlhmc"):
                names = [(node.module, alias.name) for alias in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dlhmc":
                names = [("dlhmc", node.attr)]
            problems += [pair for pair in names if not hasattr(importlib.import_module(pair[0]), pair[1])]
    assert problems == []


def commands():
    """The lines of `dlhmc` on all pages, as they stand after a prompt; those that are continued are one."""
    found = {}
    for block in blocks("console"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ dlhmc"):
                command = line.removeprefix("$ ").split(" > ")[0]
                words = shlex.split(command, comments=True)
                found[" ".join(words)] = words[1:]
    return found


def test_commands_are_understood():
    from dlhmc.cli.commands import COMMANDS
    from dlhmc.cli.parsing import find_leaf, parse

    problems = []
    for command, words in commands().items():
        try:
            leaf, options = find_leaf(COMMANDS, words)
            parse(leaf, options)
        except UserError as error:
            problems.append(f"{command}: {error.on_command_line()}")
    assert problems == []


def test_there_are_commands():
    first = {words[0] for words in commands().values()}
    assert first >= {"sample", "train", "compare", "reproduce", "resume", "report", "export", "measure"}


def test_there_are_examples():
    assert {name(page) for page in PAGES} >= {"guides/errors.md", "guides/extending.md", "tutorials/own.md"}


def test_the_documentation_is_short():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in DOCS.rglob("*.md"))
    assert lines <= 3200
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.parametrize("page", [*DOCS.rglob("*.md"), *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_figures_are_small_and_none_is_generated_text():
    figures = [path for path in DOCS.rglob("*") if path.suffix in (".png", ".svg", ".html")]
    assert figures
    for path in figures:
        assert path.suffix == ".png", path
        assert path.stat().st_size < 150_000, path
