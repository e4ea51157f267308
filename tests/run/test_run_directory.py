import math
import subprocess
import sys

import pytest

from dlhmc.errors import UserError
from dlhmc.run.directory import RunDirectory, manifest, read_json, run_kind, write_json

HOLD = """
import sys
from pathlib import Path
from dlhmc.run.directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_new_and_empty_directories_are_free(tmp_path):
    RunDirectory(tmp_path).refuse_if_taken()
    RunDirectory(tmp_path / "new" / "deep").refuse_if_taken()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("content", "reason"), [("config.toml", "already holds a run"), ("notes.txt", "is not empty")])
def test_a_directory_with_something_in_it_is_taken(content, reason, tmp_path):
    (tmp_path / content).touch()
    with pytest.raises(UserError, match=reason):
        RunDirectory(tmp_path).refuse_if_taken()


def test_a_file_is_not_a_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file"):
        RunDirectory(tmp_path / "file").refuse_if_taken()
    with pytest.raises(UserError, match="no run directory"):
        run_kind(tmp_path / "file")


def test_a_run_that_died_before_its_configuration_was_written_has_not_begun(tmp_path):
    (tmp_path / ".lock").touch()
    write_json(tmp_path / "manifest.json", {})
    (tmp_path / ".config.toml.tmp").touch()
    RunDirectory(tmp_path).refuse_if_taken()


def test_what_a_run_lacks_is_named(tmp_path):
    with pytest.raises(UserError, match=r"config.toml and manifest.json missing"):
        run_kind(tmp_path)
    (tmp_path / "config.toml").touch()
    with pytest.raises(UserError, match=r": manifest.json missing"):
        run_kind(tmp_path)


def test_one_process_at_a_time(tmp_path):
    hold = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "held\n"
            with pytest.raises(UserError, match="Another process is running"), RunDirectory(tmp_path).locked():
                pass
        finally:
            other.kill()
    with RunDirectory(tmp_path).locked():  # the system has let go of it
        pass


def test_the_manifest_says_what_ran(tmp_path):
    write_json(tmp_path / "manifest.json", manifest("sample", 3, ["cpu: cpu"]))
    written = read_json(tmp_path / "manifest.json")
    assert (written["kind"], written["seed"], written["devices"]) == ("sample", 3, ["cpu: cpu"])
    assert {"dlhmc", "jax", "numpy"} <= written["versions"].keys()


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": math.nan})
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[1]", "\x00", "[" * 100_000, '{"a": NaN}', "9" * 10_000],
)
def test_damaged_json_is_named(text, tmp_path):
    path = tmp_path / "manifest.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=r"manifest.json is (missing or )?damaged"):
        read_json(path)
