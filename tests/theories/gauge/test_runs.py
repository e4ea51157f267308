"""Runs of gauge theories as a user does them: from a file to files, and U(1) beyond two dimensions."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import dlhmc
from dlhmc import cli
from dlhmc.errors import ExitCode
from dlhmc.io import read
from dlhmc.report.command import build_page
from dlhmc.theories import registry

SIZE = "su3 --lattice 2 4 2 2 --beta 5.5 --chains 2 --quiet"
#: so short that links stay where they are
STILL = "--trajectories 1 --warmup 0 --step-size 1e-6 --leapfrog-steps 1"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that has kept two configurations of each chain, and files of them in all formats."""
    folder = tmp_path_factory.mktemp("gauge")
    arguments = f"sample {SIZE} --step-size 0.1 --leapfrog-steps 1 --trajectories 12 --warmup 0 --keep-configurations 2"
    assert cli.run([*arguments.split(), "--out", str(folder / "run")]) == ExitCode.OK
    for form in registry.formats():
        export = ["export", str(folder / "run"), "--format", form, "--out", str(folder / form)]
        assert cli.run(export) == ExitCode.OK
    return folder


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ran(command, capsys):
    capsys.readouterr()
    assert cli.run(command.split()) == ExitCode.OK
    return capsys.readouterr().out


def refused(command, capsys):
    before = sorted(Path().rglob("*"))
    capsys.readouterr()
    assert cli.run(command.split()) == ExitCode.BAD_INPUT
    assert sorted(Path().rglob("*")) == before
    return capsys.readouterr().err


def test_names_of_files(made):
    names = {form: sorted(path.name for path in (made / form).iterdir()) for form in ("nersc", "ildg", "openqcd")}
    assert names["nersc"] == ["runr000.06", "runr000.12", "runr001.06", "runr001.12"]
    assert names["ildg"][1:3] == ["runr000n12.lime", "runr001n06.lime"]
    assert names["openqcd"][-1] == "runr001n12"


def test_exported_files_are_what_was_kept(made, capsys):
    samples = dlhmc.load(made / "run")
    kept = samples.data["configurations"].values
    measured = samples.series("plaquette")[[5, 11]]
    for form in registry.formats():
        files = sorted((made / form).iterdir())
        for file, (chain, index) in zip(files, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True):
            stored = read(file)
            assert stored.header["plaquette"] == pytest.approx(measured[index, chain], abs=1e-6)
            # In double precision, although links were in single precision.
            unitary = stored.links @ stored.links.conj().swapaxes(-1, -2)
            assert np.abs(unitary - np.eye(3)).max() < 1e-14
            np.testing.assert_allclose(np.moveaxis(stored.links, (-2, -1), (0, 1)), kept[index, ..., chain], atol=1e-6)
        chain_1 = json.loads(ran(f"measure su3 {files[2]} {files[3]} --json", capsys))
        assert chain_1["plaquette"]["mean"] == pytest.approx(measured[:, 1].mean(), abs=1e-6)
        assert (chain_1["target"], chain_1["lattice"]) == ("su3", [2, 4, 2, 2])
        assert "beta" not in chain_1  # no file tells it
    one = json.loads(ran(f"measure su3 {files[0]} --beta 5.5 --json", capsys))
    assert one["beta"] == 5.5
    assert len(one["polyakov"]["mean"]) == 4
    assert "polyakov[3]" in ran(f"measure su3 {files[0]}", capsys)


def test_a_run_starts_from_a_file_and_goes_on(made, capsys):
    shutil.copy(made / "ildg" / "runr001n12.lime", "start")
    wanted = read("start").header["plaquette"]
    ran(f"sample {SIZE} {STILL} --start start --out run", capsys)
    samples = dlhmc.load("run")
    np.testing.assert_allclose(samples.series("plaquette"), wanted, atol=1e-6)
    assert samples.summary()["start"] == str(Path("start").absolute())
    shutil.move("run/checkpoints", "gone")
    shutil.rmtree("run/history.zarr")
    Path("run/metrics.jsonl").unlink()
    Path("start").unlink()
    assert "There is no file" in refused("resume run", capsys)
    shutil.copy(made / "ildg" / "runr001n12.lime", "start")
    ran("resume run", capsys)
    np.testing.assert_array_equal(dlhmc.load("run").series("plaquette"), samples.series("plaquette"))


