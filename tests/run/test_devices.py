"""Chains spread over devices: the same numbers on 1, 2 and 4 of them, and checkpoints that do not care."""

import functools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from dlhmc import cli
from dlhmc.errors import ExitCode, UserError
from dlhmc.run.devices import Devices


@pytest.fixture(scope="module")
def find(tmp_path_factory, compilation_cache):
    """What a process with four devices finds: JAX cannot get more of them once it has started."""

    @functools.cache
    def run(part):
        script = Path(__file__).with_name("four_devices.py")
        command = [sys.executable, str(script), part, str(tmp_path_factory.mktemp("devices"))]
        done = subprocess.run(command, env=compilation_cache, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def same_on(found, numbers):
    assert set(found["histories"]) == set(numbers)
    assert len(set(found["histories"].values())) == 1
    assert found["devices"] == 4  # chains are spread indeed


def in_strips(split, strip=(2, 2, 4, 8), row=4 * 8):
    """Up to the order of sums the same, in strips, of which only rows at the edges are sent, of all chains."""
    assert split["difference"] < 1e-4
    assert split["strip"] == list(strip)
    assert split["sent"]
    for message in split["sent"]:
        operation, shape = message.split()
        assert operation == "collective-permute"
        assert math.prod(json.loads(shape[shape.index("[") :])) <= row


@pytest.mark.slow
def test_sampling_is_the_same_bit_for_bit(find):
    same_on(find("bits"), "124")


def test_a_run_goes_on_with_any_number_of_devices(find):
    assert find("hmc")["resumed"] == {"4 to 1": True, "1 to 4": True}


def test_chains_that_cannot_be_shared(find):
    assert "cannot be shared equally" in find("hmc")["unequal"]


def test_a_lattice_on_four_devices(find):
    in_strips(find("hmc")["split"])


@pytest.mark.slow
def test_a_lattice_of_matrices_on_four_devices(find):
    """Sites are not the second axis there: x[N, N, μ, *site, chain], cut along the last direction but one."""
    in_strips(find("matrices"), (2, 2, 2, 2, 4, 8), row=2 * 2 * 4 * 8)


@pytest.mark.slow
def test_training_sends_one_row_of_numbers_a_step(find):
    """That the trained parameters are the same on two processes is in test_processes.py."""
    found = find("messages")
    assert len(found["pairs"]["sent"]) == 1
    assert re.match(r"all-reduce f32\[\d+\]", found["pairs"]["sent"][0])  # one array, not a tuple of them
    assert {name: case["difference"] < 1e-4 for name, case in found.items()} == dict.fromkeys(found, True)


@pytest.mark.slow
def test_networks_on_four_devices(find):
    """Two processes train and sample with a network in test_processes.py."""
    found = find("networks")
    assert found["training"] < 1e-5
    same_on(found["windows"], "14")
    same_on(found["dense"], "14")
    in_strips(found["split"])


def test_more_devices_than_there_are():
    jax.devices()  # from now on there are no more
    with pytest.raises(UserError, match="ask for fewer"):
        Devices(4096)
    with pytest.raises(UserError, match="at least 1"):
        Devices(0)


def test_a_time_limit_saves_and_says_how_to_go_on(tmp_path, capsys):
    arguments = ["sample", "u1", "--lattice", "4", "4", "--beta", "2", "--chains", "4", "--trajectories", "1000000"]
    code = cli.run([*arguments, "--start", "cold", "--time-limit", "1s", "--out", str(tmp_path / "run")])
    assert code == ExitCode.TIME_OVER
    assert "dlhmc resume" in capsys.readouterr().out
    assert cli.run(["resume", str(tmp_path / "run"), "--time-limit", "soon"]) == ExitCode.BAD_INPUT
    assert "no duration" in capsys.readouterr().err
