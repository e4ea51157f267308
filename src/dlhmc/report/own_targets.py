"""Comparisons on targets that were made in Python: what moves slowly there, and every sampler in a table."""

from dlhmc.report.charts import Block, Chart
from dlhmc.report.comparisons import AUTOCORRELATION, Comparison, all_tables, autocorrelation_panel, contenders

_MOST_PANELS = 4


def own_target_blocks(comparison: Comparison) -> list[Block]:
    """Autocorrelations of the slow observables of the best HMC and of the samplers that were given, then the tables."""
    blocks: list[Block] = []
    if entries := contenders(comparison):
        slow = list(entries[0][1].tau_int)[:_MOST_PANELS]
        panels = [autocorrelation_panel(comparison, name, name.replace("_", " "), None) for name in slow]
        name = comparison.path.resolve().name
        chart = Chart(f"autocorrelation-{name}", f"Autocorrelation, {name}", AUTOCORRELATION, panels, columns=2)
        blocks.append(chart)
    return blocks + list(all_tables(comparison))
