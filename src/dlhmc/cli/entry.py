"""The entry point: commands are run here, and what goes wrong becomes a sentence and an exit code."""

import os
import sys
import traceback
from typing import TextIO

from dlhmc.cli.commands import COMMANDS
from dlhmc.cli.parsing import find_leaf, overview, parse
from dlhmc.errors import ExitCode, UserError

_NO_MEMORY = "there is not enough memory: take fewer --chains or a smaller target; --dry-run tells what it needs"
_LOST = "another process of the run has died; all end now, and 'dlhmc resume' goes on from the last checkpoint"


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
        return _complain(error.on_command_line(), ExitCode.BAD_INPUT)
    except MemoryError:
        return _complain(_NO_MEMORY, ExitCode.BAD_INPUT)
    except BrokenPipeError:
        _give_up(sys.stdout)  # nothing more can be flushed
        if not arguments or COMMANDS[arguments[0]].group == "look" or {"-h", "--help", "--dry-run"} & {*arguments}:
            return ExitCode.OK
        said = "nobody reads the output any more, so this has ended; what was saved before is intact"
        return _complain(said, ExitCode.UNREAD)
    except KeyboardInterrupt:
        return _complain("stopped at once; what was saved before is intact", ExitCode.INTERRUPTED)
    except Exception as error:
        if "jax" not in sys.modules:
            raise
        from dlhmc.run.needs import is_exhausted
        from dlhmc.run.processes import lost_another

        if is_exhausted(error):
            return _complain(_NO_MEMORY, ExitCode.BAD_INPUT)
        if lost_another(error):
            return _complain(_LOST, ExitCode.LOST)
        raise


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "-V", "--version"):
        sys.stdout.write(overview(COMMANDS, arguments))
        return ExitCode.OK
    leaf, rest = find_leaf(COMMANDS, arguments)
    return ExitCode.OK if leaf is None else leaf.act(*parse(leaf, rest))


def _complain(sentence: str, code: ExitCode) -> ExitCode:
    """To whom it may concern, if there is anyone."""
    try:
        sys.stderr.write(f"dlhmc{_which_process()}: {sentence}\n")
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)
    return code


def _give_up(stream: TextIO) -> None:
    """Send what is still to be written to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _which_process() -> str:
    """Which of several processes speaks."""
    if "jax" not in sys.modules:
        return ""
    import jax

    from dlhmc.run.processes import several

    return f" (process {jax.process_index()})" if several() else ""
