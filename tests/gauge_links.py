"""Random links, and files of them written in the plainest way, apart from the package."""

import itertools
import struct
import zlib

import numpy as np


def random_links(lattice, colors=3, seed=0):
    """links[μ, x, y, z, t, N, N] of SU(N), near a cold start so that the plaquette says something."""
    numbers = np.random.default_rng(seed)
    shape = (4, *lattice, colors, colors)
    noise = numbers.normal(size=shape) + 1j * numbers.normal(size=shape)
    unitary, _ = np.linalg.qr(np.eye(colors) + 0.3 * noise)
    phases = np.linalg.det(unitary)
    unitary[..., 0] /= phases[..., None]
    return unitary


def sites(lattice):
    """x, y, z, t, of which x runs fastest."""
    return ((x, y, z, t) for t, z, y, x in itertools.product(*map(range, reversed(lattice))))


def in_site_order(links, code, rows):
    """Bytes of NERSC and ILDG, written number by number."""
    out = bytearray()
    for x, y, z, t in sites(links.shape[1:5]):
        for mu in range(4):
            for row in range(rows):
                for number in links[mu, x, y, z, t, row]:
                    out += struct.pack(code, number.real, number.imag)
    return bytes(out)


def at_odd_sites(links):
    """Bytes of openQCD, written link by link."""
    lx, ly, lz, lt = links.shape[1:5]
    out = bytearray()
    for x0, x1, x2, x3 in itertools.product(range(lt), range(lx), range(ly), range(lz)):
        if (x0 + x1 + x2 + x3) % 2 == 1:
            for mu in (3, 0, 1, 2):
                here = [x1, x2, x3, x0]
                back = list(here)
                back[mu] = (back[mu] - 1) % links.shape[1 + mu]
                for link in (links[mu, *here], links[mu, *back]):
                    for number in link.flat:
                        out += struct.pack("<dd", number.real, number.imag)
    return bytes(out)


def plaquette(links):
    """The average of Re tr U_p / N, one plaquette after another."""
    values = []
    for site in itertools.product(*map(range, links.shape[1:5])):
        for mu, nu in itertools.combinations(range(4), 2):

            def next_to(direction, site=site):
                return tuple((x + (axis == direction)) % links.shape[1 + axis] for axis, x in enumerate(site))

            loop = links[mu, *site] @ links[nu, *next_to(mu)]
            loop = loop @ links[mu, *next_to(nu)].conj().T @ links[nu, *site].conj().T
            values.append(np.trace(loop).real / len(loop))
    return np.mean(values)


def nersc_checksum(payload, order):
    return sum(struct.unpack(f"{order}{len(payload) // 4}I", payload)) % 2**32


def scidac_checksum(payload, volume):
    """(suma, sumb)"""
    size, sums = len(payload) // volume, [0, 0]
    for site in range(volume):
        crc = zlib.crc32(payload[site * size : (site + 1) * size])
        for number, modulus in enumerate((29, 31)):
            by = site % modulus
            sums[number] ^= (crc << by | crc >> (32 - by)) & 0xFFFFFFFF
    return tuple(sums)
