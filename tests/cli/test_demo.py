"""The demonstration, at a small size."""

import io

import pytest
from rich.console import Console

from dlhmc.cli.demo import demo
from dlhmc.errors import ExitCode
from dlhmc.theories.u1.theory import U1Settings


@pytest.mark.slow
def test_the_demonstration_shows_both_samplers_and_never_overwrites_an_earlier_one(tmp_path):
    for number in ("1", "2"):
        screen = io.StringIO()
        assert demo(tmp_path, 20, 10, Console(file=screen, width=120), U1Settings((4, 4), 2.0)) is ExitCode.OK
        assert "4×4 at β = 2: the same theory, three times" in screen.getvalue()
        for row in ("plaquette", "charge squared", "τ_int(charge)", "speed-up in time"):
            assert row in screen.getvalue()
        assert (tmp_path / number / "topology.png").stat().st_size > 0
