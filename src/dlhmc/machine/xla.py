"""An option of XLA without which numbers are wrong. Free of heavy imports: it must be set before JAX starts."""

import os
import sys
import warnings

_YNNPACK = "xla_cpu_experimental_ynn_fusion_type"


def compile_without_ynnpack() -> None:
    """Have XLA itself compute sums and products of matrices on CPUs, in the last jaxlib for Python 3.11.

    jaxlib 0.10 hands them to YNNPACK, whose sums are wrong now and then where there are several threads
    (docs/limits.md, "Machines"), and slower. A choice that is in XLA_FLAGS already stays.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if sys.version_info >= (3, 12) or _YNNPACK in flags:
        return
    os.environ["XLA_FLAGS"] = f"{flags} --{_YNNPACK}=".strip()
    # JAX has no public function for this.
    started = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    if started is not None and started() and sys.modules["jax"].default_backend() == "cpu":
        message = "JAX computed something before dlhmc was imported; sums on CPUs may then be wrong now and then: "
        advice = f"import dlhmc first, or set XLA_FLAGS=--{_YNNPACK}= before Python starts."
        warnings.warn(message + advice, stacklevel=3)
