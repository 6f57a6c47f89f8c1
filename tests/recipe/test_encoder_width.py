"""A recurrent encoder may be narrower or wider than the rest of the model."""

import pytest

from regard.data.batch import make_batch
from regard.models import EncoderDecoder
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("wiring", ["bahdanau", "luong", "output", "transformed", "every_step"])
def test_states_have_the_width_of_the_encoder(two_way: bool, wiring: str) -> None:
    section = ModelSection.model_validate(
        {
            "width": 8,
            "layers": 1,
            "encoder": {"kind": "rnn", "cell": "lstm", "width": 5, "two_way": two_way},
            "decoder": {"kind": "rnn", "cell": "lstm", "wiring": wiring},
        }
    )
    system = build_system(section, source_vocabulary=12, target_vocabulary=12)
    assert isinstance(system, EncoderDecoder)
    batch = make_batch([[4, 5, 6]], [[7, 8]])
    assert system.encoder.encode(batch.sources["source"]).states.size(-1) == 5 * (1 + two_way)
    assert system.loss(batch).count == 3


@pytest.mark.parametrize(
    ("encoder", "decoder", "told"),
    [
        (
            {"two_way": False, "width": 5},
            {"wiring": "initial"},
            "of width 8, and this encoder's have width 5",
        ),
        (
            {"two_way": True, "width": 5},
            {"wiring": "luong", "score": "dot"},
            "the decoder's states 8 and the encoder's keys 10",
        ),
        (
            {"two_way": True, "width": 5, "self_attention": 4},
            {"wiring": "luong"},
            "states of width 10 cannot be split into 4 heads",
        ),
    ],
    ids=["initial", "dot", "self-attention"],
)
def test_widths_that_do_not_fit_are_refused(encoder: dict, decoder: dict, told: str) -> None:
    sides = {"encoder": {"kind": "rnn", **encoder}, "decoder": {"kind": "rnn", **decoder}}
    with pytest.raises(ValueError, match=told):
        ModelSection.model_validate({"width": 8, "layers": 1, **sides})


def test_half_the_width_in_each_direction_fits_a_dot() -> None:
    encoder = {"kind": "rnn", "width": 4, "two_way": True}
    decoder = {"kind": "rnn", "wiring": "luong", "score": "dot"}
    section = ModelSection.model_validate({"width": 8, "encoder": encoder, "decoder": decoder})
    assert section.encoder.kind == "rnn"
