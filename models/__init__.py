"""Whole models: the kernels of a decoder layer, written in TileLang, and what a pass through all layers takes.

    from gtsim.models import Predictor, Workload, load_model

    made = Predictor().predict(load_model("llama3-8b"), Workload("decode", batch=1, kv=2048))
    made.time_us, made.tokens_per_s, made.layer

`gtsim model` does the same on the command line; docs/models.md has the rules.
"""

from .config import ModelConfig, load_model, presets
from .layer import Call, Workload, head_calls, layer_calls
from .predict import MODEL_SCHEMA, ModelPrediction, Predictor, Step, compulsory_bytes, memory_bytes, shares, workloads

__all__ = ["MODEL_SCHEMA", "Call", "ModelConfig", "ModelPrediction", "Predictor", "Step", "Workload", "compulsory_bytes",
           "head_calls", "layer_calls", "load_model", "memory_bytes", "presets", "shares", "workloads"]
