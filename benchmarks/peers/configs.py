"""The three models in the words of each program: what a user of it would write into its configuration.

Everyone gets the same sizes, dropout 0.1, label smoothing 0.1, Adam, batches of about 4,096 target tokens and its own
data loading. Where a program counts padding into a batch, its batches hold fewer real tokens; rates are of real ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from peers.corpus import Corpus, data_of
from peers.shapes import Shape

Tree = dict[str, object]
BATCH = 4096

BUCKET = 32768
"""Pairs that OpenNMT-py and Eole sort by length at a time: all; by themselves they read the corpus nine times first.

They read it in the process that trains (`num_workers`): beside it, reading ahead would take a core from the few steps
that are timed.
"""

RATE = 0.0005
DROPOUT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How long a training runs: steps before anything counts, steps that count, steps between two lines of the log.

    `batch`: target tokens of a step.
    """

    warm: int
    timed: int
    window: int
    batch: int = BATCH

    @property
    def all(self) -> int:
        return self.warm + self.timed


LONG_STEPS = Steps(warm=20, timed=180, window=20)
"""So long that memory does not grow any more, which it does in the first steps."""

FEW_STEPS = Steps(warm=1, timed=2, window=1)
QUICK_STEPS = Steps(warm=1, timed=2, window=1, batch=512)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How a model that is decoded with is trained: enough to end sentences where they end."""

    steps: int
    rate: float


def regard_recipe(
    shape: Shape,
    corpus: Corpus,
    run: Path,
    *,
    steps: int,
    batch: int = BATCH,
    precision: str = "float32",
    rate: float = RATE,
    test: str = "few",
) -> Tree:
    """Ours. Post-norm for Transformers, which is the layout of Marian."""
    half = shape.width // 2
    sides: Tree = (
        {
            "encoder": {"kind": "rnn", "cell": "lstm", "layers": 1, "two_way": True, "width": half},
            "decoder": {
                "kind": "rnn", "cell": "lstm", "layers": 1, "wiring": "luong", "score": "additive",
                "input_feeding": True,
            },
        }
        if shape.family == "rnn"
        else {
            side: {"kind": "transformer", "heads": shape.heads, "feedforward": shape.inner, "norm": "post"}
            for side in ("encoder", "decoder")
        }
    )  # fmt: skip
    return {
        **data_of(corpus, run, test=test),
        "text": {"unit": "bpe", "size": shape.vocabulary, "start_from": str(corpus.text)},
        "model": {"width": shape.width, "layers": shape.layers, "dropout": DROPOUT, "tie": "all", **sides},
        "training": {
            "steps": steps, "batch_tokens": batch, "optimizer": "adam", "learning_rate": rate,
            "warmup": min(100, steps), "label_smoothing": 0.1, "validate_every": 100_000, "precision": precision,
        },
    }  # fmt: skip


def eole_config(shape: Shape, corpus: Corpus, folder: Path, *, steps: Steps, precision: str = "fp32") -> Tree:
    """Eole 0.6; a custom architecture, for `rnn` knows no two-way encoder. It need not tell how sharp attention is."""
    model: Tree = {
        "architecture": "transformer", "hidden_size": shape.width, "layers": shape.layers, "heads": shape.heads,
        "transformer_ff": shape.inner, "add_qkvbias": True, "add_final_linear_bias": True, "add_ffnbias": True,
        "embeddings": {
            "word_vec_size": shape.width, "position_encoding": True,
            "position_encoding_type": "SinusoidalInterleaved",
        },
    }  # fmt: skip
    if shape.family == "rnn":
        model = {
            "architecture": "custom", "hidden_size": shape.width, "input_feed": 1,
            "embeddings": {"word_vec_size": shape.width},
            "encoder": {"encoder_type": "brnn", "rnn_type": "LSTM", "layers": 1},
            "decoder": {"decoder_type": "rnn", "rnn_type": "LSTM", "layers": 1, "global_attention": "mlp"},
        }  # fmt: skip
    return {
        "seed": 1, "share_vocab": True, "src_vocab": str(corpus.vocabulary), "tgt_vocab": str(corpus.vocabulary),
        "overwrite": True, "report_every": steps.window, "transforms": [],
        "data": {
            "train": {
                "path_src": str(corpus.file("train.src")), "path_tgt": str(corpus.file("train.tgt")),
                "transforms": [], "weight": 1,
            },
            "valid": {
                "path_src": str(corpus.file("valid.src")), "path_tgt": str(corpus.file("valid.tgt")),
                "transforms": [],
            },
        },
        "training": {
            "model_path": str(folder / "model"), "world_size": 1, "gpu_ranks": [], "compute_dtype": precision,
            "train_steps": steps.all, "valid_steps": 1_000_000, "save_checkpoint_steps": 1_000_000,
            "batch_type": "tokens", "batch_size": steps.batch, "normalization": "tokens", "optim": "adam",
            "learning_rate": RATE, "bucket_size": BUCKET, "num_workers": 0,
            "decay_method": "none", "dropout": [DROPOUT], "attention_dropout": [DROPOUT], "label_smoothing": 0.1,
            "param_init_method": "xavier_uniform", "log_attention_entropy": False,
        },
        "model": {**model, "share_embeddings": True, "share_decoder_embeddings": True},
    }  # fmt: skip


def opennmt_config(shape: Shape, corpus: Corpus, folder: Path, *, steps: Steps) -> Tree:
    """OpenNMT-py 3.5."""
    model: Tree = {
        "encoder_type": "transformer", "decoder_type": "transformer", "layers": shape.layers, "heads": shape.heads,
        "transformer_ff": shape.inner, "position_encoding": True, "add_qkvbias": True, "add_ffnbias": True,
        "param_init": 0, "param_init_glorot": True,
    }  # fmt: skip
    if shape.family == "rnn":
        model = {
            "encoder_type": "brnn", "decoder_type": "rnn", "rnn_type": "LSTM", "layers": 1, "input_feed": 1,
            "global_attention": "mlp",
        }  # fmt: skip
    return {
        "seed": 1, "share_vocab": True, "src_vocab": str(corpus.vocabulary), "tgt_vocab": str(corpus.vocabulary),
        "overwrite": True, "save_data": str(folder / "data"), "report_every": steps.window,
        "data": {
            "train": {
                "path_src": str(corpus.file("train.src")), "path_tgt": str(corpus.file("train.tgt")),
                "transforms": [], "weight": 1,
            },
            "valid": {
                "path_src": str(corpus.file("valid.src")), "path_tgt": str(corpus.file("valid.tgt")),
                "transforms": [],
            },
        },
        "save_model": str(folder / "model"), "train_steps": steps.all,
        "valid_steps": 1_000_000, "save_checkpoint_steps": steps.all, "batch_type": "tokens", "batch_size": steps.batch,
        "normalization": "tokens", "optim": "adam", "learning_rate": RATE, "decay_method": "none",
        "bucket_size": BUCKET, "num_workers": 0,
        "dropout": [DROPOUT], "attention_dropout": [DROPOUT], "label_smoothing": 0.1, "hidden_size": shape.width,
        "word_vec_size": shape.width, "share_embeddings": True, "share_decoder_embeddings": True, **model,
    }  # fmt: skip


def joeynmt_config(shape: Shape, corpus: Corpus, folder: Path, *, steps: Steps) -> Tree:
    """JoeyNMT 2.3. Its batches are not sorted by length, and it counts their padding."""
    side = {"lang": "src", "level": "word", "voc_file": str(joeynmt_vocabulary(corpus)), "max_length": 256}
    embeddings = {"embedding_dim": shape.width, "scale": shape.family == "transformer", "dropout": DROPOUT}
    model: Tree = {
        name: {
            "type": "transformer", "num_layers": shape.layers, "num_heads": shape.heads, "hidden_size": shape.width,
            "ff_size": shape.inner, "dropout": DROPOUT, "layer_norm": "post", "embeddings": embeddings,
        }
        for name in ("encoder", "decoder")
    }  # fmt: skip
    if shape.family == "rnn":
        common = {
            "type": "recurrent",
            "rnn_type": "lstm",
            "num_layers": 1,
            "dropout": DROPOUT,
            "embeddings": embeddings,
        }
        model = {
            "encoder": {**common, "hidden_size": shape.width // 2, "bidirectional": True},
            "decoder": {
                **common, "hidden_size": shape.width, "input_feeding": True, "attention": "bahdanau",
                "init_hidden": "bridge",
            },
        }  # fmt: skip
    return {
        "name": "speed", "joeynmt_version": "2.3.0", "model_dir": str(folder / "model"), "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": str(corpus.file("train")), "dev": str(corpus.file("few_pieces")), "dataset_type": "plain",
            "src": side, "trg": {**side, "lang": "tgt"},
        },
        "training": {
            "optimizer": "adam", "learning_rate": RATE, "learning_rate_min": 0.0, "batch_size": steps.batch,
            "scheduling": "warmupinversesquareroot", "learning_rate_warmup": 200,
            "batch_type": "token", "normalization": "tokens", "label_smoothing": 0.1, "epochs": 1000,
            "updates": steps.all, "logging_freq": steps.window, "validation_freq": 1_000_000, "overwrite": True,
        },
        "testing": {"beam_size": 1},
        "model": {"tied_embeddings": True, "tied_softmax": True, **model},
    }  # fmt: skip


def joeynmt_vocabulary(corpus: Corpus) -> Path:
    """Its files name the reserved entries, too; beside it a validation set of four pairs."""
    path = corpus.file("joeynmt.txt")
    entries = corpus.vocabulary.read_text(encoding="utf-8")
    path.write_text(f"<unk>\n<pad>\n<s>\n</s>\n{entries}", encoding="utf-8")
    for ending in ("src", "tgt"):
        lines = corpus.file(f"valid.{ending}").read_text(encoding="utf-8").splitlines()[:4]
        corpus.file(f"few_pieces.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_config(tree: Mapping[str, object], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(tree), sort_keys=False), encoding="utf-8")
    return path
