"""Which recipe is judged by what: the table of all published systems, and the few ways of judging.

A judgement sees only the entry that was kept of a run, so the page can be written without the run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from published.entries import Entry


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is shown of a result, what was asked for, and whether it is so; None where nothing was asked for."""

    shown: str
    bound: str
    met: bool | None


Judge = Callable[[Entry], Verdict]
Knowledge = Literal["", "sentences", "topics"]


def at_least(metric: str, bound: float) -> Judge:
    """The metric on the test set, which must not be below a bound."""

    def judge(entry: Entry) -> Verdict:
        score = entry.score(metric)
        if score is None or score.value is None:
            return Verdict(f"no {metric}", f"{metric} ≥ {bound:g}", False)
        return Verdict(f"{metric} {score}", f"≥ {bound:g}", score.value >= bound)

    return judge


def reported(metric: str) -> Judge:
    """The metric on the test set, whatever it is."""

    def judge(entry: Entry) -> Verdict:
        score = entry.score(metric)
        return Verdict(f"no {metric}" if score is None else f"{metric} {score}", "reported", None)

    return judge


def near_exact(factor: float) -> Judge:
    """Perplexity on the test set, at most so many times that of the grammar which the sentences are drawn from."""

    def judge(entry: Entry) -> Verdict:
        score, exact, bound = entry.score("perplexity"), entry.exact_perplexity, f"≤ {factor:g} × exact"
        if score is None or score.value is None or exact is None:
            return Verdict("no perplexity" if score is None else f"perplexity {score}, exact one unknown", bound, False)
        times = score.value / exact
        return Verdict(f"perplexity {score} = {times:.3f} × the exact {exact:.2f}", bound, times <= factor)

    return judge


def falling(entry: Entry) -> Verdict:
    """The loss, which must be lower in the end than at the beginning."""
    if entry.losses is None:
        return Verdict("no loss", "falls", False)
    first, last = entry.losses
    return Verdict(f"loss {first:.2f} → {last:.2f} in {entry.steps} steps", "falls", last < first)


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the table; `exact` says what of the grammar a language model's exact perplexity needs."""

    recipe: str
    paper: str
    what: str
    judge: Judge
    exact: Knowledge = ""


BLEU: Final = at_least("BLEU", 90)
NEAR: Final = near_exact(1.1)

TASKS: Final[dict[str, tuple[Published, ...]]] = {
    "Translation, without attention": (
        Published("sutskever2014", "Sutskever et al. 2014", "LSTM, final states, reversed source", reported("BLEU")),
        Published("cho2014", "Cho et al. 2014", "GRU, one vector at every step", reported("BLEU")),
    ),
    "Translation, with attention": (
        Published("bahdanau2015", "Bahdanau et al. 2015", "two-way GRU, attention before the step", BLEU),
        Published("luong2015_dot", "Luong et al. 2015", "score dot, input feeding", BLEU),
        Published("luong2015_general", "Luong et al. 2015", "score general, input feeding", BLEU),
        Published("luong2015_concat", "Luong et al. 2015", "score concat, input feeding", BLEU),
        Published("luong2015_no_feeding", "Luong et al. 2015", "score general, no input feeding", BLEU),
        Published("luong2015_local", "Luong et al. 2015", "a window around a predicted position", BLEU),
        Published("simple_attention", "lectures", "Elman cells, the states as they are", BLEU),
        Published("parameterised_attention", "lectures", "Elman cells, learned projections", BLEU),
        Published("key_value_attention", "Daniluk et al. 2017", "states split into key and value", BLEU),
        Published("vaswani2017_tiny", "Vaswani et al. 2017", "Transformer, 2 layers of 128", BLEU),
        Published("vaswani2017_small", "Vaswani et al. 2017", "Transformer, 3 layers of 256", BLEU),
        Published("vaswani2017_base", "Vaswani et al. 2017", "Transformer, 6 layers of 512, begun", falling),
        Published("hybrid_rnn_transformer", "Chen et al. 2018", "LSTM encoder, Transformer decoder", BLEU),
        Published("hybrid_transformer_rnn", "Chen et al. 2018", "Transformer encoder, LSTM decoder", BLEU),
    ),
    "Language models": (
        Published("sutskever2011", "Sutskever et al. 2011", "generator of characters", NEAR, "sentences"),
        Published("elman_lm", "Elman 1990", "simple recurrent network, words", NEAR, "sentences"),
        Published("lstm_lm", "Hochreiter and Schmidhuber 1997", "LSTM, words", NEAR, "sentences"),
        Published("gru_lm", "Cho et al. 2014", "GRU, words", NEAR, "sentences"),
        Published("gpt_tiny", "Radford et al. 2018", "Transformer decoder", NEAR, "sentences"),
        Published("topic_lm", "lectures", "conditioned on a topic", NEAR, "topics"),
        Published("bert_tiny", "Devlin et al. 2019", "masked language model", reported("perplexity")),
    ),
    "Reading: acceptor and transducer": (
        Published("acceptor", "lectures", "a sentence to one class", reported("exact")),
        Published("transducer", "lectures", "a tag for each word", at_least("accuracy", 99)),
    ),
}


def rows() -> list[Published]:
    """All rows, task by task."""
    return [row for published in TASKS.values() for row in published]