def test_starts_near_equilibrium():
    """Of a hot start ⟨Re tr P/N⟩ is 0 and of a cold one 1; layers, which may not get away from either, take no such."""
    target = dlhmc.wilson("su2", (2, 2, 2, 2), 2.3)
    still, layers = (
        dlhmc.HMC(target, 1e-6, 1),
        dlhmc.DLHMC(target, dlhmc.build_trajectory(target, hidden=(2,), window=2, step_size=1e-6)),
    )
    options = {"chains": 4, "trajectories": 1, "warmup": 0, "progress": False}
    for kernel, start in ((still, "near"), (layers, None)):
        samples = dlhmc.sample(kernel, start=start, **options)
        assert samples.summary()["start"] == "near"
        assert 0.4 < samples.series("plaquette").mean() < 0.8
    odd = dlhmc.HMC(dlhmc.wilson("su2", (3, 2, 2), 2.3), 1e-6, 1)
    with pytest.raises(dlhmc.UserError, match="knows no starts near equilibrium"):
        dlhmc.sample(odd, start="near", **options)


def test_a_run_starts_from_an_array(made):
    x = dlhmc.load(made / "run").data["configurations"].values[-1]
    kernel = dlhmc.HMC(dlhmc.wilson("su3", (2, 4, 2, 2), 5.5), 1e-6, 1)
    options = {"chains": 2, "trajectories": 1, "warmup": 0, "progress": False}
    wanted = dlhmc.load(made / "run").series("plaquette")[-1]
    samples = dlhmc.sample(kernel, start=x, **options, out="run")
    np.testing.assert_allclose(samples.series("plaquette")[0], wanted, atol=1e-6)
    assert samples.summary()["start"] == "array"
    np.save("links.npy", x[..., 1])
    samples = dlhmc.sample(kernel, start="links.npy", **options)
    np.testing.assert_allclose(samples.series("plaquette")[0], wanted[1], atol=1e-6)
    for wrong, reason in ((x[..., :1, :], "must have"), (1.01 * x, "are off"), (x * np.nan, "not finite")):
        with pytest.raises(dlhmc.UserError, match=reason):
            dlhmc.sample(kernel, start=wrong, **options)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (f"sample {SIZE} --start warm", "--start is one of hot, cold, exact, near, or a file"),
        (
            "sample su3 --lattice 4 4 4 4 --start FILE",
            "First configurations have the shape",
        ),
        ("sample su2 --lattice 2 4 2 2 --start FILE", "First configurations have the shape"),
        ("sample u1 --start FILE", "First configurations have the shape"),
        (f"sample {SIZE} --start DAMAGED", "its checksum is wrong"),
        ("measure su3 FILE DAMAGED", "its checksum is wrong"),
        ("measure su3 FILE nowhere", "There is no file nowhere"),
        ("measure su3 FILE OTHER", "of su2 --lattice 2 2 2 2, but"),
        ("measure su2 FILE", "not of su2"),
        ("export RUN --format nersc --out NERSC", "exists already"),
        ("export RUN --format lime --out new", "--format is 'lime', but must be one of nersc, ildg, openqcd"),
    ],
)
def test_what_is_refused(command, reason, made, tmp_path, capsys):
    file = made / "nersc" / "runr000.06"
    damaged = bytearray(file.read_bytes())
    damaged[-3] ^= 1
    Path("damaged").write_bytes(damaged)
    cold = np.eye(2, dtype=complex)[:, :, None, None, None, None, None] * np.ones((4, 2, 2, 2, 2))
    Path("other").write_bytes(registry.formats()["nersc"].encode(cold, "cold", 1))
    words = {"FILE": file, "DAMAGED": "damaged", "OTHER": "other", "RUN": made / "run", "NERSC": made / "nersc"}
    command = " ".join(str(words.get(word, word)) for word in command.split())
    assert reason in refused(command, capsys)


