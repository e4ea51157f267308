"""Files are read by another program as well, which knows nothing of this one."""

import itertools

import numpy as np
import pytest
from latqcdtools.interfaces.confReader import ILDGReader, NERSCReader

from dlhmc.io import Configuration, write
from gauge_links import random_links


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("nersc", {"precision": 64}),
        ("nersc", {"precision": 32, "compressed": True}),
        ("ildg", {"precision": 64}),
        ("ildg", {"precision": 32}),
    ],
)
def test_the_analysis_toolbox_reads_the_same_links(form, options, tmp_path):
    """It verifies plaquette and link trace of NERSC archives itself; its lattices are cubes in space."""
    side, time = 2, 4
    links = random_links((side, side, side, time))
    write(tmp_path / "a", Configuration(links), form, **options)
    reader = {"nersc": NERSCReader, "ildg": ILDGReader}[form](Ns=side, Nt=time, nproc=1)
    found = reader.readConf(str(tmp_path / "a"))
    for mu, t, z, y, x in itertools.product(range(4), range(time), *[range(side)] * 3):
        expected = links[mu, x, y, z, t]
        np.testing.assert_allclose(np.asarray(found.getLink(x, y, z, t, mu)), expected, rtol=0, atol=3e-7)
