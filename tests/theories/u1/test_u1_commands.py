"""The theory's own commands: what they are told, and the demonstration at a small size."""

import io
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from dlhmc.errors import ExitCode
from dlhmc.theories.u1.commands import Demo, Reproduce
from dlhmc.theories.u1.demo import demo
from dlhmc.theories.u1.reproduction.settings import ReproduceSettings
from dlhmc.theories.u1.theory import U1Settings


def parsed(kind, *arguments, **default):
    return tyro.cli(kind, args=arguments, default=kind(**default))


def test_options_of_a_reproduction():
    command = parsed(
        Reproduce,
        *("--lattice", "8", "8", "--betas", "2", "3.5", "--budgets", "9", "--network", "patch", "--curves", "c.toml"),
        settings=ReproduceSettings(),
    )
    expected = {"lattice": (8, 8), "betas": (2.0, 3.5), "budgets": (9.0,), "network": "patch", "curves": "c.toml"}
    assert command.settings == ReproduceSettings(**expected)
    assert command.settings.default_directory == Path("runs/reproduce-8x8-seed1")


def test_options_of_the_demonstration():
    assert parsed(Demo, "--steps", "7") == Demo(steps=7)


@pytest.mark.slow
def test_the_demonstration_shows_both_samplers_and_never_overwrites_an_earlier_one(tmp_path):
    for number in ("1", "2"):
        screen = io.StringIO()
        assert demo(tmp_path, 20, 10, Console(file=screen, width=120), U1Settings((4, 4), 2.0)) is ExitCode.OK
        assert "4×4 at β = 2: the same theory, three times" in screen.getvalue()
        for row in ("plaquette", "charge squared", "τ_int(charge)", "speed-up in time"):
            assert row in screen.getvalue()
        assert (tmp_path / number / "topology.png").stat().st_size > 0
