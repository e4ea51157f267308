"""The entry point: commands are run here, and what goes wrong becomes a sentence and an exit code."""

import os
import sys
import traceback
from typing import TextIO

from dlhmc import __version__
from dlhmc.cli.commands import commands
from dlhmc.cli.options import Compiling
from dlhmc.cli.parsing import advice, parse
from dlhmc.errors import ExitCode, UserError

_NO_MEMORY = "there is not enough memory: take fewer --chains or a smaller target; --dry-run tells what it needs"


def main() -> None:
    """Entry point of the console script."""
    try:
        code = run(sys.argv[1:])
    except Exception:
        if "jax" not in sys.modules:
            raise
        traceback.print_exc()
        code = ExitCode.WRONG
    if "jax" in sys.modules:
        from dlhmc.run.processes import leave

        leave(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except UserError as error:
        _complain(error.on_command_line())
        return ExitCode.BAD_INPUT
    except MemoryError:
        _complain(_NO_MEMORY)
        return ExitCode.BAD_INPUT
    except BrokenPipeError:
        _give_up(sys.stdout)  # nothing more can be flushed
        if not _runs(arguments):
            return ExitCode.OK
        _complain("nobody reads the output any more, so this has ended; what was saved before is intact")
        return ExitCode.UNREAD
    except Exception as error:
        if "jax" not in sys.modules:
            raise
        from dlhmc.run.needs import is_exhausted
        from dlhmc.run.processes import lost_another

        if is_exhausted(error):
            _complain(_NO_MEMORY)
            return ExitCode.BAD_INPUT
        if not lost_another(error):
            raise
        _complain(
            "another process of the run has died; all end now, and 'dlhmc resume' goes on from the last checkpoint"
        )
        return ExitCode.LOST
    except KeyboardInterrupt:
        _complain("stopped at once; what was saved before is intact")
        return ExitCode.INTERRUPTED


def _complain(sentence: str) -> None:
    """To whom it may concern, if there is anyone."""
    try:
        sys.stderr.write(f"dlhmc{_which_process()}: {sentence}\n")
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    """Send what is still to be written to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _runs(arguments: list[str]) -> bool:
    """Whether it is more than a look."""
    command = commands().get(arguments[0]) if arguments else None
    return command is not None and command.group != "look" and not {"-h", "--help", "--dry-run"} & set(arguments)


def _which_process() -> str:
    """Which of several processes speaks."""
    if "jax" not in sys.modules:
        return ""
    import jax

    from dlhmc.run.processes import several

    return f" (process {jax.process_index()})" if several() else ""


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return ExitCode.OK
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"dlhmc {__version__}\n")
        return ExitCode.OK
    name, rest = arguments[0], arguments[1:]
    if name not in commands():
        raise UserError(f"There is no command '{name}': {advice(name, commands(), 'dlhmc --help')}")
    command = parse(name, commands()[name].options, rest)
    if isinstance(command, Compiling):
        command.set_cache()
    return command()


def _help() -> str:
    lines = [
        "usage: dlhmc COMMAND [OPTIONS]",
        "Deep Learning Hamiltonian Monte Carlo for lattice gauge theory.",
        "",
    ]
    for group in dict.fromkeys(command.group for command in commands().values()):
        members = [(name, command) for name, command in commands().items() if command.group == group]
        lines += [f"{group}:", *(f"  {name:<11}{command.purpose}" for name, command in members), ""]
    return "\n".join([*lines, "'dlhmc COMMAND --help' lists the options of a command.", ""])
