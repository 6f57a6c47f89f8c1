"""Small checkpoints of every layout, made by Transformers with random weights, and tiny vocabularies of their own."""

import io
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import sentencepiece
import tokenizers
import torch
import transformers

TEXT = "the cat sees a dog on mats while birds sing and die Katze schläft im Haus, nicht hier! Größe 12"
MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def texts(count: int, seed: int = 0) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(TEXT.split(), k=random.randint(1, 9))) for _ in range(count)]


@dataclass(frozen=True)
class Made:
    """A folder with a checkpoint, and the model in it as Transformers has it."""

    folder: Path
    model: Any
    tokenizer: Any

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text).input_ids)


def shake(model: Any) -> Any:
    """Weights with a large variance, most of all where the source gets in: else outputs would hardly differ."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.3 + ("norm" in name.lower() and "weight" in name))
            elif parameter.requires_grad:
                crossing = name.split(".")[-2] in ("v_proj", "out_proj", "v", "o")
                embedding = "shared" in name or "embed" in name or "lm_head" in name
                parameter.normal_(std=1.0 if crossing else 0.3 if embedding else 0.5)
        for name, buffer in model.named_buffers():
            if name == "final_logits_bias":
                buffer.normal_(std=0.3)
    return model.eval()


def train_spm(lines: Iterable[str], size: int, **options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, hard_vocab_limit=False, minloglevel=2,
        **options,
    )  # fmt: skip
    return model.getvalue()


def save(model: Any, folder: Path) -> None:
    model.save_pretrained(folder)


def marian(folder: Path, *, separate: bool = False, **settings: object) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    lines = texts(200)
    sides = {"source": train_spm(lines, 50), "target": train_spm(lines[:120], 40)}
    vocabularies = []
    for name, model in sides.items():
        (folder / f"{name}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        vocabularies.append([processor.id_to_piece(id_) for id_ in range(3, processor.get_piece_size())])
    if not separate:
        vocabularies = [list(dict.fromkeys(vocabularies[0] + vocabularies[1]))]
    for name, pieces in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        order = ["</s>", "<unk>", ">>fr<<", *pieces, "<pad>"]
        (folder / name).write_text(json.dumps({piece: id_ for id_, piece in enumerate(order)}))
    sizes = [len(pieces) + 4 for pieces in vocabularies]
    # Marian has one id of padding for both sides; where vocabularies differ, rows are added to the smaller one.
    size = max(sizes)
    if separate:
        for name, pieces in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=True):
            order = ["</s>", "<unk>", ">>fr<<", *pieces]
            ids = {piece: id_ for id_, piece in enumerate(order)} | {"<pad>": size - 1}
            (folder / name).write_text(json.dumps(ids))
    config = transformers.MarianConfig(
        **{
            "vocab_size": size, "decoder_vocab_size": size, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1,
            "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20,
            "activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 64,
            "pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1,
            "forced_eos_token_id": None, "share_encoder_decoder_embeddings": not separate,
        } | settings
    )  # fmt: skip
    model = shake(transformers.MarianMTModel(config))
    save(model, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
        if separate:
            files["target_vocab_file"] = "target_vocab.json"
        paths = {name: str(folder / file) for name, file in files.items()}
        return Made(folder, model, transformers.MarianTokenizer(**paths, separate_vocabs=separate))


def bart(folder: Path, **settings: object) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320, special_tokens=MARKS, show_progress=False,
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts(200), trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = transformers.BartConfig(
        **{
            "vocab_size": tokenizer.get_vocab_size(), "d_model": 16, "encoder_layers": 1, "decoder_layers": 2,
            "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20,
            "max_position_embeddings": 64, "forced_eos_token_id": None, "pad_token_id": 1, "bos_token_id": 0,
            "eos_token_id": 2, "decoder_start_token_id": 2,
        } | settings
    )  # fmt: skip
    model = shake(transformers.BartForConditionalGeneration(config))
    save(model, folder)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>")
    return Made(folder, model, fast)


def t5(folder: Path, *, gated: bool = False, **settings: object) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    content = train_spm(texts(200), 60, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(content)
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    more = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False} if gated else {}
    config = transformers.T5Config(
        **{
            "vocab_size": processor.get_piece_size() + 6, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2,
            "num_decoder_layers": 1, "num_heads": 3, "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12, "decoder_start_token_id": 0,
        } | more | settings
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    if gated:  # published models of version 1.1 have an output of their own
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    shake(model)
    save(model, folder)
    return Made(folder, model, _SentencePieceIds(processor))


@dataclass(frozen=True)
class _Inputs:
    input_ids: Sequence[int]


@dataclass(frozen=True)
class _SentencePieceIds:
    """T5 reads the ids of its sentencepiece model, and an end."""

    processor: Any

    def __call__(self, text: str) -> _Inputs:
        return _Inputs([*self.processor.encode(text), 1])

    def convert_ids_to_tokens(self, id_: int) -> str:
        return str(self.processor.id_to_piece(id_)) if id_ < self.processor.get_piece_size() else f"<unused {id_}>"


def bert(folder: Path, architecture: str = "BertForMaskedLM", **settings: object) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=70, special_tokens=marks, show_progress=False)
    tokenizer.train_from_iterator(texts(200), trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = transformers.BertConfig(
        **{
            "vocab_size": tokenizer.get_vocab_size(), "hidden_size": 16, "num_hidden_layers": 2,
            "num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 40,
        } | settings
    )  # fmt: skip
    model = shake(getattr(transformers, architecture)(config))
    save(model, folder)
    return Made(folder, model, transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]"))


MAKERS: dict[str, Callable[[Path], Made]] = {
    "marian": marian,
    "marian separate": lambda folder: marian(folder, separate=True),
    "marian untied": lambda folder: marian(folder, tie_word_embeddings=False, activation_function="relu"),
    "bart": bart,
    "bart scaled": lambda folder: bart(folder, scale_embedding=True),
    "t5": t5,
    "t5 gated": lambda folder: t5(folder, gated=True),
}
