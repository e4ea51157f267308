import warnings

import numpy as np
import pytest
import xarray

from dlhmc.errors import UserError
from dlhmc.run.history import History, Rows, diagnostics_of

ROW = {
    "charge": np.zeros(4, np.float32),
    "loops": np.zeros((2, 3, 4), np.float32),
    "count": np.zeros(4, np.int32),
    "accepted": np.zeros(4, np.int8),
}
FIELD = np.zeros((2, 3, 3, 4), np.float32)
SHAPE = (10, 4)


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
                "loops_0": 2,
                "loops_1": 3,
            }
            assert store.loops.dims == ("trajectory", "loops_0", "loops_1", "chain")
            np.testing.assert_array_equal(store.loops, records(0, 10)["loops"])
            assert store.accepted.dtype == np.int8
            np.testing.assert_array_equal(store.charge, records(0, 10)["charge"])
            np.testing.assert_array_equal(store.configurations.sel(kept=10), FIELD + 1)
            assert np.isnan(store.configurations.sel(kept=5)).all()


def test_rows_that_were_not_reached_are_marked(history, path):
    history.write(0, records(0, 6))
    with xarray.open_zarr(path, mask_and_scale=False) as store:
        assert np.isnan(store.charge[6:]).all()
        assert (store.accepted[6:] == -128).all()


def test_a_resumed_run_overwrites_what_came_later(history, path):
    history.write(0, records(100, 3))
    digests = history.digests()
    history.write(3, records(103, 5))
    again = History.open(path)
    again.verify(SHAPE, 3, 0, digests)
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


def test_an_element_of_an_array(history):
    history.write(0, records(0, 6))
    rows = history.rows("loops", 6, power=2, element=(1, 2))
    assert rows.shape == (6, 4)
    np.testing.assert_array_equal(rows[:, 1:3], (np.arange(6.0)[:, None] + 5) ** 2 + np.zeros(2))
    np.testing.assert_array_equal(rows[::2, :], rows[:, :][::2])
    assert history.rows("loops", 6)[:, :].shape == (6, 2, 3, 4)
    assert history.rows("loops", 6).total() == records(0, 6)["loops"].sum()


def test_records_of_the_kernel_may_be_nan(path):
    row = {name: np.zeros(4, np.float32) for name in ("energy", "height")}
    history = History.create(path, 4, row, [], FIELD, {"diagnostics": '["energy"]'})
    history.write(0, {name: np.full((4, 4), np.nan, np.float32) for name in row})
    assert np.isnan(history.rows("energy", 4).total())
    with pytest.raises(UserError, match="rows are missing"):
        history.rows("height", 4).total()
    assert diagnostics_of({}) == ()
    for damaged in ("[", "1", 1, None):
        with pytest.raises(UserError, match="'diagnostics' of the histories is damaged"):
            diagnostics_of({"diagnostics": damaged})


def test_negative_integers_are_numbers(history):
    history.write(0, records(0, 6))
    assert history.rows("count", 6).total() == -4 * sum(range(6))
    with pytest.raises(UserError, match="rows are missing"):
        history.rows("count", 7).total()


def test_the_sum_of_a_long_history_is_taken_in_parts(path):
    long = History.create(path, 200_000, ROW, [], FIELD, {})
    assert long.array("charge").chunks[0] < 200_000
    long.write(0, records(0, 200_000))
    assert Rows(long.array("accepted"), 200_000).total() == 400_000


def sealed(history):
    """A history of six rows and one configuration, and what a checkpoint would keep of it."""
    history.write(0, records(0, 6))
    history.write_configuration(0, FIELD + 1)
    return history.digests()


def test_a_whole_history_is_verified_and_goes_on(history, path):
    digests = sealed(history)
    history.write(6, records(6, 2))  # after the checkpoint
    again = History.open(path)
    again.verify(SHAPE, 6, 1, digests)
    again.forget_after(6)
    for store in (history, again):
        store.write(8 if store is history else 6, records(8 if store is history else 6, 2 if store is history else 4))
        store.write_configuration(1, FIELD + 2)
    assert again.digests() == history.digests()
    again.verify(SHAPE, 10, 2, history.digests())


def test_nan_of_any_kind_is_the_same(path):
    history = History.create(path, 4, {"energy_change": ROW["charge"]}, [], FIELD, {})
    rows = np.full((4, 4), np.nan, np.float32)
    rows.view(np.uint32)[:] |= 0x80000001  # another NaN than the fill value, which stands for a chunk that is not there
    history.write(0, {"energy_change": rows})
    History.open(path).verify((4, 4), 4, 0, history.digests())


