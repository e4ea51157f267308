import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc.errors import UserError
from dlhmc.run.checkpoint import Checkpoints


def tree(value):
    return {"x": jnp.full((3, 4), value, jnp.float32), "count": jnp.asarray(value, jnp.int32)}


def like(step):
    """What all of them look like."""
    return tree(0)


@pytest.fixture
def folder(tmp_path):
    manager = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2, 3):
        manager.save(step, (tree(step), {"seconds": step / 3}))
    return tmp_path / "checkpoints"


def flip_a_byte(file, place=0.5):
    """As a bad disk would."""
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 0xFF
    file.write_bytes(content)


def rewrite(file, **changes):
    """A checkpoint that can be read, with other arrays in it than were saved."""
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    with file.open("wb") as opened:
        np.savez(opened, **(arrays | changes))


def test_the_newest_of_two_comes_back_with_its_notes(folder):
    assert sorted(entry.name for entry in folder.iterdir()) == ["2.npz", "3.npz"]
    step, restored, notes = Checkpoints(folder).restore(like)
    assert (step, notes) == (3, {"seconds": 1.0})
    for name, leaf in tree(3).items():
        assert restored[name].dtype == leaf.dtype
        np.testing.assert_array_equal(restored[name], leaf)
    assert Checkpoints(folder).newest_notes() == (3, {"seconds": 1.0})


def test_a_step_is_saved_once(folder):
    manager = Checkpoints(folder)
    manager.restore(like)
    written = (folder / "3.npz").stat().st_mtime_ns
    manager.save(3, (tree(3), {}))
    assert (folder / "3.npz").stat().st_mtime_ns == written


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(folder):
    flip_a_byte(folder / "3.npz")
    looking = Checkpoints(folder, read_only=True)
    assert looking.newest_notes()[0] == 2
    assert looking.passed_over[0].startswith("checkpoint 3: ")
    assert (folder / "3.npz").exists()  # looking removes nothing
    manager = Checkpoints(folder)
    step, restored, _ = manager.restore(like)
    assert step == 2
    np.testing.assert_array_equal(restored["x"], tree(2)["x"])
    manager.save(3, (tree(33), {}))  # the run gets there again
    assert float(Checkpoints(folder).restore(like)[1]["x"][0, 0]) == 33


@pytest.mark.parametrize("place", np.linspace(0, 0.999, 20))
def test_a_flipped_byte_is_never_used(folder, place):
    flip_a_byte(folder / "3.npz", place)
    step, restored, _ = Checkpoints(folder).restore(like)
    np.testing.assert_array_equal(restored["x"], tree(step)["x"])
    np.testing.assert_array_equal(restored["count"], step)


@pytest.mark.parametrize("x", [np.zeros((3, 5), np.float32), np.array([None]), np.zeros((3, 4))])
def test_a_leaf_that_is_not_of_the_run_is_refused(folder, x):
    rewrite(folder / "3.npz", **{"['x']": x})
    manager = Checkpoints(folder)
    assert manager.restore(like)[0] == 2
    assert "checkpoint 3" in manager.passed_over[0]


@pytest.mark.parametrize("notes", [b"{", b"[]", b"\xff"])
def test_notes_that_are_none_are_refused(folder, notes):
    rewrite(folder / "3.npz", notes=np.frombuffer(notes, np.uint8))
    assert Checkpoints(folder).newest_notes()[0] == 2


def test_when_none_is_intact_each_is_named_and_none_is_removed(folder):
    for step in "23":
        flip_a_byte(folder / f"{step}.npz", 0.1)
    with pytest.raises(UserError, match=r"No checkpoint in .* is intact \(checkpoint 3: .*; checkpoint 2: ") as refusal:
        Checkpoints(folder).restore(like)
    assert "\n" not in str(refusal.value)
    assert (folder / "3.npz").exists()


def test_what_a_checkpoint_looks_like_may_depend_on_its_step(tmp_path):
    """Stages of a training have other arrays: the one before must be found where the first of the next is damaged."""
    manager = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2):
        manager.save(step, ({"x": jnp.full(step, step, jnp.float32)}, {}))
    flip_a_byte(tmp_path / "checkpoints" / "2.npz")
    step, restored, _ = Checkpoints(tmp_path / "checkpoints").restore(lambda step: {"x": jnp.zeros(step)})
    assert step == 1
    np.testing.assert_array_equal(restored["x"], [1])


def test_a_checkpoint_that_does_not_fit_the_rest_of_the_run_gives_way(folder):
    def check(step, notes):
        if step == 3:
            raise UserError("the history is damaged.")

    manager = Checkpoints(folder)
    assert manager.restore(like, check)[0] == 2
    assert manager.passed_over == ["checkpoint 3: the history is damaged"]


def test_without_checkpoints_there_is_nothing_to_go_on_with(tmp_path):
    with pytest.raises(UserError, match="no checkpoints in"):
        Checkpoints(tmp_path / "missing", read_only=True)
    with pytest.raises(UserError, match="no checkpoint in"):
        Checkpoints(tmp_path / "empty").restore(like)


def test_what_was_being_written_when_a_run_died_is_cleared_away(folder):
    torn = folder / ".4.npz.tmp"
    torn.write_bytes(b"PK")
    assert Checkpoints(folder, read_only=True).newest_notes()[0] == 3
    assert torn.exists()  # its run may be alive
    assert Checkpoints(folder).restore(like)[0] == 3
    assert not torn.exists()
