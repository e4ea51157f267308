"""What stands on the page: the question, the answer, charts and tables, and how to repeat it."""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from dlhmc.errors import UserError
from dlhmc.report.charts import Block, Chart, Code, Film, Page, Section, Text
from dlhmc.report.comparisons import ComparedRun, all_tables
from dlhmc.report.curves import Curve
from dlhmc.report.figures import Figures, grouped
from dlhmc.report.sampling import SampledRun, sampling_chart, sampling_table
from dlhmc.report.training import training_charts
from dlhmc.runs.directory import RunDirectory, is_of_objects, read_manifest, run_kind
from dlhmc.settings import read_table

_LONGEST_NAME = 100


class Runs(NamedTuple):
    """Run directories by kind."""

    comparisons: list[ComparedRun]
    trainings: list[Path]
    samplings: list[Path]

    @classmethod
    def open(cls, paths: Sequence[Path]) -> "Runs":
        """Sort directories by kind; one of another kind stands for the runs in it."""
        runs = cls([], [], [])
        for path in paths:
            kind = run_kind(path)
            if kind == "compare":
                runs.comparisons.append(ComparedRun.open(path))
            elif kind == "train":
                runs.trainings.append(path)
            elif kind == "sample":
                runs.samplings.append(path)
            else:
                inner = cls.open(sorted(file.parent for file in path.glob("[!.]*/manifest.json")))
                for mine, more in zip(runs, inner, strict=True):
                    mine.extend(more)  # type: ignore[attr-defined]
        return runs


def build_page(
    paths: Sequence[Path], curves: Sequence[Curve] = (), tell: Callable[[str], None] = lambda _: None
) -> Page:
    """The page for any set of runs; `tell` hears what is going on."""
    tell("reading runs …")
    runs = Runs.open(paths)
    if not any(runs):
        raise UserError("There is nothing to report yet: give directories of finished runs.")
    families = grouped(runs.comparisons, curves)
    found = []
    for figures, family in families:
        tell(f"comparing on {figures.where(family.last)}: costs, trajectories layer by layer …")
        found.append((figures.where(family.last), figures.sections(family)))
    headings = Counter(section.heading for _, of_family in found for section in of_family)
    sections = [
        dataclasses.replace(one, heading=one.heading if headings[one.heading] == 1 else f"{one.heading}, {where}")
        for where, of_family in found
        for one in of_family
    ]
    if runs.trainings:
        sections.append(Section("Training", training_charts(runs.trainings)))
    sections += _samplings([SampledRun.open(path) for path in runs.samplings])
    if runs.comparisons:
        where = [(run, figures.where(run)) for figures, family in families for run in family.runs]
        warnings = [Text(f"{place}: {warning}") for run, place in where for warning in run.results.warnings]
        tables = [table for each in where for table in all_tables(*each)]
        sections.append(Section("All samplers", [*warnings, *tables]))
    answers = [answer for figures, family in families if (answer := figures.headline(family.last)) is not None]
    title, question = "dlhmc: report of runs", "What did these runs do?"
    # A page about several theories has the words of none.
    if len({family.last.results.target["target"] for _, family in families}) == 1:
        figures, family = families[-1]
        title, question = figures.title(family.last), figures.question(family.last)
    sections = _drawable([*sections, _how_to_repeat(paths)])
    return Page(title, question, "\n".join(answers) or _counts(runs), sections)


def _samplings(runs: Sequence[SampledRun]) -> list[Section]:
    """What runs of a theory tell together, then a section for each run."""
    sections: list[Section] = []
    alike: dict[type[Figures], tuple[Figures, list[SampledRun]]] = {}
    for run in runs:
        figures = Figures() if run.theory is None else run.theory.figures(run.history.attributes)
        alike.setdefault(type(figures), (figures, []))[1].append(run)
        with run.sound():
            table = [] if run.summary is None else [sampling_table(run.summary)]
            sections.append(Section(f"Sampling run {run.name}", [*table, *figures.sampled(run), sampling_chart(run)]))
    together: list[Section] = []
    for figures, group in alike.values():
        with group[-1].sound():
            if blocks := figures.together(group):
                together.append(Section("Sampling runs together", blocks))
    return together + sections


def _drawable(sections: Sequence[Section]) -> list[Section]:
    """Charts with something in them, under names that files can have, no two the same: runs come from anywhere."""
    taken: set[str] = set()

    def settled(block: Block) -> Block:
        if isinstance(block, Chart) and not block.panels:
            return Text(f"{block.title}: there is nothing to draw yet.")
        if not isinstance(block, Chart | Film):
            return block
        plain = re.sub(r"[^\w.-]+", "-", block.name)[:_LONGEST_NAME].strip("-.") or "chart"
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        name = next(name for name in itertools.chain([plain], numbered) if name not in taken)
        taken.add(name)
        return dataclasses.replace(block, name=name)

    return [dataclasses.replace(section, blocks=[settled(block) for block in section.blocks]) for section in sections]


def _counts(runs: Runs) -> str:
    numbers: dict[str, Sequence[object]] = {
        "comparisons": runs.comparisons,
        "training runs": runs.trainings,
        "sampling runs": runs.samplings,
    }
    counted = "; ".join(f"{what}: {len(found)}" for what, found in numbers.items() if found)
    return f"{counted.capitalize()}. Tables and charts are below."


def _how_to_repeat(paths: Sequence[Path]) -> Section:
    blocks: list[Block] = []
    for path in paths:
        directory = RunDirectory(path)
        manifest = read_manifest(directory)
        versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
        devices = ", ".join(manifest["devices"])
        if not is_of_objects(read_table(directory.config)):  # those are made by someone's program
            again = f"dlhmc {manifest['kind']} --config config.toml --out again"
            blocks.append(Code(f"{path.resolve().name}: once more", again))
        blocks += [
            Code(f"{path.resolve().name}: config.toml", directory.config.read_text(encoding="utf-8")),
            Text(
                f"Made {manifest['created']} with Python {manifest['python']} on {devices} ({manifest['machine']}): "
                f"{versions}."
            ),
        ]
    return Section("How to repeat it", blocks)


def drawn(page: Page) -> list[Chart | Film]:
    """Everything on the page that can be drawn."""
    return [block for section in page.sections for block in section.blocks if isinstance(block, Chart | Film)]
