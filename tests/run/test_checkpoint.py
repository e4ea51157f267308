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
def checkpoints(tmp_path):
    manager = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2, 3):
        manager.save(step, tree(step), {"seconds": step / 3})
    return tmp_path / "checkpoints"


def reopened(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", create=False)


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


def swap_arrays(file, other):
    with np.load(other) as archive:
        rewrite(file, **{name: archive[name] for name in archive.files if name != "record"})


def rewrite_record(file, harm):
    with np.load(file) as archive:
        text = archive["record"].tobytes().decode()
    rewrite(file, record=np.frombuffer(harm(text).encode(), np.uint8))


@pytest.mark.usefixtures("checkpoints")
def test_the_newest_comes_back_with_its_notes(tmp_path):
    step, restored, notes = reopened(tmp_path).restore(like)
    assert (step, notes) == (3, {"seconds": 1.0})
    for name, leaf in tree(3).items():
        assert restored[name].dtype == leaf.dtype
        np.testing.assert_array_equal(restored[name], leaf)
    assert reopened(tmp_path).newest_notes() == (3, {"seconds": 1.0})


@pytest.mark.usefixtures("checkpoints")
def test_the_last_two_are_kept(tmp_path):
    assert sorted(entry.name for entry in (tmp_path / "checkpoints").iterdir()) == ["2.npz", "3.npz"]


@pytest.mark.usefixtures("checkpoints", "x64")
def test_double_precision_comes_back(tmp_path):
    values = {"x": jnp.asarray(1 / 3)}
    manager = Checkpoints(tmp_path / "double")
    manager.save(0, values, {})
    _, restored, _ = manager.restore(lambda _: values)
    assert restored["x"].dtype == np.float64
    assert float(restored["x"]) == 1 / 3


@pytest.mark.usefixtures("checkpoints")
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(tmp_path):
    flip_a_byte(tmp_path / "checkpoints" / "3.npz")
    manager = reopened(tmp_path)
    step, restored, _ = manager.restore(like)
    assert step == 2
    np.testing.assert_array_equal(restored["x"], tree(2)["x"])
    manager.save(3, tree(33), {"seconds": 0})  # the run gets there again
    assert float(reopened(tmp_path).restore(like)[1]["x"][0, 0]) == 33


@pytest.mark.usefixtures("checkpoints")
def test_arrays_that_are_not_those_saved_are_found(tmp_path):
    swap_arrays(tmp_path / "checkpoints" / "3.npz", tmp_path / "checkpoints" / "2.npz")
    assert reopened(tmp_path).restore(like)[0] == 2


@pytest.mark.usefixtures("checkpoints")
def test_when_none_is_intact_each_is_named_and_none_is_removed(tmp_path):
    swap_arrays(tmp_path / "checkpoints" / "3.npz", tmp_path / "checkpoints" / "2.npz")
    flip_a_byte(tmp_path / "checkpoints" / "2.npz", 0.1)
    with pytest.raises(UserError) as refusal:
        reopened(tmp_path).restore(like)
    sentence = str(refusal.value)
    assert "checkpoint 3: leaf ['count'], ['x'] is not what was saved" in sentence
    assert "checkpoint 2: leaf '['count']' cannot be read" in sentence
    assert "\n" not in sentence
    assert (tmp_path / "checkpoints" / "3.npz").exists()


@pytest.mark.usefixtures("checkpoints")
def test_arrays_of_another_shape_are_refused(tmp_path):
    with pytest.raises(UserError, match="intact"):
        reopened(tmp_path).restore(lambda _: {"x": jnp.zeros((3, 5)), "count": jnp.zeros((), jnp.int32)})


def test_what_a_checkpoint_looks_like_may_depend_on_its_step(tmp_path):
    """Stages of a training have other arrays: the one before must be found where the first of the next is damaged."""
    manager = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2):
        manager.save(step, {"x": jnp.full(step, step, jnp.float32)}, {})
    flip_a_byte(tmp_path / "checkpoints" / "2.npz")
    step, restored, _ = reopened(tmp_path).restore(lambda step: {"x": jnp.zeros(step)})
    assert step == 1
    np.testing.assert_array_equal(restored["x"], [1])


