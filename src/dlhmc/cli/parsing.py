"""From the words of a command line to a command with its settings."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

import tyro

from dlhmc.cli.completion import options_of
from dlhmc.cli.runs import Compare, Reproduce, Sample, Train
from dlhmc.comparison.config import CompareConfig
from dlhmc.errors import UserError
from dlhmc.names import NetworkName, TargetName
from dlhmc.runs.config import TRAIN_PRESETS, SampleConfig, TrainConfig, load
from dlhmc.theories.u1.reproduction.config import REPRODUCE_PRESETS, ReproduceConfig

C = TypeVar("C", SampleConfig, TrainConfig, CompareConfig, ReproduceConfig)


def parse(name: str, options: type[Any], arguments: list[str]) -> Any:
    """The command with its options; a word that is none is answered with the one that was probably meant."""
    known = options_of(options)
    for argument in arguments:
        option = argument.partition("=")[0].replace("_", "-")
        if option.startswith("--") and option not in known and option != "--help":
            see = f"dlhmc {name} --help"
            raise UserError(f"There is no option '{argument}' of 'dlhmc {name}': {advice(option, known, see)}")
    default: Any = tyro.MISSING_NONPROP
    if options is Sample:
        default = Sample(settings=_defaults(SampleConfig, arguments))
    elif options is Train:
        default = Train(settings=_defaults(TrainConfig, arguments))
    elif options is Compare:
        default = Compare(settings=_defaults(CompareConfig, arguments))
    elif options is Reproduce:
        default = Reproduce(settings=_defaults(ReproduceConfig, arguments))
    config = (tyro.conf.DisallowNone, tyro.conf.PositionalMetavarFromFieldName)
    return tyro.cli(options, prog=f"dlhmc {name}", args=arguments, default=default, config=config)


def advice(word: str, known: Iterable[str], see: str) -> str:
    """What was probably meant, or where to look."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"see '{see}'."


def _defaults(kind: type[C], arguments: list[str]) -> C:
    """The settings of --config, --preset or --model: the defaults that other options override.

    Defaults depend on the target, so it is looked at first.
    """
    target = _value_of("--target", arguments)
    settings: dict[str, Any] = {"target": target} if target in get_args(TargetName) else {}
    network = _value_of("--network", arguments)
    if kind is TrainConfig and network in get_args(NetworkName):
        settings["network"] = network
    if (file := _value_of("--config", arguments)) is not None:
        return load(kind, Path(file), **settings)
    if kind is TrainConfig and (preset := TRAIN_PRESETS.get(_value_of("--preset", arguments) or "")):
        if settings.get("target", "u1") != "u1":
            raise UserError(f"The presets are for the target u1, not for {target}: leave out --preset.")
        settings = preset | settings
    if kind is ReproduceConfig and (preset := REPRODUCE_PRESETS.get(_value_of("--preset", arguments) or "")):
        settings = preset | settings
    model = _value_of("--model", arguments) or _value_of("--from", arguments)
    if kind in (SampleConfig, TrainConfig) and model is not None:
        from dlhmc.runs.targets import settings_of_model

        trained_for = settings_of_model(model, architecture=kind is TrainConfig)
        if settings.get("target", trained_for["target"]) == trained_for["target"]:
            settings = trained_for | settings
    return kind(**settings)


def _value_of(option: str, arguments: list[str]) -> str | None:
    """What follows an option, before the command line is parsed as a whole."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(option + "="):
            return argument.removeprefix(option + "=")
    return None
