"""The map of the package: a room knows only the rooms below it."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "dlhmc"
#: from the lowest to the highest; those in one line may know each other
ROOMS = (
    ("errors", "names"),
    ("files", "tables", "machine"),
    ("settings",),
    ("numerics",),
    ("geometry",),
    ("lattice",),
    ("fermions",),
    ("actions",),
    ("exact",),
    ("io",),
    ("targets",),
    ("networks",),
    ("layers",),
    ("kernels",),
    ("training",),
    ("statistics",),
    ("testing",),
    ("theories",),
    ("models",),
    ("run",),
    ("comparison",),
    ("spec",),
    ("report",),
    ("studies",),
    ("cli", "api"),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}


def modules():
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "theories"]


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    """All imports that are made when the program runs, at the top of a module or inside of functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("dlhmc"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("dlhmc."))


def test_every_folder_has_a_floor():
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert folders | files == {*FLOOR}


@pytest.mark.parametrize("room", [room for room in FLOOR if room != "theories"])
def test_a_room_knows_only_the_rooms_below_it(room):
    wrong = []
    for path in (path for path in modules() if room_of(path) == room):
        for name in imports(path):
            other = name.split(".")[1]
            # The list of theories and what a theory is may be known to all: they know no theory themselves.
            known_to_all = re.match(r"dlhmc\.theories\.(contract|registry|EXPORTS)", name)
            if FLOOR.get(other, -1) > FLOOR[room] and not known_to_all:
                wrong.append(f"{path.name} imports {name}")
    assert wrong == []


def test_exactness_is_tested_as_users_compile():
    """What is marked runs with XLA's own options in `make test`."""
    tests = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    unmarked = [
        str(path)
        for path, text in tests.items()
        if re.search(r"check_(stationarity|ranks)\(", text) and "mark.statistical" not in text
    ]
    assert unmarked == []
