"""What a report shows of runs of gauge theories: the energy density along the Wilson flow, with t₀, and the charge."""

from typing import Any, ClassVar

from dlhmc.report.charts import BLACK, BLUE, GREEN, GREY, VERMILION, Block, Chart, Panel, Series
from dlhmc.report.figures import Figures
from dlhmc.report.histories import STEP
from dlhmc.report.sampling import SampledRun
from dlhmc.runs.summary import shown_mean
from dlhmc.theories.gauge.scales import REFERENCE


class GaugeFigures(Figures):
    """Costs against β, and what was measured along the flow."""

    axis: ClassVar[str | None] = "beta"
    moves: ClassVar[str] = "heat bath"

    def sampled(self, run: SampledRun) -> list[Block]:
        """The flow, where fields were flowed."""
        if run.summary is None or "flow_energy" not in run.summary:
            return []
        return [flow_chart(run, run.summary, run.notes["flow_times"])]


def flow_chart(run: SampledRun, summary: dict[str, Any], times: list[float]) -> Chart:
    """t²E(t) with its errors, t₀ where it passes 0.3; and the charge at the end of the flow, in four dimensions."""
    curves = [
        Series(label, times, summary[name]["mean"], "points", colour, error=summary[name]["error"], joined=True)
        for label, name, colour in (("clover", "flow_energy", VERMILION), ("plaquette", "flow_energy_plaquette", BLUE))
    ]
    curves.append(Series(f"t^{{2}}E = {REFERENCE}", [0.0, times[-1]], [REFERENCE] * 2, "line", GREY, dashed=True))
    if (t0 := summary.get("derived", {}).get("t0")) is not None:
        label = f"t_{{0}}/a^{{2}} = {shown_mean(t0)}"
        curves.append(Series(label, [t0["mean"]] * 2, [0.0, REFERENCE], "line", GREEN, dashed=True))
    panels = [Panel("flow time t/a^{2}", run.symbol("flow_energy"), curves, x_limits=(0.0, 1.02 * times[-1]))]
    caption = (
        "The energy density along the Wilson flow, from the field strength of the clover and of the plaquette; t_{0} "
        f"is where the first reaches {REFERENCE}."
    )
    if "flow_charge" in summary:
        charges = run.first_chain("flow_charge", (len(times) - 1,)).tolist()
        history = Series("Q of one chain", list(range(1, len(charges) + 1)), charges, "steps", BLACK)
        panels.append(Panel(STEP, f"Q at t/a^{{2}} = {times[-1]:g}", [history]))
        caption += " Below, the charge of one chain at the end of the flow, which repeats until it is measured again."
    return Chart(f"flow-{run.path.name}", f"Along the Wilson flow, {run.path.name}", caption, panels, columns=1)
