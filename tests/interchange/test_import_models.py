"""Imported encoder-decoders against Transformers: states, logits, greedy outputs, text."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from regard.data.batch import make_batch, source_ids
from regard.interchange import import_checkpoint
from regard.run.model import Model
from regard.search import Request, Search, SearchOptions
from regard.special import END, FIRST_FREE, PAD, START, UNKNOWN
from tests.interchange.checkpoints import MAKERS, Made, texts

LIMIT = 24


@pytest.fixture(scope="module", params=MAKERS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Model]:
    folder = tmp_path_factory.mktemp("checkpoint")
    made = MAKERS[request.param](folder / "theirs")
    return made, import_checkpoint(made.folder, folder / "run").model


def counterparts(made: Made, model: Model) -> dict[int, int]:
    """Their ids of our target tokens, by name; PAD and START are left out."""
    config, tokenizer = made.model.config, made.tokenizer
    size = made.model.get_output_embeddings().weight.size(0)
    if hasattr(tokenizer, "target_encoder"):
        names = {id_: piece for piece, id_ in tokenizer.target_encoder.items()}
    else:
        names = {id_: tokenizer.convert_ids_to_tokens(id_) for id_ in range(size)}
    theirs = {names.get(id_, f"<unused {id_}>"): id_ for id_ in range(size)}
    ours = model.texts.target.pieces.pieces
    found = {id_: theirs[piece] for id_, piece in enumerate(ours, start=FIRST_FREE) if piece in theirs}
    return found | {END: config.eos_token_id, UNKNOWN: theirs["<unk>"]}


def their_inputs(made: Made, lines: list[str]) -> tuple[Tensor, Tensor]:
    rows = [made.ids(line) for line in lines]
    longest = max(map(len, rows))
    pad = made.model.config.pad_token_id
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


@torch.no_grad()
def test_states_and_logits_are_theirs(pair: tuple[Made, Model]) -> None:
    made, model = pair
    lines = texts(8, seed=1)
    ids, mask = their_inputs(made, lines)
    rows = [model.texts.source.encode(line).ids for line in lines]
    memory = model.system.encoder.encode(source_ids(rows))
    theirs = made.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    assert memory.mask.sum(1).tolist() == mask.sum(1).tolist()
    torch.testing.assert_close(memory.states[memory.mask], theirs[mask.bool()], rtol=0, atol=1e-4)
    names = counterparts(made, model)
    free = [id_ for id_ in names if id_ >= FIRST_FREE]
    assert len(free) >= made.model.get_output_embeddings().weight.size(0) - 30
    targets = [[free[(7 * row + 3 * item) % len(free)] for item in range(9)] for row in range(len(lines))]
    batch = make_batch(rows, targets)
    start = made.model.config.decoder_start_token_id
    inputs = torch.tensor([[start, *(names[id_] for id_ in target)] for target in targets])
    expected = made.model(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs).logits
    hidden = model.system.decoder.hidden(memory, batch.inputs)
    logits = model.system.decoder.logits(hidden)
    assert expected.std() > 0.3
    torch.testing.assert_close(logits[..., list(names)], expected[..., list(names.values())], rtol=0, atol=1e-4)
    assert logits[..., [PAD, START]].max() < expected.min() - 100
    without = [id_ for id_ in range(expected.size(-1)) if id_ != made.model.config.pad_token_id]
    normal = expected[..., without].logsumexp(-1, keepdim=True)
    ours = logits.log_softmax(-1)[..., list(names)]
    torch.testing.assert_close(ours, expected[..., list(names.values())] - normal, rtol=0, atol=1e-4)


@torch.no_grad()
def test_greedy_outputs_are_theirs(pair: tuple[Made, Model]) -> None:
    made, model = pair
    names, config = counterparts(made, model), made.model.config
    banned = [config.pad_token_id, names[UNKNOWN]]
    lines = texts(20, seed=2)
    search = Search(model.system, capacity=7)
    options = SearchOptions(beam=1, max_length=LIMIT, max_ratio=None)
    encoded = [model.texts.source.encode(line).ids for line in lines]
    search.add(
        Request(id=index, sources={"source": source_ids([ids])}, items=len(ids), options=options)
        for index, ids in enumerate(encoded)
    )
    found = {}
    while search.busy:
        found |= {one.id: one.hypotheses[0] for one in search.step()}
    different = set()
    for index, line in enumerate(lines):
        ids, mask = their_inputs(made, [line])
        output = made.model.generate(
            ids, attention_mask=mask, num_beams=1, do_sample=False, max_new_tokens=LIMIT, suppress_tokens=banned
        )[0, 1:].tolist()
        ended = output[-1] == config.eos_token_id
        assert [names[id_] for id_ in found[index].tokens] == output[: len(output) - ended]
        assert found[index].complete == ended
        different.add(tuple(output))
    assert len(different) > 3


def test_the_run_folder_is_one_like_any_other(pair: tuple[Made, Model]) -> None:
    made, model = pair
    again = regard.load(model.folder)
    lines = ["the cat sees a dog", "", "Größe 12"]
    first, blank, last = again.predict_many(lines, beam=2)
    assert (first.source, blank.text) == (lines[0], "")
    assert last.outputs
    picture = again.align([(lines[0], "a dog sings")])[0]
    assert (list(picture.source), list(picture.target)) == (lines[0].split(), ["a", "dog", "sings"])
    scored = again.score(lines[0], "a dog sings")
    assert scored.log_probability < 0
    assert len(scored.pieces) == len(again.texts.target.encode("a dog sings")) + 1
    assert "trained elsewhere" in (model.folder / "README.md").read_text()
    assert made.folder.name in (model.folder / "README.md").read_text()


def test_texts_are_read_and_written_as_theirs(pair: tuple[Made, Model]) -> None:
    made, model = pair
    tokenizer = model.texts.target
    for line in texts(30, seed=3):
        encoding = tokenizer.encode(line)
        assert tokenizer.decode(encoding.ids) == line or UNKNOWN in encoding.ids
        assert len(model.texts.source.encode(line)) + 1 == len(made.ids(line))
        ends = [end for _, end in encoding.spans]
        assert ends == sorted(ends)
        assert ends[-1] == len(line)
        covered = "".join(line[start:end] for start, end in encoding.spans)
        assert covered.split() == line.split()
    for line in ("</s>", "<pad> <s> <unk>", "[MASK]"):
        assert not {PAD, START, END} & set(tokenizer.encode(line).ids)


def test_language_marks_of_marian(tmp_path: Path) -> None:
    made = MAKERS["marian"](tmp_path / "theirs")
    model = import_checkpoint(made.folder, tmp_path / "run").model
    encoding = model.texts.source.encode(">>fr<< the cat")
    pieces = [model.texts.source.piece(id_) for id_ in encoding.ids]
    assert pieces == [made.tokenizer.convert_ids_to_tokens(id_) for id_ in made.ids(">>fr<< the cat")[:-1]]
    assert encoding.spans[0] == (0, 6)
    assert model.texts.source.piece(model.texts.source.encode(">>xx<<").ids[0]) != ">>xx<<"
