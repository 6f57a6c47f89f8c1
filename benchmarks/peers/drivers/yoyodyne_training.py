"""yoyodyne's attentive LSTM, by its own model, data module and trainer; a callback takes the time.

Batches are of so many pairs, not of tokens, and are not sorted by length. Embeddings are tied between source and
target, the output layer is apart.

python yoyodyne_training.py SHAPE PAIRS FOLDER STEPS WINDOW TOKENS
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import callbacks
from measuring import PAD, tell
from yoyodyne import data, models, trainers
from yoyodyne.models import modules


class Clock(callbacks.Callback):  # type: ignore[misc]
    """Counts target tokens."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.steps = self.tokens = 0
        self.began = 0.0

    def on_train_start(self, trainer: Any, model: Any) -> None:  # noqa: ARG002
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer: Any, model: Any, outputs: Any, batch: Any, number: int) -> None:  # noqa: ARG002
        self.steps += 1
        self.tokens += int((batch.target.tensor != PAD).sum())
        if self.steps % self.window == 0:
            now = time.perf_counter()
            rate, mean = self.tokens / (now - self.began), self.tokens / self.window
            tell(step=self.steps, tokens_per_second=rate, tokens=mean)
            self.tokens, self.began = 0, now


def main(shape: dict[str, int], pairs: str, folder: str, steps: int, window: int, tokens: int) -> None:
    lengths = [line.split("\t")[1].count(" ") + 2 for line in Path(pairs).read_text(encoding="utf-8").splitlines()]
    Path(folder).mkdir(parents=True, exist_ok=True)
    module = data.DataModule(
        model_dir=folder,
        train=pairs,
        source_sep=" ",
        target_sep=" ",
        batch_size=round(tokens / (sum(lengths) / len(lengths))),
        max_source_length=256,
        max_target_length=256,
    )
    width = shape["width"]
    encoder = modules.LSTMEncoder(
        dropout=0.1, embedding_size=width, hidden_size=width // 2, layers=1, bidirectional=True
    )
    model = models.SoftAttentionLSTMModel(
        source_encoder=encoder,
        decoder_hidden_size=width,
        decoder_layers=1,
        decoder_dropout=0.1,
        embedding_size=width,
        label_smoothing=0.1,
        vocab_size=module.vocab_size,
        target_vocab_size=module.target_vocab_size,
        max_source_length=256,
        max_target_length=256,
        compute_accuracy=False,
    )
    tell(parameters=sum(one.numel() for one in model.parameters() if one.requires_grad))
    trainer = trainers.Trainer(
        accelerator="cpu",
        max_steps=steps,
        callbacks=[Clock(window)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        limit_val_batches=0,
    )
    trainer.fit(model, datamodule=module)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
