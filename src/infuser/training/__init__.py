"""One plain training loop with checkpoints and evaluation."""

from __future__ import annotations

from infuser.training.evaluation import Scores, evaluate
from infuser.training.loop import Evaluation, TrainResult, TrainSettings, train
from infuser.training.steps import StepReport

__all__ = ["Evaluation", "Scores", "StepReport", "TrainResult", "TrainSettings", "evaluate", "train"]
