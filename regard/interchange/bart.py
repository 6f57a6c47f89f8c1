"""Marian and BART: post-norm encoder-decoders with the same names of tensors.

Marian (Junczys-Dowmunt et al. 2018) has sinusoidal positions with all sines first; BART (Lewis et al. 2020) learns its
positions, the first two rows of whose table nobody uses, and has a norm after the embedding.
"""

import torch
from torch import Tensor

from regard.interchange.checkpoint import Checkpoint, Settings
from regard.interchange.parts import Layout, Parts, Tables
from regard.recipe.schema import ModelSection, TransformerDecoderSection, TransformerEncoderSection

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
UNNEEDED = (
    r"model\.(encoder|decoder)\.version",
    r"model\.(shared|(encoder|decoder)\.embed_tokens)\.weight",
    r"lm_head\.weight",
)
OFFSET = 2
"""Rows of BART's position table before the first position."""


def read_marian(checkpoint: Checkpoint) -> Layout:
    return _read(checkpoint, marian=True)


def read_bart(checkpoint: Checkpoint) -> Layout:
    return _read(checkpoint, marian=False)


def _read(checkpoint: Checkpoint, *, marian: bool) -> Layout:
    config = checkpoint.config
    for name in ("normalize_before", "add_final_layer_norm"):
        if config.flag(name, False):
            config.refuse(f"`{name}` is true, which plain Marian and BART models do not have")
    width, longest = config.whole("d_model", low=1), config.whole("max_position_embeddings", 1024, low=1)
    parts = Parts(checkpoint)
    for side in ("encoder", "decoder"):
        _read_side(parts, side, width, longest, marian=marian)
    tables = _read_tables(checkpoint, width, marian=marian)
    positions = r"model\.(encoder|decoder)\.embed_positions\.weight"
    checkpoint.finish((*UNNEEDED, positions) if marian else UNNEEDED)
    model = ModelSection(
        width=width,
        layers=config.whole("encoder_layers", 12, low=1),
        dropout=config.number("dropout", 0.1),
        tie=tables.tie,
        output_bias=True,
        encoder=TransformerEncoderSection.model_validate(_side(config, "encoder", longest, marian=marian)),
        decoder=TransformerDecoderSection.model_validate(_side(config, "decoder", longest, marian=marian)),
    )
    return Layout("Marian" if marian else "BART", model, parts.tensors, tables, longest)


def _side(config: Settings, side: str, longest: int, *, marian: bool) -> dict[str, object]:
    positions = {"positions": "sinusoidal", "waves": "halves"} if marian else {"positions": "learned"}
    return {
        "layers": config.whole(f"{side}_layers", 12, low=1),
        "heads": config.whole(f"{side}_attention_heads", 16, low=1),
        "feedforward": config.whole(f"{side}_ffn_dim", 4096, low=1),
        "norm": "post",
        "activation": config.choice("activation_function", "gelu", ACTIVATIONS),
        "embedding_norm": not marian,
        "embedding_scale": config.flag("scale_embedding", False),
        **positions,
        **({} if marian else {"longest": longest}),
    }


def _read_side(parts: Parts, side: str, width: int, longest: int, *, marian: bool) -> None:
    config, checkpoint = parts.checkpoint.config, parts.checkpoint
    inner = config.whole(f"{side}_ffn_dim", 4096, low=1)
    if not marian:
        table = checkpoint.take(f"model.{side}.embed_positions.weight", longest + OFFSET, width)
        parts.tensors[f"{side}.positions.added.weight"] = table[OFFSET:]
        parts.norm(f"{side}.embedding_norm", f"model.{side}.layernorm_embedding", width, bias=True)
    attentions = {"attention": "self_attn"} | ({"cross": "encoder_attn"} if side == "decoder" else {})
    for layer in range(config.whole(f"{side}_layers", 12, low=1)):
        ours, theirs = f"{side}.layers.{layer}", f"model.{side}.layers.{layer}"
        for name, foreign in attentions.items():
            maps = [f"{theirs}.{foreign}.{map_}" for map_ in ("q_proj", "k_proj", "v_proj", "out_proj")]
            parts.attention(f"{ours}.{name}", maps, width, width, bias=True)
            parts.norm(f"{ours}.around_{name}.norm", f"{theirs}.{foreign}_layer_norm", width, bias=True)
        parts.linear(f"{ours}.feedforward.inner", [f"{theirs}.fc1"], width, inner, bias=True)
        parts.linear(f"{ours}.feedforward.outer", [f"{theirs}.fc2"], inner, width, bias=True)
        parts.norm(f"{ours}.around_feedforward.norm", f"{theirs}.final_layer_norm", width, bias=True)


def _read_tables(checkpoint: Checkpoint, width: int, *, marian: bool) -> Tables:
    config = checkpoint.config
    source_size = target_size = config.whole("vocab_size", low=1)
    shared, output = "model.shared.weight", "lm_head.weight"
    of_encoder, of_decoder = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    if marian and not config.flag("share_encoder_decoder_embeddings", True):
        target_size = config.whole("decoder_vocab_size", source_size, low=1)
        source = checkpoint.take(of_encoder, source_size, width)
        target = checkpoint.first((of_decoder, output), target_size, width)
    else:
        source = checkpoint.first((of_encoder, shared, of_decoder, output), source_size, width)
        target = checkpoint.first((of_decoder, shared, of_encoder, output), target_size, width)
    tied = config.flag("tie_word_embeddings", True) or not checkpoint.has(output)
    bias = torch.zeros(target_size)
    if checkpoint.has("final_logits_bias"):
        bias = checkpoint.take("final_logits_bias", 1, target_size)[0]
    result: Tensor = target if tied else checkpoint.take(output, target_size, width)
    return Tables(source=source, target=target, output=result, bias=bias)
