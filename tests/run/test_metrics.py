import json

import pytest

from dlhmc.errors import UserError
from dlhmc.run.metrics import MetricsFile, cut, read


@pytest.fixture
def path(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        file.report(step, {"acceptance": step / 10}, "")
    file.close()
    return tmp_path / "metrics.jsonl"


def test_what_came_after_the_checkpoint_is_dropped_and_so_is_what_was_torn(path):
    with path.open("a") as file:
        file.write('{"step": 2, "acc')
    lines = [{"step": 1, "acceptance": 0.1}, {"step": 2, "acceptance": 0.2}]
    assert read(path, 2) == lines
    cut(path, 2)
    assert [json.loads(line) for line in path.read_text().splitlines()] == lines


def test_what_is_no_line_of_numbers_is_left_out(path):
    path.write_text('[]\n{"step": "1"}\n{"step": 1, "loss": "x"}\n{"loss": 1}\n{"step": 1, "loss": NaN}\n\xff\n')
    assert read(path, 9) == []
    path.unlink()
    cut(path, 9)  # a run that died before its first line
    with pytest.raises(UserError, match="is missing or damaged"):
        read(path, 9)
