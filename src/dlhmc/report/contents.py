"""What stands on the page: the question, the answer, charts and tables, and how to repeat it."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlhmc.errors import UserError
from dlhmc.kernels import HMC
from dlhmc.kernels.integrators import INTEGRATORS
from dlhmc.names import Scheme
from dlhmc.report import comparisons as of_comparisons
from dlhmc.report.charts import Block, Chart, Code, Film, Page, Section, Text
from dlhmc.report.comparisons import Comparison, in_steps, in_time
from dlhmc.report.layers import hmc_profile, learned_profile, profile_chart, profile_film, tunnelling_film
from dlhmc.report.own_targets import own_target_blocks
from dlhmc.report.sampling import sampling_chart, sampling_table
from dlhmc.report.training import training_charts
from dlhmc.runs.directory import RunDirectory, read_manifest, run_kind
from dlhmc.runs.sampling import learned_kernel
from dlhmc.theories.u1.action import U1

_QUESTION = (
    "How much does an independent configuration of two-dimensional U(1) gauge theory cost, with Hamiltonian Monte "
    "Carlo tuned as well as possible, with instanton hits, and with trained leapfrog layers?"
)
_LONGEST_NAME = 100


class Runs(NamedTuple):
    """Run directories by kind."""

    comparisons: list[Comparison]
    #: comparisons on targets of one's own, of which there are no exact results to be held to
    others: list[Comparison]
    trainings: list[Path]
    samplings: list[Path]

    @classmethod
    def open(cls, paths: Sequence[Path]) -> "Runs":
        """Sort directories by kind; a reproduction stands for the runs in it."""
        runs = cls([], [], [], [])
        for path in paths:
            kind = run_kind(path)
            if kind == "reproduce":
                inner = cls.open(sorted(file.parent for file in path.glob("[!.]*/manifest.json")))
                for mine, more in zip(runs, inner, strict=True):
                    mine.extend(more)  # type: ignore[attr-defined]
            elif kind.startswith("compare"):
                comparison = Comparison.open(path)
                (runs.comparisons if comparison.is_of_gauge_theory else runs.others).append(comparison)
            elif kind.startswith("train"):
                runs.trainings.append(path)
            else:
                runs.samplings.append(path)
        runs.comparisons.sort(key=lambda comparison: comparison.results.beta)
        return runs


def build_page(paths: Sequence[Path]) -> Page:
    """The page for any set of runs."""
    runs = Runs.open(paths)
    if not any(runs):
        raise UserError("There is nothing to report yet: give directories of finished runs.")
    sections: list[Section] = []
    answer = ""
    if runs.comparisons:
        sections += _comparison_sections(runs.comparisons)
        last = runs.comparisons[-1]
        answer = of_comparisons.headline(last) or "No trained sampler took part in the comparison."
    for other in runs.others:
        sections.append(Section(f"Comparison {other.path.resolve().name}", own_target_blocks(other)))
    if runs.trainings:
        sections.append(Section("Training", training_charts(runs.trainings)))
    for path in runs.samplings:
        blocks: list[Block] = [sampling_chart(path)]
        if RunDirectory(path).summary.exists():
            blocks.insert(0, sampling_table(path))
        sections.append(Section(f"Sampling run {path.resolve().name}", blocks))
    if runs.comparisons:
        tables = [table for comparison in runs.comparisons for table in of_comparisons.all_tables(comparison)]
        sections.append(Section("All samplers", tables))
    sections = _drawable([*sections, _how_to_repeat(paths)])
    if not runs.comparisons:
        return Page("dlhmc: report of runs", "What did these runs do?", _counts(runs), sections)
    return Page("Topological charge of 2D U(1): what an independent configuration costs", _QUESTION, answer, sections)


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
        "comparisons": runs.others,
        "training runs": runs.trainings,
        "sampling runs": runs.samplings,
    }
    counted = "; ".join(f"{what}: {len(found)}" for what, found in numbers.items() if found)
    return f"{counted.capitalize()}. Tables and charts are below."


def _comparison_sections(comparisons: list[Comparison]) -> list[Section]:
    last = comparisons[-1]
    sections = [
        Section("What it costs", [of_comparisons.cost_chart(comparisons), of_comparisons.cost_table(comparisons)])
    ]
    if of_comparisons.contenders(last):
        charts = (of_comparisons.history_chart, of_comparisons.histogram_chart, of_comparisons.autocorrelation_chart)
        sections.append(Section("Topology thaws", [chart(last) for chart in charts]))
    sections.append(Section("Held to exact results", [of_comparisons.observables_chart(comparisons)]))
    if layers := _layer_blocks(last):
        sections.append(Section("What the layers do", layers))
    return sections


def _layer_blocks(comparison: Comparison) -> list[Block]:
    """Of the longest trained trajectory, with the best HMC beside it."""
    results = comparison.results
    model = max(comparison.of_kind("model"), key=lambda entry: entry.leapfrog_steps, default=None)
    if model is None or model.model is None:
        return []
    target = U1(results.lattice, results.beta)
    beside = comparison.path.parent / Path(model.model).name
    try:
        trajectory = learned_kernel(str(beside) if beside.exists() else model.model, target).trajectory
    except UserError as error:
        return [Text(f"The layers cannot be shown: {error}")]
    trained = learned_profile(trajectory, target)
    where = f"{results.lattice[0]}×{results.lattice[1]} at β = {results.beta:g}"
    profiles = {f"trained, N_{{LF}} = {model.leapfrog_steps}": trained}
    hmc = comparison.best("hmc", in_time) or comparison.best("hmc", in_steps)
    if hmc is not None and hmc.step_size is not None:
        scheme: Scheme = "omelyan" if hmc.integrator == "omelyan" else "leapfrog"
        kernel = HMC(target, hmc.step_size, np.int32(hmc.leapfrog_steps), INTEGRATORS[scheme])
        profiles[f"HMC ({hmc.name})"] = hmc_profile(kernel, target)
    return [
        profile_chart(profiles, f"Along the layers, {where}"),
        profile_film(trained, f"Layer by layer, {where}"),
        tunnelling_film(trained, f"A tunnelling trajectory, {where}"),
    ]


def _how_to_repeat(paths: Sequence[Path]) -> Section:
    blocks: list[Block] = []
    for path in paths:
        directory = RunDirectory(path)
        manifest = read_manifest(directory)
        kind = manifest["kind"]
        versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
        devices = ", ".join(manifest["devices"])
        if not kind.endswith("-objects"):  # those are made by someone's program
            blocks.append(Code(f"{path.resolve().name}: once more", f"dlhmc {kind} --config config.toml --out again"))
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
