"""gtsim predicts how fast TileLang GPU kernels run, and why, without a GPU.

    import gtsim

    @gtsim.predict(hw="h100_sxm")
    def matmul(M, N, K, block_M=128, block_N=128, block_K=64): ...

    p = matmul(4096, 4096, 4096)
    p.cycles, p.tflops, p.bound_by
    p.report()

Nothing heavy is imported before it is used: `import gtsim` loads neither numpy nor TileLang.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import Result
    from .checker import CheckReport, check
    from .errors import UsageError
    from .graph import Finding, KernelGraph, TileGraphBuilder, load_graph, save_graph
    from .hwconfigs import Hardware, list_hardware, load_hardware
    from .prediction import Prediction
    from .predictor import Predictor, lower, predict, simulate
    from .sequence import SequencePrediction

if find_spec(f"{__name__}.graph") is None:
    raise ImportError(
        f"gtsim is not whole: {__path__[0]} lacks the package gtsim.graph. It is a folder of the source checkout, which Python "
        "finds first when it is started there. Install gtsim (pip install -e . in the checkout), and run from anywhere."
    )

#: Public name -> the module that defines it.
_EXPORTS = {
    "GraphError": "graph", "KernelGraph": "graph", "TileGraphBuilder": "graph", "load_graph": "graph", "save_graph": "graph",
    "Hardware": "hwconfigs", "HardwareError": "hwconfigs", "list_hardware": "hwconfigs", "load_hardware": "hwconfigs",
    "FrontendError": "frontend", "Result": "backend", "SimulationError": "backend",
    "Prediction": "prediction", "SequencePrediction": "sequence", "Predictor": "predictor", "lower": "predictor",
    "predict": "predictor", "simulate": "predictor",
    "UsageError": "errors", "USER_ERRORS": "errors",
    "CheckReport": "checker", "Finding": "graph", "check": "checker",
}  # fmt: skip
_MODULES = ("backend", "errors", "frontend", "graph", "hwconfigs", "models", "prediction", "predictor", "report", "sequence")

__all__ = [
    "CheckReport", "Finding", "Hardware", "KernelGraph", "Prediction", "Predictor", "Result", "SequencePrediction",
    "TileGraphBuilder", "UsageError", "__version__", "backend", "check", "frontend", "graph", "hwconfigs", "list_hardware",
    "load_graph", "load_hardware", "lower", "predict", "save_graph", "simulate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("gtsim")
        except PackageNotFoundError:
            value = "unknown"
    elif name in _EXPORTS:
        value = getattr(importlib.import_module(f".{_EXPORTS[name]}", __name__), name)
    elif name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODULES, "__version__"})
