"""The benchmark of scaling at a small size, with real processes."""

import io

import pytest
from rich.console import Console

from benchmarks import scaling


def test_setups_share_the_same_work():
    setups = scaling.setups("sampling")
    assert len(set(setups)) == len(setups)
    for kind in ("processes", "devices"):
        alone = {setup.chains for setup in setups if setup.kind == kind and setup.number == 1}
        assert alone == {scaling.CHAINS, 2 * scaling.CHAINS}
    assert all(setup.chains % setup.number == 0 for setup in setups)


def test_the_table_compares_with_one():
    """Twice the throughput on two processes is ideal; devices share the cores of their process."""
    throughput = {setup: 100.0 * setup.number for setup in scaling.setups("training")}
    rows = [row.split("|")[1:-1] for row in scaling._table("training", throughput).splitlines()[2:]]
    for kind, _, number, _, _, part in ([cell.strip() for cell in row] for row in rows):
        assert part == ("100%" if kind == "processes" else f"{100 * int(number)}%")


@pytest.mark.slow
def test_two_processes_and_two_devices_run_when_told_to(monkeypatch, tmp_path):
    monkeypatch.setattr(scaling, "NUMBERS", (1, 2))
    monkeypatch.setattr(scaling, "WORKS", ("sampling",))
    written = io.StringIO()
    measured = scaling.scaling(1, tmp_path / "table.md", Console(file=written, width=200))["setups"]
    assert all(setup["chain_steps_per_second"] > 0 for setup in measured)
    assert "processes" in written.getvalue()
    assert (tmp_path / "table.md").read_text().count("| processes |") == 4