def chunk_of(path, name):
    (chunk,) = (file for file in (path / name / "c").rglob("*") if file.is_file() and file.suffix != ".tmp")
    return chunk


def flip(file, where=0.5):
    data = bytearray(file.read_bytes())
    data[int(where * (len(data) - 1))] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("name", ["charge", "loops", "accepted", "configurations", "kept"])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_flipped_bit_is_found(name, where, history, path):
    digests = sealed(history)
    flip(chunk_of(path, name), where)
    with pytest.raises(UserError, match=rf"history.zarr is damaged in '{name}'"):
        History.open(path).verify(SHAPE, 6, 1, digests)


@pytest.mark.parametrize("name", ["charge", "loops", "configurations"])
def test_lost_and_exchanged_chunks_are_found(name, history, path, tmp_path):
    digests = sealed(history)
    other = History.create(tmp_path / "other.zarr", 10, ROW, [5, 10], FIELD, {"beta": 7.0})
    other.write(0, records(1, 6))
    other.write_configuration(0, FIELD + 3)
    chunk_of(path, name).write_bytes(chunk_of(tmp_path / "other.zarr", name).read_bytes())
    with pytest.raises(UserError, match=f"'{name}' is not what was saved"):
        History.open(path).verify(SHAPE, 6, 1, digests)
    chunk_of(path, name).unlink()
    with pytest.raises(UserError, match=f"'{name}' is not what was saved"):
        History.open(path).verify(SHAPE, 6, 1, digests)


def test_changed_metadata_are_found(history, path):
    digests = sealed(history)
    file = path / "zarr.json"
    file.write_text(file.read_text().replace('"beta": 7.0', '"beta": 6.0'))
    with pytest.raises(UserError, match=r"its metadata \(zarr.json\) are not those saved"):
        History.open(path).verify(SHAPE, 6, 1, digests)


def test_arrays_that_nobody_vouches_for_are_found(history, path):
    digests = sealed(history)
    for other in (digests | {"plaquette": digests["charge"]}, {k: v for k, v in digests.items() if k != "charge"}):
        with pytest.raises(UserError, match=r"'(charge|plaquette)' is missing, or of another run"):
            History.open(path).verify(SHAPE, 6, 1, other)


def test_a_store_of_another_size_is_refused(history, path):
    with pytest.raises(UserError, match="'accepted' is of another run"):
        history.verify((10, 5), 6, 1, sealed(history))


@pytest.mark.parametrize("size", [2**40, 4 * 10 * 4 + 1])
def test_a_chunk_that_claims_to_be_larger_is_not_unpacked(size, history, path):
    digests = sealed(history)
    # A frame of Zstandard that says how much it holds in eight bytes.
    chunk_of(path, "charge").write_bytes(b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + bytes(20))
    with pytest.raises(UserError, match="is damaged in 'charge': 0 has another size"):
        history.verify(SHAPE, 6, 1, digests)


def test_rows_that_are_not_there_are_no_numbers(history, path):
    history.write(0, records(0, 6))
    with pytest.raises(UserError, match=r"history.zarr.* rows are missing"):
        Rows(history.array("charge"), 7).total()
    with pytest.raises(UserError, match="it has no 'plaquette'"):
        history.array("plaquette")
    chunk_of(path, "charge").write_bytes(b"not what was compressed")
    with pytest.raises(UserError, match=r"history.zarr.* is damaged"):
        Rows(history.array("charge"), 6).total()
    with pytest.raises(UserError, match=r"history.zarr.* is damaged"):
        history.write(6, records(6, 1))


def test_damage_after_the_checkpoint_does_not_matter(path):
    rows = 2**17  # two chunks of the history
    history = History.create(path, rows, ROW, [], FIELD, {})
    history.write(0, records(0, 2**16))
    digests = history.digests()
    history.write(2**16, records(2**16, 10))
    flip(path / "charge" / "c" / "1" / "0")
    (path / "charge" / "c" / "0" / ".0.tmp").write_bytes(b"torn")
    again = History.open(path)
    again.verify((rows, 4), 2**16, 0, digests)
    again.forget_after(2**16)
    assert not list(path.rglob(".*.tmp"))
    again.write(2**16, records(2**16, 10))
    np.testing.assert_array_equal(again.array("charge")[2**16 : 2**16 + 10], records(2**16, 10)["charge"])


def test_a_missing_or_damaged_store_is_named(history, path, tmp_path):
    with pytest.raises(UserError, match="is missing or damaged"):
        History.open(tmp_path / "nothing.zarr")
    (path / "zarr.json").write_text("{")
    with pytest.raises(UserError, match="is missing or damaged"):
        History.open(path)
