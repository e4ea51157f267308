"""`python -m benchmarks`, from the checkout."""

import dataclasses
import json
import sys
from pathlib import Path

import tyro
from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.run.compilation import use_cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the speed of a leapfrog step against BlackJAX, NumPy and the machine's limits."""

    out: Path | None = None
    """Markdown file to write the table to"""
    rounds: int = 7
    """how often everything is measured in turn; the fastest counts"""
    only: str | None = None
    """one part alone: steps, samplers, networks, groups or fermions"""
    scaling: tyro.conf.FlagCreatePairsOff[bool] = False
    """measure throughput with 1, 2 and 4 devices and processes instead"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print JSON instead of a table"""


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for."""
    options = tyro.cli(Options, args=arguments, prog="python -m benchmarks")
    if options.rounds < 1:
        sys.stderr.write(f"--rounds is {options.rounds}, but must be at least 1.\n")
        return 2
    use_cache()
    console = Console(quiet=options.json)
    try:
        if options.scaling:
            from benchmarks.scaling import scaling

            measured = scaling(options.rounds, options.out, console)
        else:
            from benchmarks.bench import bench

            measured = bench(options.rounds, options.out, console, options.only)
    except UserError as error:
        sys.stderr.write(f"{error.on_command_line()}\n")
        return 2
    if options.json:
        sys.stdout.write(f"{json.dumps(measured, indent=2)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
