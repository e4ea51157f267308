"""Short versions of `make torture`, `make fuzz` and `make damage`."""

import collections
from pathlib import Path

import damage
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
def test_mutated_files_are_refused_with_a_sentence(tmp_path, capsys):
    counts = fuzz.fuzz(tmp_path, inputs=200, seed=2)
    assert counts["wrong"] == 0, capsys.readouterr().out
    assert counts["model: refused"] > 10


def test_the_fuzzer_sees_what_it_looks_for(tmp_path, capsys):
    """A loader that reads elsewhere, crashes, writes, or does not notice, is found out."""
    file = tmp_path / "number.txt"
    file.write_text("7")
    reads = {
        "elsewhere": lambda: Path("/etc/hostname").read_text(),
        "crashes": lambda: 1 // (file.read_text() == "7"),
        "writes": lambda: file.with_name("a").write_text("7"),
        "does not notice": file.read_text,
        "fine": lambda: 7,
    }
    subject = fuzz.Subject("number", file, reads, fuzz.bytes_changed)
    file.write_text("8")
    found = fuzz.judge(subject, tmp_path, collections.Counter(), accident=True)
    assert [trouble.partition(":")[0] for trouble in found] == ["elsewhere", "crashes", "writes", "does not notice"]
    subject.restore()
    assert file.read_text() == "7"


def test_damaged_files_give_no_wrong_numbers(tmp_path, capsys):
    before = damage.sampling_runs(tmp_path)
    one, other = tmp_path / "one", tmp_path / "other"
    files = sorted(file for file in one.rglob("*") if file.is_file() and file.name != ".lock")
    counts = collections.Counter()
    commands = {name: damage.COMMANDS["sample"][name] for name in ("summary", "report", "load")}
    for index, kind in enumerate(damage.DAMAGES):
        damage.harm(one, other, files[index :: 2 * len(damage.DAMAGES)], [kind], commands, before, counts)
    assert counts["wrong"] == 0, capsys.readouterr().out
    assert counts["summary: refused"] > 0
    assert counts["damaged files"] > 5
