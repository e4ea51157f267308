"""What `make soak` calls constant."""

import pytest
import soak

CHAINS, LOOKS = 4, 121


def judged(**changes):
    """An hour, looked at every 30 seconds; each change has the part of the hour that is over."""
    plain = {
        "cpu_seconds": lambda t: 2400 * t,
        "peak": lambda t: 300e6,
        "own": lambda t: 170e6,
        "open_files": lambda t: 8,
    }
    looks = []
    for i in range(LOOKS):
        t = i / (LOOKS - 1)
        figures = {name: value(t) for name, value in (plain | changes).items()}
        looks.append(soak.Look(seconds=3600 * t, trajectories=round(1.2e6 * t), **figures))
    return soak.judge(looks, CHAINS)


def test_an_hour_in_which_nothing_changes():
    figures = judged()
    assert figures["constant"]
    assert figures["resident_growth"] == 0
    assert figures["parts"][3]["cpu_microseconds_per_trajectory"] == pytest.approx(500)


@pytest.mark.parametrize(
    "changes",
    [
        {"peak": lambda t: 300e6 * (1 + 0.02 * t)},
        {"peak": lambda t: 304e6 if t == 1 else 300e6},  # once is enough
        {"own": lambda t: 170e6 * (1 + 0.02 * t), "peak": lambda t: 300e6 * (1 - 0.1 * t)},
        {"open_files": lambda t: 8 + (t > 0.99)},
        {"cpu_seconds": lambda t: 2400 * t * (1 + 0.1 * t)},
    ],
    ids=[
        "memory grows",
        "memory has a peak",
        "its own grows while the system takes files' pages",
        "a file stays open",
        "it becomes slower",
    ],
)
def test_what_is_not_constant(changes):
    assert not judged(**changes)["constant"]


def test_caches_may_fill_first():
    assert judged(peak=lambda t: 200e6 if t < 1 / 6 else 300e6)["constant"]
