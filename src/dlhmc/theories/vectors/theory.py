"""Toys in flat space with fixed parameters; in Python they can have any. Free of heavy imports."""

from typing import TYPE_CHECKING, ClassVar

from dlhmc.theories.contract import TargetSettings, Theory

if TYPE_CHECKING:
    from dlhmc.targets import Target


class MixtureSettings(TargetSettings):
    """Modes that HMC does not cross between."""

    theory: ClassVar[str] = "mixture"

    def build(self) -> "Target":
        """The target."""
        from dlhmc.theories.vectors.toys import GaussianMixture

        return GaussianMixture()


class IllConditionedSettings(TargetSettings):
    """Scales from 0.1 to 10."""

    theory: ClassVar[str] = "ill-conditioned-gaussian"

    def build(self) -> "Target":
        """The target."""
        from dlhmc.theories.vectors.toys import ill_conditioned_gaussian

        return ill_conditioned_gaussian()


class CorrelatedSettings(TargetSettings):
    """Turned by 45 degrees."""

    theory: ClassVar[str] = "correlated-gaussian"

    def build(self) -> "Target":
        """The target."""
        from dlhmc.theories.vectors.toys import correlated_gaussian

        return correlated_gaussian()


class RoughWellSettings(TargetSettings):
    """A rough bottom."""

    theory: ClassVar[str] = "rough-well"

    def build(self) -> "Target":
        """The target."""
        from dlhmc.theories.vectors.toys import RoughWell

        return RoughWell()


class FunnelSettings(TargetSettings):
    """A width that changes by orders of magnitude."""

    theory: ClassVar[str] = "funnel"

    def build(self) -> "Target":
        """The target."""
        from dlhmc.theories.vectors.toys import Funnel

        return Funnel()


MIXTURE = Theory(MixtureSettings, "two Gaussians far apart")
ILL_CONDITIONED = Theory(IllConditionedSettings, "a Gaussian with variances from 0.01 to 100")
CORRELATED = Theory(CorrelatedSettings, "a Gaussian whose two coordinates are strongly correlated")
ROUGH_WELL = Theory(RoughWellSettings, "a harmonic well with a rough bottom")
FUNNEL = Theory(FunnelSettings, "Neal's funnel")
