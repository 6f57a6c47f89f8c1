"""The best perplexity there can be: that of the distribution the pocket sentences are drawn from.

With p the probability of a sentence under the whole grammar and Z the mass of what training is drawn from (no held-out
combination occurs), a language model of the source sentences should come near

    perplexity = exp(-Σ (log p - log Z) / Σ tokens)

and one that is told the topic near the same with Z_topic, the mass of its topic, in place of Z.

- It is exact for English only, where no two derivations have the same words. In German and French they may (`liebte
  Anna sie ?` asks for her or for them; `Emma a couru .` is both tenses, `sa` is his and her), and a sentence is more
  probable than any one derivation of it; these languages are refused.
- The sets are distinct sentences and so not quite a sample of the distribution (see `splits`). The figure is that of
  the true distribution on the very sentences given, so a model may be compared with it on the same set.
- Sentences of the combinations set have probability zero in training; the figure is meaningless for them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError, UsageError


@dataclass(frozen=True, slots=True)
class TrainingDistribution:
    """What `pocket.json` says about the distribution of the training sentences."""

    source: str
    log_mass: float
    log_mass_by_topic: Mapping[str, float]

    @staticmethod
    def read(folder: Path) -> "TrainingDistribution":
        """From the `pocket.json` of a folder that `regard data make pocket` wrote."""
        path = folder / "pocket.json"
        again = "write the folder again with: regard data make pocket"
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            by_topic = {str(topic): float(value) for topic, value in about["log_mass_by_topic"].items()}
            return TrainingDistribution(str(about["source"]), float(about["log_mass"]), by_topic)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); {again}") from error
        except KeyError as error:
            raise DataError(f"{path}: has no {error.args[0]}; {again}") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: is not as it was written ({error}); {again}") from error


def exact_perplexity(
    records: Sequence[Mapping[str, Any]], *, tokens: Sequence[int], distribution: TrainingDistribution
) -> float:
    """The exact perplexity per token of the source sentences of pocket records.

    `tokens` has the number of tokens of each sentence as the model counts them, the end included.
    """
    _check(records, tokens, distribution)
    logarithms = [_value(records, index, "log_probability") - distribution.log_mass for index in range(len(records))]
    return math.exp(-math.fsum(logarithms) / sum(tokens))


def exact_perplexity_given_topic(
    records: Sequence[Mapping[str, Any]], *, tokens: Sequence[int], distribution: TrainingDistribution
) -> float:
    """The exact perplexity per token of the source sentences of pocket records where the topic is known."""
    _check(records, tokens, distribution)
    logarithms = []
    for index in range(len(records)):
        topic = _value(records, index, "topic")
        if topic not in distribution.log_mass_by_topic:
            known = ", ".join(distribution.log_mass_by_topic)
            raise DataError(f"record {index + 1} has the topic {topic!r}; pocket.json has the mass of {known}")
        mass = distribution.log_mass_by_topic[topic]
        logarithms.append(_value(records, index, "log_probability") - mass)
    return math.exp(-math.fsum(logarithms) / sum(tokens))


def _check(records: Sequence[Mapping[str, Any]], tokens: Sequence[int], distribution: TrainingDistribution) -> None:
    if distribution.source != "en":
        raise UsageError(
            f"the source language is {distribution.source!r}, where several derivations may share a sentence; the "
            "exact perplexity is known for 'en' only: make the pocket world with --source en"
        )
    if not records:
        raise UsageError("there are no records; the perplexity of nothing is not defined")
    if len(records) != len(tokens):
        raise UsageError(f"{len(records)} records have {len(tokens)} token counts; give one for each")
    if min(tokens) < 1:
        at = tokens.index(min(tokens))
        raise UsageError(f"record {at + 1} has {tokens[at]} tokens; with its end every sentence has at least 1")


def _value(records: Sequence[Mapping[str, Any]], index: int, key: str) -> Any:
    if key not in records[index]:
        raise DataError(f"record {index + 1} has no {key}; give lines of the .jsonl files of the pocket world")
    return records[index][key]
