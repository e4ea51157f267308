import warnings

import numpy as np
import pytest
import xarray

from dlhmc.errors import UserError
from dlhmc.run.history import History, diagnostics_of
from dlhmc.run.summary import Histories

ROW = {
    "charge": np.zeros(4, np.float32),
    "loops": np.zeros((2, 3, 4), np.float32),
    "count": np.zeros(4, np.int32),
    "accepted": np.zeros(4, np.int8),
}
FIELD = np.zeros((2, 3, 3, 4), np.float32)
ALL = slice(None)


def records(first, count):
    steps = np.arange(first, first + count)[:, None] + np.zeros(4)
    loops = steps[:, None, None] + np.arange(6.0).reshape(2, 3, 1)
    return {
        "charge": steps.astype(np.float32),
        "loops": loops.astype(np.float32),
        "count": -steps.astype(np.int32),
        "accepted": (steps % 2).astype(np.int8),
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.zarr"


@pytest.fixture
def history(path):
    """Six rows and a configuration of ten and two."""
    made = History.create(path, 10, ROW, [5, 10], FIELD, {"beta": 7.0})
    made.write(0, records(0, 6), ALL)
    made.write_configuration(0, FIELD + 1)
    return made


def test_xarray_opens_it_without_a_warning(history, path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_zarr(path, mask_and_scale=False) as store:
            assert store.attrs["beta"] == 7.0
            sizes = {"trajectory": 10, "chain": 4, "kept": 2, "loops_0": 2, "loops_1": 3}
            assert dict(store.sizes) == sizes | {f"field_{axis}": FIELD.shape[axis] for axis in range(3)}
            assert store.loops.dims == ("trajectory", "loops_0", "loops_1", "chain")
            np.testing.assert_array_equal(store.loops[:6], records(0, 6)["loops"])
            np.testing.assert_array_equal(store.configurations.sel(kept=5), FIELD + 1)
            # What has not been reached is marked.
            assert np.isnan(store.charge[6:]).all()
            assert np.isnan(store.configurations.sel(kept=10)).all()
            assert (store.accepted[6:] == -128).all()


def test_memory_holds_the_same(history):
    other = History.create(None, 10, ROW, [5, 10], FIELD, {})
    other.write(0, records(-2, 8), slice(2, 8))
    other.write_configuration(0, FIELD + 1)
    xarray.testing.assert_identical(other.dataset(6), history.dataset(6).drop_attrs(deep=False))


def test_a_resumed_run_overwrites_what_came_later(history, path):
    history.write(3, records(103, 5), ALL)
    again = History.open(path)
    again.verify(4, 3, 0)
    again.forget_after(3)
    again.write(3, records(3, 7), ALL)
    np.testing.assert_array_equal(again.arrays["charge"][:, 0], np.arange(10))


def test_it_can_become_longer(history, path):
    history.write(6, records(6, 4), ALL)
    history.extend(14, [5, 10, 14])
    again = History.open(path)
    again.write(10, records(10, 4), ALL)
    again.write_configuration(2, FIELD + 2)
    np.testing.assert_array_equal(again.arrays["loops"][:], records(0, 14)["loops"])
    with xarray.open_zarr(path) as store:
        assert (store.sizes["trajectory"], store.kept.values.tolist()) == (14, [5, 10, 14])
        np.testing.assert_array_equal(store.configurations.sel(kept=5), FIELD + 1)


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["charge", "accepted", "configurations", "kept"])
def test_a_flipped_bit_is_found(name, where, history, path):
    chunk = min(file for file in (path / name / "c").rglob("*") if file.is_file())
    data = bytearray(chunk.read_bytes())
    data[int(where * (len(data) - 1))] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(UserError, match=rf"history.zarr is damaged in '{name}'"):
        History.open(path).verify(4, 6, 1)


def lose_a_chunk(path, name="loops"):
    min(file for file in (path / name / "c").rglob("*") if file.is_file()).unlink()


def lose_metadata(path):
    (path / "charge" / "zarr.json").write_text("{")


@pytest.mark.parametrize(
    ("harm", "chains", "rows", "words"),
    [
        (lose_a_chunk, 4, 6, "damaged in 'loops': rows are missing"),
        (lose_metadata, 4, 6, "is missing or damaged"),
        (lambda path: None, 5, 6, "is of another run"),
        (lambda path: None, 4, 11, "is of another run"),
        (lambda path: None, 4, 7, "rows are missing"),
    ],
    ids=["chunk", "metadata", "chains", "length", "rows"],
)
def test_a_history_that_is_not_that_of_the_run_is_refused(harm, chains, rows, words, history, path):
    history.verify(4, 6, 1)
    harm(path)
    with pytest.raises(UserError, match=words):
        History.open(path).verify(chains, rows, 1)


def test_records_of_the_kernel_may_be_nan(path):
    row = {name: np.zeros(4, np.float32) for name in ("energy", "height")}
    history = History.create(path, 4, row, [], FIELD, {"diagnostics": '["energy"]'})
    history.write(0, {name: np.full((4, 4), np.nan, np.float32) for name in row}, ALL)
    with pytest.raises(UserError, match="damaged in 'height': rows are missing"):
        history.verify(4, 4, 0)
    for damaged in ("[", "1", 1, None):
        with pytest.raises(UserError, match="'diagnostics' of the histories is damaged"):
            diagnostics_of({"diagnostics": damaged})


def test_the_statistics_see_rows_in_double_precision(history):
    histories = Histories(history.dataset(6))
    assert (histories.shape, histories.elements["loops"]) == ((6, 4), (2, 3))
    squares = histories.read("charge", 2)
    assert squares[:, 1:3].dtype == np.float64
    np.testing.assert_array_equal(squares[:, 1:3], np.arange(6.0)[:, None] ** 2 + np.zeros(2))
    loop = histories.read("loops", 2, (1, 2))
    np.testing.assert_array_equal(loop[::2, 1:3], (np.arange(0.0, 6.0, 2.0)[:, None] + 5) ** 2 + np.zeros(2))
    assert histories.total("count") == -4 * sum(range(6))
