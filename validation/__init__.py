"""Is it right? Suites of measured kernels, run against predictions, and the numbers that come out.

`gtsim validate` is the way in; docs/accuracy.md holds its tables. A suite is one file in `suites/` that registers itself.
"""

from .cases import Case, Launch, Measured, Plan, Trial, Work
from .inputs import Inputs
from .registry import Suite, Target, all_suites, suite

__all__ = ["Case", "Inputs", "Launch", "Measured", "Plan", "Suite", "Target", "Trial", "Work", "all_suites", "suite"]
