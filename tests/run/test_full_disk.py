"""A file-size limit stands for a full disk: writes fail in the same places, with another number."""

import resource
from contextlib import contextmanager

import numpy as np
import pytest
from small_runs import assert_same_run, histories, resume, run

from dlhmc.errors import UserError

# A few chunks of incompressible history, larger than every file of a checkpoint.
LONG = {"trajectories": 3000, "chunk": 500}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("disk") / "undisturbed", **LONG)


@contextmanager
def room_for(size):
    """No file may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings("ignore:Error writing persistent compilation cache")  # its files are larger
@pytest.mark.parametrize(("size", "reached"), [(20_000, True), (1500, False)], ids=["history", "first checkpoint"])
def test_a_full_disk_is_one_sentence_and_what_was_saved_goes_on(size, reached, undisturbed, tmp_path):
    path = tmp_path / "run"
    with (
        room_for(size),
        pytest.raises(UserError, match=r"cannot be written \(.*File too large\): make room") as refusal,
    ):
        run(path, **LONG)
    assert f"then 'dlhmc resume {path}'" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert (path / "metrics.jsonl").exists() == reached
    with room_for(size), pytest.raises(UserError, match="make room"):  # again, and nothing is lost
        resume(path)
    if reached:
        assert np.isfinite(histories(path)["charge"][:500]).all()
    resume(path)
    assert_same_run(undisturbed, path)
