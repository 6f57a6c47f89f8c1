"""Picture files as rows and as batches, against pictures drawn from known numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Files

from regard.data import Ledger, prepare
from regard.data import pictures as reading
from regard.data.batch import Category, Image
from regard.data.collation import SourceTexts, TextCollation
from regard.data.example import Example, Misfit, Place
from regard.data.pictures import Pictures, beside_files, picture_key
from regard.errors import UsageError
from regard.text import LabelTokenizer, WordTokenizer

GREY, COLOUR = Pictures(channels=1), Pictures(channels=3)
ONE = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
TWO = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20


def saved(path: Path, pixels: np.ndarray) -> str:
    Files.fromarray(pixels).save(path)
    return str(path)


def test_rows_are_height_width_and_pixels(tmp_path: Path) -> None:
    grey, colour = saved(tmp_path / "grey.png", ONE), saved(tmp_path / "colour.bmp", TWO)
    assert GREY.read(grey).tolist() == [2, 3, *ONE.ravel()]
    assert COLOUR.read(colour).tolist() == [2, 2, *TWO.ravel()]
    assert COLOUR.read(grey).tolist() == [2, 3, *ONE.ravel().repeat(3)]
    luma = TWO.astype(float) @ [0.299, 0.587, 0.114]  # ITU-R 601
    assert np.abs(GREY.read(colour)[2:] - luma.ravel()).max() <= 1


@pytest.mark.parametrize("format", [one for one in reading.FORMATS if one not in ("JPEG", "WEBP")])
def test_formats_without_loss_give_the_same(tmp_path: Path, format: str) -> None:
    Files.fromarray(ONE).save(tmp_path / "x", format=format)
    assert GREY.read(str(tmp_path / "x")).tolist() == [2, 3, *ONE.ravel()]


@pytest.mark.parametrize("format", ["JPEG", "WEBP"])
def test_formats_with_loss_give_nearly_the_same(tmp_path: Path, format: str) -> None:
    Files.new("RGB", (8, 8), (200, 100, 50)).save(tmp_path / "x", format=format)
    assert np.abs(COLOUR.read(str(tmp_path / "x"))[2:].reshape(64, 3) - [200, 100, 50]).max() < 8


def test_pictures_stand_upright_and_on_white(tmp_path: Path) -> None:
    turned = Files.Exif()
    turned[0x0112] = 6  # to be turned clockwise by a quarter
    Files.fromarray(ONE).save(tmp_path / "turned.png", exif=turned)
    assert GREY.read(str(tmp_path / "turned.png")).tolist() == [3, 2, *np.rot90(ONE, -1).ravel()]
    clear = np.array([[[10, 20, 30, 255], [10, 20, 30, 0]]], dtype=np.uint8)
    assert COLOUR.read(saved(tmp_path / "clear.png", clear)).tolist() == [1, 2, 10, 20, 30, 255, 255, 255]


def test_files_that_are_no_pictures_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (40, 40), dtype=np.uint8)
    whole = Path(saved(tmp_path / "whole.png", noise)).read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "drawing.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    saved(tmp_path / "deep.png", np.zeros((2, 2), dtype=np.uint16))
    for name, told in (
        ("none.png", "there is no such picture"),
        ("half.png", "cannot be read as a picture"),
        ("text.png", r"cannot be read as a picture \(broken, or of another format\); known are BMP, GIF"),
        ("drawing.eps", "cannot be read as a picture"),
        (".", r"cannot be read as a picture \(Is a directory\)"),
        ("a\0b", "cannot be read as a picture"),
        ("deep.png", "pixels of more than 8 bit a channel"),
    ):
        with pytest.raises(Misfit, match=told):
            GREY.read(f"{tmp_path}/{name}")
    monkeypatch.setattr(reading, "MOST_PIXELS", 1599)
    with pytest.raises(Misfit, match="40 × 40 are more than the 1,599 pixels a picture may have"):
        GREY.read(str(tmp_path / "whole.png"))
    monkeypatch.setattr(Files, "MAX_IMAGE_PIXELS", 500)
    with pytest.raises(Misfit, match="it has many times more than the 1,599 pixels"):
        GREY.read(str(tmp_path / "whole.png"))


def test_without_pillow_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UsageError, match=r"read by the package pillow: `pip install pillow`"):
        GREY.read(str(tmp_path / "x.png"))


def test_a_batch_is_padded_and_told_between_0_and_1(tmp_path: Path) -> None:
    labels = LabelTokenizer(labels=("day", "night"))
    source = SourceTexts(text=None, pictures=COLOUR, attributes=(labels,))
    collation = TextCollation(source=source, target=WordTokenizer(words=("a", "b")))
    lines = [f"{saved(tmp_path / 'a.png', TWO)}\tnight", f"{saved(tmp_path / 'b.png', np.stack([ONE] * 3, -1))}\tday"]
    encoded = [collation.encode(line, "a b a") for line in lines]
    assert collation.streams == tuple(encoded[0]) == ("image", "attributes", "target")
    assert collation.bounded == ("target",)
    batch = collation.batch({name: [one[name] for one in encoded] for name in collation.streams}, [(), ()])
    image, attributes = batch.sources["source"], batch.sources["attributes"]
    assert isinstance(image, Image)
    assert isinstance(attributes, Category)
    assert image.mask.tolist() == [[[True, True, False]] * 2, [[True] * 3] * 2]
    torch.testing.assert_close(image.pixels[0, :, :, :2], torch.tensor(TWO).movedim(-1, 0) / 255)
    torch.testing.assert_close(image.pixels[1], torch.tensor(ONE).expand(3, -1, -1) / 255)
    assert not image.pixels[0, :, :, 2].any()
    assert attributes.values.tolist() == [[labels.encode("night").ids[0]], [labels.encode("day").ids[0]]]
    with pytest.raises(Misfit, match=r"a source of 2 columns .* \(image, attributes\), and there is 1"):
        collation.encode(str(tmp_path / "a.png"), "a")


def test_the_limit_of_length_is_not_for_pictures_but_items_are_counted(tmp_path: Path) -> None:
    source = SourceTexts(text=None, pictures=Pictures(channels=1, cell=2))
    collation = TextCollation(source=source, target=WordTokenizer(words=("a",)))
    paths = [saved(tmp_path / f"{h}.png", np.zeros((h, 5), dtype=np.uint8)) for h in (2, 3)]
    pairs = [(paths[0], "a"), (paths[1], "a a"), (paths[1], "a a a")]
    ledger = Ledger()
    store = prepare(
        [Example({"source": one, "target": two}, Place("x", line)) for line, (one, two) in enumerate(pairs, 1)],
        streams=collation.streams,
        bounded=collation.bounded,
        encode=collation.encode,
        folder=tmp_path,
        key="k",
        bad_lines="refuse",
        empty_lines="refuse",
        long_lines="skip",
        max_length=2,
        ledger=ledger,
    )
    assert ledger.counts == {"long": 1}
    assert collation.lengths(store).tolist() == [[1 * 3, 1], [2 * 3, 2]]


def test_paths_are_told_from_the_folder_of_their_file(tmp_path: Path) -> None:
    sources = ["p.png", "q/../p.png\tx//y", "/p.png", "", "\tx"]
    examples = [Example({"source": one, "target": "t", "gold": "g"}, Place("a/b.tsv", 1)) for one in sources]
    found = list(beside_files(examples))
    assert [one.source for one in found] == ["a/p.png", "a/q/../p.png\tx//y", "/p.png", "", "\tx"]
    assert all((one.target, one.fields["gold"], one.place) == ("t", "g", Place("a/b.tsv", 1)) for one in found)
    (standard,) = beside_files([Example({"source": "p.png", "target": ""}, Place("<stdin>", 1))])
    assert Path(standard.source) == Path("p.png")


def test_the_key_follows_from_what_pictures_are(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", ONE)
    examples = [Example({"source": one, "target": ""}, Place("x", 1)) for one in (path, f"{path}\tnews", "a\0")]
    keys = {picture_key(GREY, examples), picture_key(COLOUR, examples), picture_key(GREY, examples[:2])}
    assert len(keys) == 3
    before = picture_key(GREY, examples)
    assert picture_key(GREY, examples) == before
    saved(tmp_path / "a.png", ONE + 1)
    assert picture_key(GREY, examples) != before
