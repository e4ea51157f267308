import io
import re

import pytest
from rich.console import Console

from dlhmc.run.progress import Display, format_duration

FACTS = "acceptance 0.796  plaquette 0.8637 (exact 0.8635)  tunnelling 0.14  τ(charge) 24(2)  609/s"


def shown(*, terminal, quiet=False, width=80):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=width)
    display = Display(console, "hmc", 30, quiet=quiet)
    with display.running(10):
        for done in range(11, 31):
            display.update(done, FACTS)
    return screen.getvalue()


def test_elsewhere_there_are_plain_lines_a_few_seconds_apart():
    lines = shown(terminal=False).splitlines()  # the first, and the last one whenever it comes
    assert lines[0] == f"hmc: 11/30  {FACTS}"
    assert lines[-1] == f"hmc: 30/30  {FACTS}"
    assert len(lines) < 10  # of 20: two, unless the machine sleeps


def test_a_terminal_has_a_live_display_with_nothing_broken():
    output = shown(terminal=True)
    assert "\x1b[" in output
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r", "\n")
    assert "30/30" in plain
    assert max(map(len, plain.split("\n"))) <= 80
    for fact in FACTS.split():
        assert fact in plain


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet_shows_nothing(terminal):
    assert shown(terminal=terminal, quiet=True) == ""


def test_brackets_are_shown_as_they_are():
    screen = io.StringIO()
    Display(Console(file=screen), "a[b]", 1).update(1, "[red]")
    assert screen.getvalue() == "a[b]: 1/1  [red]\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (42.4, "42 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text
