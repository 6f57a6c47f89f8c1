"""Sentence encoders: a BERT whose states are averaged into one vector per text (Reimers & Gurevych 2019)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from regard.data.batch import source_ids
from regard.errors import ModelError
from regard.interchange.bert import Bert, load_bert
from regard.interchange.checkpoint import Settings, read_json


class SentenceEncoder:
    """Texts to vectors: near in meaning, near in angle."""

    def __init__(self, *, bert: Bert, longest: int, normalised: bool) -> None:
        self.bert = bert
        self.longest = longest
        self.normalised = normalised

    @property
    def width(self) -> int:
        return self.bert.encoder.memory_width

    @torch.no_grad()
    def embed(self, texts: Sequence[str], *, batch: int = 32) -> Tensor:
        """(n, D): the mean of the states of all tokens; of length 1 where the model has it so.

        Beyond `longest` tokens, the two marks included, a text is not read.
        """
        vectors = torch.zeros(len(texts), self.width)
        rows = [self.bert.tokenizer.encode(text).ids[: self.longest - 1] for text in texts]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))  # alike lengths together
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            vectors[chosen] = self.bert.encoder.encode(source_ids([rows[index] for index in chosen])).summary
        return functional.normalize(vectors, dim=1) if self.normalised else vectors


def sentence_encoder(folder: str | Path) -> SentenceEncoder:
    """Open a folder of the library sentence-transformers: a model of BERT layout, then the mean, then the length 1."""
    folder = Path(folder)
    normalised = _read_modules(folder)
    bert = load_bert(folder)
    path = folder / "sentence_bert_config.json"
    longest = Settings(path).whole("max_seq_length", bert.longest, low=3) if path.is_file() else bert.longest
    return SentenceEncoder(bert=bert, longest=min(longest, bert.longest), normalised=normalised)


def _read_modules(folder: Path) -> bool:
    """Whether vectors get the length 1; other steps than those known are refused."""
    path = folder / "modules.json"
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ModelError(f"{path}: must hold a list of modules")
    kinds = [str(module.get("type")).rsplit(".", 1)[-1] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ModelError(f"{path}: has the steps {', '.join(kinds)}; regard reads Transformer, Pooling, Normalize")
    pooling = Settings(folder / Path(str(modules[1].get("path"))).name / "config.json")
    others = ("cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    if not pooling.flag("pooling_mode_mean_tokens", False) or any(
        pooling.flag(f"pooling_mode_{name}", False) for name in others
    ):
        pooling.refuse("states are pooled in another way than by their mean")
    return "Normalize" in kinds
