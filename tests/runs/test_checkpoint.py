import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.errors import UserError
from dlhmc.runs.checkpoint import Checkpoints


def tree(value):
    return {"x": jnp.full((3, 4), value, jnp.float32), "count": jnp.asarray(value, jnp.int32)}


@pytest.fixture
def checkpoints(tmp_path):
    manager = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2, 3):
        manager.save(step, tree(step), {"seconds": step / 3})
    yield manager
    manager.close()


def reopened(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", create=False)


def flip_bytes(directory):
    """Invert a byte in the middle of every file of arrays, as a bad disk would."""
    files = [file for file in directory.rglob("d/*") if file.is_file()]
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)


def swap_arrays(directory, other):
    """Arrays that can be read but are not those that were saved."""
    shutil.rmtree(directory / "tree")
    shutil.copytree(other / "tree", directory / "tree")


@pytest.mark.usefixtures("checkpoints")
def test_the_newest_comes_back_with_its_notes(tmp_path):
    step, restored, notes = reopened(tmp_path).restore(tree(0))
    assert (step, notes) == (3, {"seconds": 1.0})
    for name, leaf in tree(3).items():
        assert restored[name].dtype == leaf.dtype
        np.testing.assert_array_equal(restored[name], leaf)
    assert reopened(tmp_path).newest_notes() == (3, {"seconds": 1.0})


@pytest.mark.usefixtures("checkpoints")
def test_the_last_two_are_kept(tmp_path):
    assert sorted(entry.name for entry in (tmp_path / "checkpoints").iterdir()) == ["2", "3"]


@pytest.mark.usefixtures("checkpoints", "x64")
def test_double_precision_comes_back(tmp_path):
    values = {"x": jnp.asarray(1 / 3)}
    manager = Checkpoints(tmp_path / "double")
    manager.save(0, values, {})
    _, restored, _ = manager.restore(values)
    assert restored["x"].dtype == np.float64
    assert float(restored["x"]) == 1 / 3


@pytest.mark.usefixtures("checkpoints")
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(tmp_path):
    flip_bytes(tmp_path / "checkpoints" / "3")
    manager = reopened(tmp_path)
    step, restored, _ = manager.restore(tree(0))
    assert step == 2
    np.testing.assert_array_equal(restored["x"], tree(2)["x"])
    manager.save(3, tree(33), {"seconds": 0})  # the run gets there again
    assert float(reopened(tmp_path).restore(tree(0))[1]["x"][0, 0]) == 33


@pytest.mark.usefixtures("checkpoints")
def test_arrays_that_are_not_those_saved_are_found(tmp_path):
    swap_arrays(tmp_path / "checkpoints" / "3", tmp_path / "checkpoints" / "2")
    assert reopened(tmp_path).restore(tree(0))[0] == 2


@pytest.mark.usefixtures("checkpoints")
def test_when_none_is_intact_each_is_named_and_none_is_removed(tmp_path):
    swap_arrays(tmp_path / "checkpoints" / "3", tmp_path / "checkpoints" / "2")
    flip_bytes(tmp_path / "checkpoints" / "2")
    with pytest.raises(UserError) as refusal:
        reopened(tmp_path).restore(tree(0))
    sentence = str(refusal.value)
    assert "checkpoint 3: leaf ['count'], ['x'] is not what was saved" in sentence
    assert "checkpoint 2: cannot be read" in sentence
    assert "\n" not in sentence
    assert (tmp_path / "checkpoints" / "3").exists()


@pytest.mark.usefixtures("checkpoints")
def test_arrays_of_another_shape_are_refused(tmp_path):
    with pytest.raises(UserError, match="intact"):
        reopened(tmp_path).restore({"x": jnp.zeros((3, 5)), "count": jnp.zeros((), jnp.int32)})


def test_without_checkpoints_there_is_nothing_to_go_on_with(tmp_path):
    with pytest.raises(UserError, match="no checkpoints in"):
        Checkpoints(tmp_path / "missing", create=False)
    empty = Checkpoints(tmp_path / "empty")
    with pytest.raises(UserError, match="no checkpoint in"):
        empty.restore(tree(0))
    with pytest.raises(UserError, match="no checkpoint in"):
        empty.newest_notes()


def harm_record(directory, harm):
    for file in (directory / "record").iterdir():
        file.write_text(harm(file.read_text()))


@pytest.mark.parametrize("harm", [lambda text: "{", lambda text: text.replace('"seconds": 1.0', '"seconds": 2.0')])
@pytest.mark.usefixtures("checkpoints")
def test_damaged_notes_give_way_to_earlier_ones(harm, tmp_path):
    harm_record(tmp_path / "checkpoints" / "3", harm)
    manager = reopened(tmp_path)
    assert manager.newest_notes() == (2, {"seconds": 2 / 3})
    (problem,) = manager.passed_over
    assert problem.startswith("checkpoint 3: its record")
    assert reopened(tmp_path).restore(tree(0))[0] == 2


@pytest.mark.usefixtures("checkpoints")
def test_a_checkpoint_that_does_not_fit_the_rest_of_the_run_gives_way(tmp_path):
    def check(step, notes):
        if step == 3:
            raise UserError("the history is damaged.")

    manager = reopened(tmp_path)
    assert manager.newest_notes(check)[0] == 2
    assert manager.restore(tree(0), check)[0] == 2
    assert manager.passed_over == ["checkpoint 3: the history is damaged"]


@pytest.mark.usefixtures("checkpoints")
def test_checkpoints_of_another_run_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"checkpoint 3: it is of another run; checkpoint 2"):
        Checkpoints(tmp_path / "checkpoints", run="other").restore(tree(0))


@pytest.mark.usefixtures("checkpoints")
def test_an_older_format_is_refused_by_name(tmp_path):
    for step in "23":
        harm_record(tmp_path / "checkpoints" / step, lambda text: text.replace('"format": 2', '"format": 1'))
    with pytest.raises(UserError, match=r"it has format 1, but this version of dlhmc reads 2"):
        reopened(tmp_path).restore(tree(0))


@pytest.mark.usefixtures("checkpoints")
def test_what_was_being_written_when_a_run_died_is_cleared_away(tmp_path):
    torn = tmp_path / "checkpoints" / "4.orbax-checkpoint-tmp"
    shutil.copytree(tmp_path / "checkpoints" / "3", torn)
    assert Checkpoints(tmp_path / "checkpoints", create=False, read_only=True).newest_notes()[0] == 3
    assert torn.exists()  # its run may be alive
    assert reopened(tmp_path).restore(tree(0))[0] == 3
    assert not torn.exists()
