"""`dlhmc report`: who won, figures and tables, and how to repeat it, on one page and as files."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from dlhmc.errors import UserError
from dlhmc.files import write_whole
from dlhmc.report.compared import ComparedRun, all_tables, headline
from dlhmc.report.curves import Curve, read_curves
from dlhmc.report.figures import Figures, family_section, grouped
from dlhmc.report.page import Block, Code, Page, Picture, Section, render, save
from dlhmc.report.sampling import SampledRun, sampling_picture, sampling_table
from dlhmc.report.training import training_pictures
from dlhmc.run.directory import RunDirectory, read_manifest, run_kind

_LONGEST_NAME = 100


def report(paths: Sequence[Path], out: Path, console: Console, curves: Path | None = None) -> None:
    """Write the page, and the figures as PNG and SVG into a folder beside it; `curves` are for reference."""
    with console.status("") as status:
        tell = status.update if console.is_terminal else console.out
        page = build_page(paths, [] if curves is None else read_curves(curves), tell)
        tell("writing figures and page …")
        try:
            for picture in page.pictures:
                save(picture.figure, picture.name, out.parent / "figures")
            write_whole(out, render(page).encode())
        except OSError as error:
            raise UserError(f"{out} cannot be written: {error.strerror or error}.") from error
    console.out(f"report: {out}", highlight=False)


def build_page(
    paths: Sequence[Path], curves: Sequence[Curve] = (), tell: Callable[[str], None] = lambda _: None
) -> Page:
    """The page for any set of runs; `tell` hears what is going on."""
    runs = _by_kind(paths)
    if not any(runs.values()):
        raise UserError("There is nothing to report yet: give directories of finished runs.")
    sections: list[Section] = []
    answers: list[str] = []
    with intact(paths):
        tables: list[Block] = []
        for figures, family in grouped(list(map(ComparedRun.open, runs["compare"])), curves):
            tell(f"drawing the comparison on {family.last.where} …")
            if family.last.results.entries:
                sections.append(family_section(figures, family))
                answers += filter(None, [headline(family.last)])
            curves = [curve for curve in curves if curve not in family.curves]
            tables += [f"{run.where}: {warning}" for run in family.runs for warning in run.results.warnings]
            tables += [table for run in family.runs for table in all_tables(run)]
        tables += [f"{curve.name}: not drawn, as it is of no target here." for curve in curves]
        if runs["train"]:
            tell("drawing training …")
            sections.append(Section("Training", training_pictures(runs["train"])))
        sections += _samplings(list(map(SampledRun.open, runs["sample"])))
    if tables:
        sections.append(Section("All samplers", tables))
    names = ", ".join(path.resolve().name for path in paths)
    return Page(f"Report of {names}", answers, _named_apart([*sections, _how_to_repeat(paths)]))


def _by_kind(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Directories of runs; one of another kind stands for the runs in it."""
    found: dict[str, list[Path]] = {"compare": [], "train": [], "sample": []}
    for path in paths:
        if (kind := run_kind(path)) in found:
            found[kind].append(path)
            continue
        for name, inner in _by_kind(sorted(file.parent for file in path.glob("[!.]*/manifest.json"))).items():
            found[name] += inner
    return found


@contextmanager
def intact(paths: Sequence[Path]) -> Iterator[None]:
    """Results that make no sense are somebody's damaged files."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        names = ", ".join(map(str, paths))
        raise UserError(f"Among {names} a file is damaged or of another version of dlhmc: {error!r}.") from error


def _samplings(runs: Sequence[SampledRun]) -> list[Section]:
    """What runs of a theory tell together, then a section for each run."""
    sections: list[Section] = []
    alike: dict[type[Figures], tuple[Figures, list[SampledRun]]] = {}
    for run in runs:
        figures = Figures() if run.theory is None else run.theory.figures(run.attributes)
        alike.setdefault(type(figures), (figures, []))[1].append(run)
        table = [sampling_table(run.summary)] if run.summary else []
        sections.append(Section(f"Sampling run {run.name}", [*table, *figures.sampled(run), sampling_picture(run)]))
    together = [block for figures, group in alike.values() for block in figures.together(group)]
    return [*([Section("Sampling runs together", together)] if together else []), *sections]


def _named_apart(sections: Sequence[Section]) -> list[Section]:
    """Pictures under names that files can have, no two the same: runs come from anywhere."""
    taken: set[str] = set()

    def settle(block: Block) -> Block:
        if not isinstance(block, Picture):
            return block
        plain = re.sub(r"[^\w-]+", "-", block.name)[:_LONGEST_NAME]
        name = next(name for name in (plain, *(f"{plain}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)
        taken.add(name)
        return block._replace(name=name)

    return [section._replace(blocks=list(map(settle, section.blocks))) for section in sections]


def _how_to_repeat(paths: Sequence[Path]) -> Section:
    blocks: list[Block] = []
    for path in paths:
        manifest, name = read_manifest(RunDirectory(path)), path.resolve().name
        versions = ", ".join(f"{package} {version}" for package, version in manifest["versions"].items())
        blocks += [
            Code(f"{name}/config.toml", RunDirectory(path).config.read_text(encoding="utf-8")),
            f"Again: dlhmc {manifest['kind']} --config config.toml --out again. Made {manifest['created']} with Python "
            f"{manifest['python']} on {', '.join(manifest['devices'])} ({manifest['machine']}): {versions}.",
        ]
    return Section("How to repeat it", blocks)
