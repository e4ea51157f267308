import json

import pytest

from dlhmc.errors import UserError
from dlhmc.run import metrics


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def notes(path):
    """Two lines that a checkpoint vouches for, a third, and one that was being written when the run died."""
    file = metrics.MetricsFile(path)
    file.append({"step": 4})
    file.append({"step": 5, "a": 0.1})
    notes = file.seal()
    file.append({"step": 6})
    file.close()
    with path.open("a") as torn:
        torn.write('{"st')
    return json.loads(json.dumps(notes))


def test_what_came_after_the_checkpoint_is_dropped(path, notes):
    assert metrics.read(path, notes) == [{"step": 4}, {"step": 5, "a": 0.1}]
    metrics.cut(path, notes)
    assert path.read_text() == '{"step": 4}\n{"step": 5, "a": 0.1}\n'


def test_a_resumed_file_is_sealed_as_a_whole(path, notes):
    metrics.cut(path, notes)
    file = metrics.MetricsFile(path)
    file.append({"step": 7})
    notes = file.seal()
    file.close()
    assert [line["step"] for line in metrics.read(path, notes)] == [4, 5, 7]


def test_nothing_is_kept_for_a_checkpoint_before_the_first_line(path, notes):
    metrics.cut(path, {})
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "damage", [lambda d: d[:20], lambda d: d.replace(b"0.1", b"0.2"), lambda d: b"", lambda d: d[1:]]
)
def test_lines_that_are_not_those_written_are_refused(damage, path, notes):
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    for use in (metrics.read, metrics.cut):
        with pytest.raises(UserError, match=r"metrics.jsonl is damaged"):
            use(path, notes)
    assert path.read_bytes() == before


def test_a_file_that_was_removed_is_done_without(path, notes):
    path.unlink()
    metrics.cut(path, notes)
    with pytest.raises(UserError, match=r"metrics.jsonl is missing"):
        metrics.read(path, notes)
