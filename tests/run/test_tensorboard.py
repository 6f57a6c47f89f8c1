"""Event files as TensorBoard itself reads them, and checksums as the standard gives them."""

import struct
from pathlib import Path

import pytest

from regard.errors import ResourceError
from regard.run.tensorboard import NAME, TensorBoardWriter, crc32c, masked
from regard.training import Event, Progress, Sampled, Shown, Started, Stepped, Validated, Warned

accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
multiplexers = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")


def at(step: int) -> Progress:
    return Progress(step=step)


def stepped(step: int, loss: float) -> Stepped:
    return Stepped(at(step), loss, loss / 2, 0.001, 0.25, 1234.5, clipped=0.5, memory=2_000_000)


def write(folder: Path, *events: Event) -> None:
    writer = TensorBoardWriter(folder)
    for event in events:
        writer(event)


def read(folder: Path) -> "accumulators.EventAccumulator":
    accumulator = accumulators.EventAccumulator(str(folder), purge_orphaned_data=True)
    accumulator.Reload()
    return accumulator


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in read(folder).Scalars(tag)]


@pytest.mark.parametrize(
    ("content", "summed"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
    ],
)
def test_checksums_are_those_of_the_standard(content: bytes, summed: int) -> None:
    assert crc32c(content) == summed  # RFC 3720, B.4, and the usual check value


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    write(
        tmp_path,
        Started(at(0), 100, None),
        stepped(20, 4.0),
        stepped(300, 2.5),
        Validated(at(300), 2.25, {"BLEU": 12.5}, True),
        Sampled(at(300), (Shown("a b\nc", "ä <b>", "ö"), Shown("", None, "x" * 200))),
        Warned(at(300), "flat", "hardly anything"),
    )
    assert scalars(tmp_path, "training/loss") == [(20, 4.0), (300, 2.5)]
    assert scalars(tmp_path, "training/likelihood") == [(20, 2.0), (300, 1.25)]
    assert scalars(tmp_path, "training/gradient norm") == [(20, 0.25), (300, 0.25)]
    assert scalars(tmp_path, "training/clipped") == [(20, 0.5), (300, 0.5)]
    assert scalars(tmp_path, "training/learning rate") == [(20, pytest.approx(0.001)), (300, pytest.approx(0.001))]
    assert scalars(tmp_path, "speed/tokens per second") == [(20, 1234.5), (300, 1234.5)]
    assert scalars(tmp_path, "speed/memory in megabytes") == [(20, 2.0), (300, 2.0)]
    assert scalars(tmp_path, "validation/loss") == [(300, 2.25)]
    assert scalars(tmp_path, "validation/BLEU") == [(300, 12.5)]
    board = multiplexers.EventMultiplexer().AddRun(str(tmp_path), "run").Reload()
    assert set(board.PluginRunToTagToContent("text")["run"]) == {"outputs", "warnings/flat"}
    (outputs,) = board.Tensors("run", "outputs")
    first, second = (text.decode() for text in outputs.tensor_proto.string_val)
    assert first.splitlines() == ["    source    a b\ufffdc", "    reference ä <b>", "    output    ö"]
    assert second.splitlines()[1] == "    output    " + "x" * 200


def test_a_training_that_goes_on_shows_no_step_twice(tmp_path: Path) -> None:
    write(tmp_path, Started(at(0), 100, None), *(stepped(step, 1.0) for step in (10, 20, 30, 40)))
    write(tmp_path, Started(at(20), 100, None), *(stepped(step, 2.0) for step in (30, 40)))
    write(tmp_path, Started(at(30), 100, None), *(stepped(step, 3.0) for step in (40, 50)))
    assert len(sorted(tmp_path.iterdir())) == 3
    assert scalars(tmp_path, "training/loss") == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 3.0), (50, 3.0)]


def test_a_training_that_starts_anew_leaves_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write(tmp_path, Started(at(0), 100, None), stepped(10, 1.0))
    write(tmp_path, Started(at(0), 100, None), stepped(10, 2.0))
    assert scalars(tmp_path, "training/loss") == [(10, 2.0)]
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(NAME)] == ["notes.txt"]


def test_records_carry_their_checksums(tmp_path: Path) -> None:
    """By the layout of the format: length, its checksum, content, its checksum."""
    write(tmp_path, Started(at(0), 100, None), stepped(10, 1.0))
    (path,) = tmp_path.iterdir()
    content, contents = path.read_bytes(), []
    while content:
        (length, check), content = struct.unpack("<QI", content[:12]), content[12:]
        assert check == masked(struct.pack("<Q", length))
        record, (after,), content = (
            content[:length],
            struct.unpack("<I", content[length : length + 4]),
            content[length + 4 :],
        )
        assert after == masked(record)
        contents.append(record)
    assert len(contents) == 2
    assert b"brain.Event:2" in contents[0]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.raises(ResourceError, match=r"tensorboard: cannot be written to \(File exists\).*tensorboard=false"):
        write(tmp_path / "tensorboard", Started(at(0), 100, None))
