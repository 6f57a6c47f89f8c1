"""What an exported folder says about itself: how to use it, in lines of Python that a test runs."""

from collections.abc import Sequence

from regard.interchange.export_tokenizer import stored_tokenizer
from regard.recipe.schema import Recipe
from regard.recipe.texts import Texts
from regard.special import END, PAD, START

_TEXT = '"the cat sleeps ."'


def huggingface_readme(*, layout: str, own: bool, shared: bool, notes: Sequence[str]) -> str:
    """README.md of a folder for `transformers`; `own`: texts are read by regard's own tokenizer."""
    if own:
        lines = [
            "import pathlib, torch",
            "from regard.text import load_tokenizer",
            "from transformers import AutoModelForSeq2SeqLM",
            "",
            'folder = pathlib.Path(".")  # this folder',
            *_own_tokenizers(shared=shared),
            "model = AutoModelForSeq2SeqLM.from_pretrained(folder)",
            f"inputs = torch.tensor([[*source.encode({_TEXT}).ids, {END}]])",
            "print(target.decode(model.generate(inputs)[0].tolist()))",
        ]
    else:
        target = "tokenizer" if shared else 'AutoTokenizer.from_pretrained(f"{folder}/target")'
        lines = [
            "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
            "",
            'folder = "."  # this folder',
            "tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)",
            *([] if shared else [f"target = {target}"]),
            f'outputs = model.generate(**tokenizer([{_TEXT}], padding=True, return_tensors="pt"))',
            f"print({'tokenizer' if shared else 'target'}.batch_decode(outputs, skip_special_tokens=True))",
        ]
    facts = [
        f"A model trained by regard, in the {layout.capitalize()} layout of Hugging Face's `transformers`.",
        "",
        *_code(lines),
        "",
        "Sources end with `eos`; outputs start with `bos`. With `num_beams=1` outputs are those of regard. A beam here "
        "keeps its width when a hypothesis ends; in regard only the others go on. So outputs of a beam can differ "
        "where several are nearly as good.",
        *(f"\nNote: {note}." for note in notes),
    ]
    return _page(facts)


def ctranslate2_readme(recipe: Recipe, texts: Texts, names: Sequence[str]) -> str:
    """README.md of a folder for CTranslate2; `names` are those of the target's tokens."""
    shared = texts.source is texts.target
    imports, before, tokens, after = _tokens(texts, shared=shared)
    search = recipe.search
    lines = [
        *imports,
        "",
        'folder = "."  # this folder',
        "translator = ctranslate2.Translator(folder)",
        *before,
        f"result = translator.translate_batch([{tokens}], beam_size={search.beam},",
        f"    length_penalty={search.length_penalty}, patience=4, return_end_token=True, return_scores=True,",
        f"    min_decoding_length=0, max_decoding_length={search.max_length}, disable_unk=True,",
        f"    suppress_sequences=[[{names[PAD]!r}], [{names[START]!r}]])[0]",
        f"output = [token for token in result.hypotheses[0] if token != {names[END]!r}]",
        f"print({after})",
    ]
    facts = [
        "A model trained by regard, for CTranslate2.",
        "",
        *_code(lines),
        "",
        "These settings count lengths as regard does. With `beam_size=1` outputs are those of regard. A beam here "
        "keeps its width when a hypothesis ends, and takes forbidden tokens out before the softmax; in regard only the "
        "others go on, and probabilities stay as they are. So outputs of a beam can differ where several are nearly as "
        "good.",
    ]
    return _page(facts)


def _tokens(texts: Texts, *, shared: bool) -> tuple[list[str], list[str], str, str]:
    """Imports, preparation, the expression of source tokens, and that of the output text."""
    units = {tokenizer.unit for tokenizer in (texts.source, texts.target)}
    plain = not any("normal" in stored_tokenizer(tokenizer).fields for tokenizer in (texts.source, texts.target))
    source_name, target_name = ("text", "text") if shared else ("source", "target")
    if plain and units == {"word"}:
        return ["import ctranslate2"], [], f'{_TEXT}.split(" ")', '" ".join(output)'
    if plain and units == {"character"}:
        return ["import ctranslate2"], [], f"list({_TEXT})", '"".join(output)'
    if plain and units <= {"bpe", "unigram"}:
        processor = 'sentencepiece.SentencePieceProcessor(f"{folder}/NAME.spm")'
        before = [
            f"{side} = {processor.replace('NAME', name)}"
            for side, name in (("source", source_name), ("target", target_name))
        ]
        tokens = f'source.encode(" " + {_TEXT}, out_type=str)'
        return ["import ctranslate2, sentencepiece"], before, tokens, 'target.decode(output).removeprefix(" ")'
    files = [f"{name}_vocabulary.json" for name in (("shared", "shared") if shared else ("source", "target"))]
    before = [
        "folder = pathlib.Path(folder)",
        *_own_tokenizers(shared=shared),
        *(
            f'{side}_names = json.loads((folder / "{file}").read_text("utf-8"))'
            for side, file in zip(("source", "target"), files, strict=True)
        ),
    ]
    tokens = f"[source_names[id_] for id_ in source.encode({_TEXT}).ids]"
    after = "target.decode([target_names.index(token) for token in output])"
    return ["import ctranslate2, json, pathlib", "from regard.text import load_tokenizer"], before, tokens, after


def _own_tokenizers(*, shared: bool) -> list[str]:
    if shared:
        return ['source = target = load_tokenizer(folder, "text")']
    return ['source, target = load_tokenizer(folder, "source"), load_tokenizer(folder, "target")']


def _code(lines: Sequence[str]) -> list[str]:
    return ["```python", *lines, "```"]


def _page(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
