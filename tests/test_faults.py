"""Short versions of `make torture` and `make fuzz`."""

import time

import fuzz
import pytest
import torture


@pytest.mark.slow
def test_killed_runs_end_as_if_they_had_not_been(tmp_path):
    command = "sample --lattice 4 4 --beta 2 --chains 4 --trajectories 400 --warmup 20 --leapfrog-steps 2 --start cold"
    counts = torture.torture(tmp_path, {"sample": f"{command} --keep-configurations 3 --chunk 10"}, kills=2)
    assert counts["kills"] == 2
    assert counts["wrong"] == 0


@pytest.mark.slow
def test_damaged_files_are_refused_with_a_sentence(tmp_path, capsys):
    counts = fuzz.fuzz(fuzz.subjects(tmp_path), inputs=200, seed=2)
    assert counts["wrong"] == 0, capsys.readouterr().out
    assert counts["training: refused"] > 10


def test_the_fuzzer_sees_what_it_looks_for(tmp_path, capsys):
    """A loader that crashes, writes, or does not notice, is found out."""
    file = tmp_path / "number.txt"
    file.write_text("7" * 1000)
    reads = {
        "crashes": lambda _: 1 // (file.exists() and file.read_text() == "7" * 1000),
        "writes": lambda _: (tmp_path / f"{time.monotonic_ns()}").write_text("7"),
        "does not notice": lambda _: file.exists() and file.read_bytes(),
        "fine": lambda _: 7,
    }
    subject = fuzz.Subject("number", tmp_path, [file], reads, guarded=lambda _: True)
    counts = fuzz.fuzz([subject], 1)
    assert counts["wrong"] == 3
    printed = capsys.readouterr().out
    assert all(f"number, {name}, " in printed for name in ("crashes", "writes", "does not notice"))
    assert file.read_text() == "7" * 1000