def test_without_checkpoints_there_is_nothing_to_go_on_with(tmp_path):
    with pytest.raises(UserError, match="no checkpoints in"):
        Checkpoints(tmp_path / "missing", create=False)
    empty = Checkpoints(tmp_path / "empty")
    with pytest.raises(UserError, match="no checkpoint in"):
        empty.restore(like)
    with pytest.raises(UserError, match="no checkpoint in"):
        empty.newest_notes()


@pytest.mark.parametrize(
    "harm", [lambda text: "{", lambda text: "[]", lambda text: text.replace('"seconds": 1.0', '"seconds": 2.0')]
)
@pytest.mark.usefixtures("checkpoints")
def test_damaged_notes_give_way_to_earlier_ones(harm, tmp_path):
    rewrite_record(tmp_path / "checkpoints" / "3.npz", harm)
    manager = reopened(tmp_path)
    assert manager.newest_notes() == (2, {"seconds": 2 / 3})
    (problem,) = manager.passed_over
    assert problem.startswith("checkpoint 3: ")
    assert reopened(tmp_path).restore(like)[0] == 2


@pytest.mark.usefixtures("checkpoints")
def test_a_checkpoint_that_does_not_fit_the_rest_of_the_run_gives_way(tmp_path):
    def check(step, notes):
        if step == 3:
            raise UserError("the history is damaged.")

    manager = reopened(tmp_path)
    assert manager.newest_notes(check)[0] == 2
    assert manager.restore(like, check)[0] == 2
    assert manager.passed_over == ["checkpoint 3: the history is damaged"]


@pytest.mark.usefixtures("checkpoints")
def test_checkpoints_of_another_run_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"checkpoint 3: it is of another run; checkpoint 2"):
        Checkpoints(tmp_path / "checkpoints", run="other").restore(like)


@pytest.mark.usefixtures("checkpoints")
def test_an_older_format_is_refused_by_name(tmp_path):
    for step in "23":
        rewrite_record(
            tmp_path / "checkpoints" / f"{step}.npz", lambda text: text.replace('"format": 3', '"format": 1')
        )
    with pytest.raises(UserError, match=r"it has format 1, but this version of dlhmc reads 3"):
        reopened(tmp_path).restore(like)


@pytest.mark.usefixtures("checkpoints")
def test_what_was_being_written_when_a_run_died_is_cleared_away(tmp_path):
    torn = tmp_path / "checkpoints" / ".4.npz.tmp"
    torn.write_bytes(b"PK")
    assert Checkpoints(tmp_path / "checkpoints", create=False, read_only=True).newest_notes()[0] == 3
    assert torn.exists()  # its run may be alive
    assert reopened(tmp_path).restore(like)[0] == 3
    assert not torn.exists()


@pytest.mark.usefixtures("checkpoints")
@pytest.mark.parametrize("place", np.linspace(0, 0.999, 40))
def test_a_flipped_byte_is_never_used(tmp_path, place):
    flip_a_byte(tmp_path / "checkpoints" / "3.npz", place)
    step, restored, _ = reopened(tmp_path).restore(like)
    np.testing.assert_array_equal(restored["x"], tree(step)["x"])
    np.testing.assert_array_equal(restored["count"], step)


@pytest.mark.usefixtures("checkpoints")
@pytest.mark.parametrize("x", [np.zeros((10**6, 4), np.float32), np.array([None]), np.zeros((3, 4))])
def test_a_leaf_that_is_not_what_the_record_says_is_refused(tmp_path, x):
    rewrite(tmp_path / "checkpoints" / "3.npz", **{"['x']": x})
    manager = reopened(tmp_path)
    assert manager.restore(like)[0] == 2
    assert "['x']" in manager.passed_over[0]


@pytest.mark.usefixtures("checkpoints")
def test_looking_removes_nothing(tmp_path):
    flip_a_byte(tmp_path / "checkpoints" / "3.npz")
    manager = Checkpoints(tmp_path / "checkpoints", create=False, read_only=True)
    assert manager.restore(like)[0] == 2
    assert (tmp_path / "checkpoints" / "3.npz").exists()


def test_a_step_is_saved_once(tmp_path):
    manager = Checkpoints(tmp_path / "checkpoints")
    manager.save(1, tree(1), {})
    written = (tmp_path / "checkpoints" / "1.npz").stat().st_mtime_ns
    manager.save(1, tree(1), {})
    assert (tmp_path / "checkpoints" / "1.npz").stat().st_mtime_ns == written
