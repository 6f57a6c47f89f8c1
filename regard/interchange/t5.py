"""T5 (Raffel et al. 2020): pre-norm without means and biases, a bias of distances that all layers share.

Products are not divided by √d. Where the output is tied to the embedding, states are divided by √d_model before it;
that scale goes into the last norm, as nothing else reads what it gives.
"""

import torch

from regard.interchange.checkpoint import Checkpoint
from regard.interchange.parts import Layout, Parts, Tables
from regard.recipe.schema import ModelSection, TransformerDecoderSection, TransformerEncoderSection

ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu", "gated-gelu_new": "geglu", "gated-silu": "swiglu"}
UNNEEDED = (
    r"(shared|(encoder|decoder)\.embed_tokens)\.weight",
    r"lm_head\.weight",
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
)


def read_t5(checkpoint: Checkpoint) -> Layout:
    config = checkpoint.config
    width, size = config.whole("d_model", low=1), config.whole("vocab_size", low=1)
    layers = {"encoder": config.whole("num_layers", 6, low=1)}
    layers["decoder"] = config.whole("num_decoder_layers", layers["encoder"], low=1)
    settings = {
        "heads": config.whole("num_heads", 8, low=1),
        "head_width": config.whole("d_kv", 64, low=1),
        "feedforward": config.whole("d_ff", 2048, low=1),
        "norm": "pre",
        "norm_kind": "rms",
        "norm_epsilon": config.number("layer_norm_epsilon", 1e-6),
        "positions": "relative_bias",
        "buckets": config.whole("relative_attention_num_buckets", 32, low=2),
        "furthest": config.whole("relative_attention_max_distance", 128, low=1),
        "activation": config.choice("feed_forward_proj", "relu", ACTIVATIONS),
        "score": "dot",
        "attention_bias": False,
        "feedforward_bias": False,
        "embedding_scale": False,
    }
    parts = Parts(checkpoint)
    for name, count in layers.items():
        _read_side(parts, name, width, count)
    tied = config.flag("tie_word_embeddings", True)
    if config.flag("scale_decoder_outputs", tied):
        parts.tensors["decoder.norm.weight"] *= width**-0.5
    names = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    source, target = (checkpoint.first((name, "shared.weight"), size, width) for name in names)
    output = checkpoint.first(("lm_head.weight", names[1], "shared.weight"), size, width)
    tables = Tables(source=source, target=target, output=output, bias=torch.zeros(size))
    checkpoint.finish(UNNEEDED)
    model = ModelSection(
        width=width,
        layers=layers["encoder"],
        dropout=config.number("dropout_rate", 0.1),
        tie=tables.tie,
        output_bias=True,
        encoder=TransformerEncoderSection.model_validate(settings | {"layers": layers["encoder"]}),
        decoder=TransformerDecoderSection.model_validate(settings | {"layers": layers["decoder"]}),
    )
    return Layout("T5", model, parts.tensors, tables)


def _read_side(parts: Parts, side: str, width: int, layers: int) -> None:
    config, checkpoint = parts.checkpoint.config, parts.checkpoint
    heads, inner = config.whole("num_heads", 8, low=1), config.whole("d_ff", 2048, low=1)
    buckets = config.whole("relative_attention_num_buckets", 32, low=2)
    bias = checkpoint.take(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", buckets, heads)
    parts.tensors[f"{side}.positions.related.weight"] = bias
    gated = config.choice("feed_forward_proj", "relu", ACTIVATIONS) != "relu"
    attentions = {"attention": "SelfAttention"} | ({"cross": "EncDecAttention"} if side == "decoder" else {})
    for layer in range(layers):
        ours, theirs = f"{side}.layers.{layer}", f"{side}.block.{layer}.layer"
        for place, (name, foreign) in enumerate(attentions.items()):
            maps = [f"{theirs}.{place}.{foreign}.{map_}" for map_ in "qkvo"]
            parts.attention(f"{ours}.{name}", maps, width, heads * config.whole("d_kv", 64, low=1), bias=False)
            parts.norm(f"{ours}.around_{name}.norm", f"{theirs}.{place}.layer_norm", width, bias=False)
        dense = f"{theirs}.{len(attentions)}.DenseReluDense"
        inputs = [f"{dense}.wi_0", f"{dense}.wi_1"] if gated else [f"{dense}.wi"]
        parts.linear(f"{ours}.feedforward.inner", inputs, width, inner, bias=False)
        parts.linear(f"{ours}.feedforward.outer", [f"{dense}.wo"], inner, width, bias=False)
        parts.norm(f"{ours}.around_feedforward.norm", f"{theirs}.{len(attentions)}.layer_norm", width, bias=False)
    parts.norm(f"{side}.norm", f"{side}.final_layer_norm", width, bias=False)
