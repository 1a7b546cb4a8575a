"""Draws of selective sources under `transformers.Trainer`, which knows one collator for training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.data import DataLoader

from infuser.signals.collator import Collator

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object  # a mixin needs no Trainer, and importing one is slow


class EachEpoch:
    """A collator of training batches that knows the current epoch."""

    def __init__(self, collator: Collator, seed: int) -> None:
        self.collator, self.seed, self.epoch = collator, seed, 0

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return the batch of these examples with what is drawn for them in this epoch."""
        return self.collator.for_epoch(self.epoch, seed=self.seed)(examples)


class SelectiveTraining(_Trainer):
    """Mixed into a `transformers.Trainer`, lets selective sources draw again in every epoch; our loop does so itself.

    Evaluation and prediction inject everything. Do not keep workers alive between epochs
    (`dataloader_persistent_workers`): they would keep the first epoch's collator.

        class MyTrainer(SelectiveTraining, Trainer): ...

        MyTrainer(model, arguments, data_collator=infused.collator(), ...)
    """

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return Trainer's own loader with a collator that draws."""
        from transformers import TrainerCallback

        drawing = EachEpoch(self.data_collator, self.args.seed)  # type: ignore[arg-type]

        class SetEpoch(TrainerCallback):
            """Passes the epoch that begins to the collator."""

            def on_epoch_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
                drawing.epoch = int(state.epoch or 0)

        self.add_callback(SetEpoch())
        given, self.data_collator = self.data_collator, drawing
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = given
