"""What is measured once in a while."""

from dlhmc.errors import Setting, UserError
from dlhmc.fermions.mesons import MesonObservables
from dlhmc.lattice.links import as_geometry_of_matrices
from dlhmc.targets import Target
from dlhmc.targets.contract import Observables
from dlhmc.theories.gauge.fermions import fermions_of, has_fermions
from dlhmc.theories.gauge.flow import OccasionalObservables
from dlhmc.theories.gauge.known import is_gauge_field


def flowed(target: Target, times: tuple[float, ...], tolerance: float, loops: int) -> Observables:
    """The Wilson flow, and larger loops."""
    if not is_gauge_field(target):
        raise UserError(f"{Setting('flow_time')} and {Setting('loops')} are for gauge fields: leave them out.")
    return OccasionalObservables(as_geometry_of_matrices(target.geometry), times, tolerance, loops)


def correlators(target: Target, sources: int) -> Observables:
    """The condensate, and the correlators of mesons."""
    if not has_fermions(target):
        raise UserError(f"{Setting('correlators')} are for fermions: leave them out.")
    light = fermions_of(target)
    return MesonObservables(light.mass, light.flavours, sources)
