"""The benchmark of fermions counts the work of a chain, and can be run alone."""

import io

import pytest
from rich.console import Console

from benchmarks import bench, fermion_bench
from dlhmc.errors import UserError


@pytest.mark.slow  # compiles two kernels
def test_work_and_memory_of_one_chain():
    found = fermion_bench.measure(1, Console(file=io.StringIO()), (4,))
    hmc, proposal = found["HMC"][4], found["proposal"][4]
    # Each of at least 8 solutions takes an odd number of applications, 3 or more; a proposal takes one determinant.
    assert hmc.work["dirac_applications"] > 3 * fermion_bench.STEPS
    assert proposal.work["lu_decompositions"] == 1
    # Â in double precision, 16×16 complex numbers.
    assert proposal.memory > 16 * 16**2
    assert "| 4×4 |" in fermion_bench.report(found, 1)


def test_an_unknown_part_is_refused():
    with pytest.raises(UserError, match="must be one of steps, samplers, networks, groups, fermions, runs"):
        bench.bench(1, None, Console(file=io.StringIO()), "nothing")
