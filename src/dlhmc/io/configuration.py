"""Links as people exchange them, and the numbers by which their files vouch for them."""

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlhmc.files import MOST_ARRAYS

Links = NDArray[np.complex128]
#: how far links may be from SU(N), and numbers of a header from those of its links: single precision, and the six
#: digits that some programs print. Grid asks for the same (Grid/parallelIO/NerscIO.h, IldgIO.h).
TOLERANCE = 1e-5
#: file formats write the number of colours with one digit
MOST_COLORS = 9
#: decimals in texts of strangers
NUMBER = r"[-+]?(\d{1,40}\.?\d{0,40}|\.\d{1,40})([eE][-+]?\d{1,4})?"


@dataclasses.dataclass(frozen=True, eq=False)
class Configuration:
    """Links of SU(N) on a periodic lattice: links[μ, x, y, z, t, row, column], where μ = 0…3 is along x, y, z, t.

    The plaquette is U_μ(x) U_ν(x+μ) U_μ(x+ν)† U_ν(x)†. `header` has what a file says about them: its `format` and
    `precision`, `plaquette` and `link_trace` (both of the links, 1 for a cold start), and as `metadata` the texts that
    are peculiar to the format. Links of single precision are as they were stored, unitary to about 1e-7.

    >>> cold = Configuration(np.broadcast_to(np.eye(3, dtype=complex), (4, 2, 4, 4, 8, 3, 3)))
    >>> cold.lattice, cold.colors, plaquette(cold.links)
    ((2, 4, 4, 8), 3, 1.0)
    """

    links: Links
    header: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def lattice(self) -> tuple[int, ...]:
        """Sites along x, y, z and t."""
        return self.links.shape[1:-2]

    @property
    def colors(self) -> int:
        """N of SU(N)."""
        return self.links.shape[-1]

    @property
    def metadata(self) -> Mapping[str, str]:
        """Texts of the header that are peculiar to its format."""
        return self.header.get("metadata", {})


def plaquette(links: Links) -> float:
    """The average of Re tr U_p / N over all plaquettes."""
    total = 0.0
    for mu, nu in itertools.combinations(range(4), 2):
        one_way = links[mu] @ np.roll(links[nu], -1, axis=mu)
        other_way = links[nu] @ np.roll(links[mu], -1, axis=nu)
        total += float(np.sum(one_way.real * other_way.real + one_way.imag * other_way.imag))
    return total / (6 * math.prod(links.shape[1:-1]))


def link_trace(links: Links) -> float:
    """The average of Re tr U / N over all links."""
    return float(np.trace(links, axis1=-2, axis2=-1).real.mean()) / links.shape[-1]


def require_special_unitary(links: Links) -> None:
    """ValueError for links that are not in SU(N)."""
    for along in links:
        # Elements of unitary matrices are at most 1: no others are multiplied, which could overflow.
        if not np.abs(along).max() < 2:
            raise ValueError("its links are not unitary")
        off = np.abs(along @ along.conj().swapaxes(-1, -2) - np.eye(links.shape[-1])).max()
        if not off < TOLERANCE:
            raise ValueError(f"its links are not unitary: U U† is off 1 by {off:.2g}")
        off = np.abs(np.linalg.det(along) - 1).max()
        if not off < TOLERANCE:
            raise ValueError(f"its links are unitary, but their determinants are off 1 by {off:.2g}")


def verified(
    links: Links, stated: Mapping[str, float], metadata: Mapping[str, str], tolerance: float = TOLERANCE, **facts: Any
) -> Configuration:
    """Links of a file with what it says of them; ValueError if they are not in SU(N), or have other numbers."""
    require_special_unitary(links)
    found = {"plaquette": plaquette(links), "link_trace": link_trace(links)}
    for name, value in stated.items():
        if not abs(value - found[name]) <= tolerance:
            what = name.replace("_", " ")
            raise ValueError(f"its {what} is wrong: the file says {value:.15g}, but its links give {found[name]:.15g}")
    return Configuration(links, facts | found | {"metadata": metadata})


def matching(texts: Mapping[str, str], name: str, pattern: str) -> str:
    """A text of a header; ValueError if it is missing or another one."""
    if name not in texts:
        raise ValueError(f"it has no {name}")
    if not re.fullmatch(pattern, texts[name], re.ASCII):
        raise ValueError(f"its {name} is {texts[name][:80]!r}")
    return texts[name]


def require_checksum(stored: str, *found: str) -> None:
    """ValueError if the checksum is none of those found."""
    if stored not in found:
        raise ValueError(
            f"its checksum is wrong: the file says {stored}, but its links give {' or '.join(dict.fromkeys(found))}"
        )


def shown(lattice: Sequence[int]) -> str:
    """Of dimensions, for people.

    >>> shown((4, 4, 4, 8))
    '4×4×4×8'
    """
    return "×".join(map(str, lattice))


def require_size(lattice: Sequence[int], colors: int, numbers: int, found: int) -> None:
    """ValueError if links do not have the bytes that a lattice needs, at `numbers` bytes a site, or too many."""
    if min(lattice) < 1 or not 2 <= colors <= MOST_COLORS:
        raise ValueError(f"its dimensions are {shown(lattice)}, with {colors} colours")
    if math.prod(lattice) * 4 * 16 * colors**2 > MOST_ARRAYS:
        raise ValueError(
            f"its dimensions are {shown(lattice)}: links would take more than {MOST_ARRAYS / 2**30:.3g} GB"
        )
    if (wanted := math.prod(lattice) * numbers) != found:
        what = "it is truncated" if found < wanted else "it is too long"
        raise ValueError(f"{what}: its dimensions {shown(lattice)} need {wanted} bytes of links, but it has {found}")


def to_sites(links: Links, dtype: str) -> NDArray[Any]:
    """links[μ, x, y, z, t, …] as [t, z, y, x, μ, …], the order of NERSC and ILDG, in the numbers of a file."""
    return np.ascontiguousarray(links.transpose(4, 3, 2, 1, 0, 5, 6), dtype)


def from_sites(payload: bytes | memoryview, dtype: str, lattice: Sequence[int], rows: int, colors: int) -> Links:
    """The other way round; ValueError if there are too many numbers, or too few."""
    numbers = 4 * rows * colors
    require_size(lattice, colors, numbers * np.dtype(dtype).itemsize, memoryview(payload).nbytes)
    stored = np.frombuffer(payload, dtype).reshape(*lattice[::-1], 4, rows, colors)
    return native(stored.transpose(4, 3, 2, 1, 0, 5, 6))


def native(array: NDArray[Any]) -> Links:
    """Numbers of a file as the machine likes them."""
    return np.ascontiguousarray(array, np.complex128)
