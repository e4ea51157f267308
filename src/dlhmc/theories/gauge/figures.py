"""What a report shows of runs of gauge theories: the energy density along the Wilson flow, with t₀, and the charge."""

from typing import ClassVar

from dlhmc.report.figures import Figures
from dlhmc.report.page import Block, Picture
from dlhmc.report.plots import BLUE, GREEN, GREY, VERMILION, add_legend, mark, mathtext, panels, plot_history
from dlhmc.report.sampling import SampledRun
from dlhmc.run.show import shown_mean
from dlhmc.statistics.quantity import Quantity
from dlhmc.statistics.scales import REFERENCE


class GaugeFigures(Figures):
    """Costs against β, and what was measured along the flow."""

    axis: ClassVar[str | None] = "beta"

    def sampled(self, run: SampledRun) -> list[Block]:
        """The flow, where fields were flowed."""
        return [flow_picture(run)] if "flow_energy" in run.summary else []


def flow_picture(run: SampledRun) -> Picture:
    """t²E(t), t₀ where it passes 0.3; and the charge at the end of the flow, in four dimensions."""
    summary = run.summary
    times, charged = run.notes["flow_times"], "flow_charge" in summary
    figure, axes = panels(1 + charged, 1, 8.0, 2.8)
    energy = axes[0]
    for label, name, colour in (("clover", "", VERMILION), ("plaquette", "_plaquette", BLUE)):
        entry = summary[f"flow_energy{name}"]
        values = map(Quantity, entry["mean"], entry["error"])
        mark(energy, zip(times, values, strict=True), label=label, color=colour, marker="o")
    energy.axhline(REFERENCE, color=GREY, linestyle="--", label=mathtext(f"t^{{2}}E = {REFERENCE}"))
    if (t0 := summary.get("derived", {}).get("t0")) is not None:
        energy.axvline(t0["mean"], color=GREEN, linestyle="--", label=mathtext(f"t_{{0}}/a^{{2}} = {shown_mean(t0)}"))
    energy.set(xlabel=mathtext("flow time t/a^{2}"), ylabel=mathtext(run.symbol("flow_energy")))
    caption = "The energy density along the Wilson flow, from the field strength of the clover and of the plaquette."
    if charged:
        label = f"Q at t/a^{{2}} = {times[-1]:g}"
        plot_history(axes[1], run.first_chain("flow_charge", (len(times) - 1,)), label)
        caption += " Below, the charge of one chain at the end of the flow, which repeats until it is measured again."
    add_legend(figure)
    return Picture(f"flow-{run.name}", f"Along the Wilson flow, {run.name}", caption, figure)
