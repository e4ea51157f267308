import warnings

import numpy as np
import pytest
import xarray

from dlhmc.errors import UserError
from dlhmc.runs.history import History, Rows

ROW = {"charge": np.zeros(4, np.float32), "accepted": np.zeros(4, np.int8)}
FIELD = np.zeros((2, 3, 3, 4), np.float32)


def records(first, count):
    steps = np.arange(first, first + count)[:, None] + np.zeros(4)
    return {"charge": steps.astype(np.float32), "accepted": (steps % 2).astype(np.int8)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.zarr"


@pytest.fixture
def history(path):
    return History.create(path, 10, ROW, [5, 10], FIELD, {"beta": 7.0})


def test_xarray_opens_it_without_a_warning(history, path):
    history.write(0, records(0, 10))
    history.write_configuration(1, FIELD + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_zarr(path) as store:
            assert store.attrs["beta"] == 7.0
            assert dict(store.sizes) == {
                "trajectory": 10,
                "chain": 4,
                "kept": 2,
                "field_0": 2,
                "field_1": 3,
                "field_2": 3,
            }
            assert store.accepted.dtype == np.int8
            np.testing.assert_array_equal(store.charge, records(0, 10)["charge"])
            np.testing.assert_array_equal(store.configurations.sel(kept=10), FIELD + 1)
            assert np.isnan(store.configurations.sel(kept=5)).all()


def test_rows_that_were_not_reached_are_marked(history, path):
    history.write(0, records(0, 6))
    with xarray.open_zarr(path, mask_and_scale=False) as store:
        assert np.isnan(store.charge[6:]).all()
        assert (store.accepted[6:] == -1).all()


def test_a_resumed_run_overwrites_what_came_later(history, path):
    history.write(0, records(100, 8))
    again = History.open(path)
    again.write(3, records(3, 7))
    np.testing.assert_array_equal(again.array("charge")[:, 0], [100, 101, 102, *range(3, 10)])


def test_rows_are_sliced_in_double_precision(history):
    history.write(0, records(0, 6))
    rows = Rows(history.array("charge"), 6, power=2)
    assert rows.shape == (6, 4)
    block = rows[:, 1:3]
    assert block.dtype == np.float64
    np.testing.assert_array_equal(block, np.arange(6.0)[:, None] ** 2 + np.zeros(2))
    assert rows.total() == 4 * sum(i**2 for i in range(6))


def test_the_sum_of_a_long_history_is_taken_in_parts(path):
    long = History.create(path, 200_000, ROW, [], FIELD, {})
    assert long.array("charge").chunks[0] < 200_000
    long.write(0, records(0, 200_000))
    assert Rows(long.array("accepted"), 200_000).total() == 400_000


def test_a_whole_history_passes_the_check(history):
    history.write(0, records(0, 6))
    history.check(6, ROW)
    history.check(0, ROW)


def test_damage_is_named(history, path):
    history.write(0, records(0, 6))
    with pytest.raises(UserError, match=r"history.zarr.* rows are missing"):
        history.check(7, ROW)
    with pytest.raises(UserError, match="'charge' is of another run"):
        history.check(6, {"charge": np.zeros(5, np.float32)})
    with pytest.raises(UserError, match="it has no 'plaquette'"):
        history.check(6, {"plaquette": np.zeros(4, np.float32)})
    (chunk,) = (file for file in (path / "charge" / "c").rglob("*") if file.is_file())
    chunk.write_bytes(b"not what was compressed")
    with pytest.raises(UserError, match=r"history.zarr.* is damaged"):
        history.check(6, ROW)
    with pytest.raises(UserError, match=r"history.zarr.* is damaged"):
        history.write(6, records(6, 1))
    chunk.unlink()
    with pytest.raises(UserError, match=r"history.zarr.* rows are missing"):
        history.check(6, ROW)


def test_a_missing_or_damaged_store_is_named(history, path, tmp_path):
    with pytest.raises(UserError, match="is missing or damaged"):
        History.open(tmp_path / "nothing.zarr")
    (path / "zarr.json").write_text("{")
    with pytest.raises(UserError, match="is missing or damaged"):
        History.open(path)