@pytest.mark.parametrize(
    ("colors", "lattice", "format", "reason"),
    [(2, (2, 2), "nersc", "this one has 2"), (2, (2,) * 4, "openqcd", r"for SU\(3\)")],
)
def test_what_no_file_can_hold(colors, lattice, format, reason):
    shape = (colors, colors, len(lattice), *lattice)
    cold = np.eye(colors, dtype=complex).reshape(colors, colors, *(1,) * (len(shape) - 2)) * np.ones(shape)
    with pytest.raises(dlhmc.UserError, match=reason):
        registry.formats()[format].encode(cold, "cold", 1)


def test_the_flow_of_angles_in_a_run(capsys):
    amounts = "--chains 2 --trajectories 4 --warmup 0 --step-size 0.1 --leapfrog-steps 1 --start cold"
    measured = "--flow-time 1 --flow-points 4 --measure-every 1 --loops 1"
    ran(f"sample u1 --lattice 2 2 --beta 4 {amounts} {measured} --quiet --out run", capsys)
    found = dlhmc.load("run")
    assert json.loads(found.data.attrs["notes"]) == {"flow_times": [0.25, 0.5, 0.75, 1.0]}
    np.testing.assert_allclose(found.data["wilson_loops"][:, :, 0, 0], found.data["plaquette"], atol=1e-6)
    energy = found.data["flow_energy_plaquette"].values / np.square([0.25, 0.5, 0.75, 1.0])
    assert np.all(np.diff(energy, axis=-1) < 0)
    assert build_page([Path("run")]).pictures[0].name == "flow-run"


def test_u1_beyond_two_dimensions(capsys):
    ran(
        "sample u1 --lattice 2 2 4 --beta 1.5 --chains 2 --trajectories 4 --warmup 0 --kernel heatbath --quiet"
        " --out run --flow-time 0.2 --flow-points 4 --measure-every 2",
        capsys,
    )
    found = dlhmc.load("run")
    assert found.data["flow_energy"].shape == (2, 4, 4)
    assert (found.data.attrs["target"], list(found.data.attrs["lattice"])) == ("u1", [2, 2, 4])
    assert json.loads(ran("summary run --json", capsys))["title"].startswith("heatbath  u1  2×2×4")
    settings = registry.theory("u1").settings.of_shape((7, 1, 1, 3, 2, 2, 4), {"beta": 1.5})
    assert settings.build().geometry.shape == (1, 1, 3, 2, 2, 4)
    for options, reason in (
        ("--lattice 2 2 4 --hits 1", "--hits are for angles in two dimensions"),
        ("--lattice 2 2 4 --start exact", "no exact draws"),
        ("--lattice 4 4 --kernel heatbath", "heatbath is not for angles"),
        ("--lattice 2 2 2 2 2", "2 to 4 of them"),
    ):
        assert reason in refused(f"sample u1 {options}", capsys)
    for dry in ("", " --dry-run"):
        assert "--hits are for angles in two dimensions" in refused(f"compare u1 --lattice 2 2 4 --hits 2{dry}", capsys)
    with pytest.raises(dlhmc.UserError, match="hits are for angles"):
        dlhmc.compare(settings.build(), hits=1)
    assert "--loss charge is not for this target: use jump or action" in refused(
        "train u1 local --lattice 2 2 4 --loss charge", capsys
    )
    tiny = "--hidden 4 --window 2 --chains 4 --steps 2 --burn-in 0 --start cold"
    assert "sample u1 --model trained" in ran(f"train u1 local --lattice 2 2 4 {tiny} --out trained", capsys)
