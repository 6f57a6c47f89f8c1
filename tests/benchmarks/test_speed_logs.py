"""What peers say in their logs."""

import json
import struct
from pathlib import Path

import pytest
from peers.logs import (
    parameters_in,
    read_driver,
    read_joeynmt,
    read_opennmt,
    read_regard,
    read_seconds,
)

EOLE = """\
[2026-11-16 07:00:00,100 INFO] * number of parameters: 2371328
[2026-11-16 07:00:00,200 INFO] Step 10/   60; acc: 5.1; ppl: 4000.21; xent: 8.29; aux: 0.000; mtp: 0.000; attn_ent: \
0.000; lr: 5.00e-04; sents:    2650; bsz: 3900/4012/265; 4500/4620 tok/s;      9 sec;
[2026-11-16 07:00:09,200 INFO] Step 20/   60; acc: 6.1; ppl: 2000.21; xent: 7.60; aux: 0.000; mtp: 0.000; attn_ent: \
0.000; lr: 5.00e-04; sents:    2650; bsz: 3900/4012/265; 4600/4700 tok/s;     18 sec;
[2026-11-16 07:00:18,200 INFO] Step 30/   60; acc: 6.1; ppl: 1000.21; xent: 6.90; aux: 0.000; mtp: 0.000; attn_ent: \
0.000; lr: 5.00e-04; sents:    2650; bsz: 3900/4012/265; 4700/4810 tok/s;     27 sec;
"""
OPENNMT = """\
[2026-11-16 07:00:00,100 INFO] * number of parameters: 2371328
[2026-11-16 07:00:09,200 INFO] Step 10/   60; acc: 6.1; ppl: 2000.21; xent: 7.60; lr: 5.00e-04; sents:    2650; \
bsz: 3900/4012/265; 900/1001 tok/s;     18 sec;
"""
JOEYNMT = """\
2026-11-16 07:00:00,123 - INFO - joeynmt.model - Total params: 2371328
2026-11-16 07:00:12,123 - INFO - joeynmt.training - Epoch   1, Step:       10, Batch Loss:     8.123456, Batch Acc: \
0.051200, Tokens per Sec:     1554, Lr: 0.000500
2026-11-16 07:00:24,123 - INFO - joeynmt.training - Epoch   1, Step:       30, Batch Loss:     7.123456, Batch Acc: \
0.061200, Tokens per Sec:     1560, Lr: 0.000500
"""


@pytest.mark.parametrize(
    ("read", "text", "steps", "values"),
    [
        (read_opennmt, EOLE, (10, 20, 30), (4620, 4700, 4810)),
        (read_opennmt, OPENNMT, (10,), (1001,)),
        (read_joeynmt, JOEYNMT, (10, 30), (1554, 1560)),
        (
            read_driver,
            'noise\n{"parameters": 2371328}\n{"step": 10, "tokens_per_second": 12.5}\n{torn\n',
            (10,),
            (12.5,),
        ),
    ],
    ids=["eole", "opennmt", "joeynmt", "driver"],
)
def test_rates_and_parameters(read, text, steps, values) -> None:
    found = read(text)
    assert found.steps == steps
    assert found.values == values
    assert found.parameters == 2_371_328


def test_tokens_of_a_step() -> None:
    assert read_opennmt(EOLE).batch == 4012
    assert read_joeynmt(JOEYNMT).batch == 0
    assert read_driver('{"step": 2, "tokens_per_second": 12.5, "tokens": 3800.5}\n').batch == 3800.5


def test_only_what_comes_after_the_warming_up_counts() -> None:
    rates = read_opennmt(EOLE)
    assert rates.median(20) == 4810
    assert rates.median(10) == (4700 + 4810) / 2
    assert rates.median(1000) == 4700  # a trial so short that nothing comes after it


@pytest.mark.parametrize("read", [read_opennmt, read_joeynmt, read_driver])
def test_a_log_without_rates_is_told(read) -> None:
    with pytest.raises(ValueError, match="the log tells no rate of training"):
        read("Traceback\n")


def test_our_own_log(tmp_path: Path) -> None:
    head = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
            "b": {"dtype": "F32", "shape": [], "data_offsets": [48, 52]},
        }
    ).encode()
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(struct.pack("<Q", len(head)) + head + bytes(52))
    assert parameters_in(weights) == 13
    log = (
        '{"event": "started", "step": 0}\n{"event": "step", "step": 20, "seconds": 16.0, "tokens_per_second": 5000.0}\n'
    )
    found = read_regard(log, weights)
    assert (found.steps, found.values, found.parameters, found.batch) == ((20,), (5000.0,), 13, 4000.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("[INFO] Total translation time (s): 7.5\n[INFO] Average translation time (ms): 7.5\n", 7.5),
        ("[INFO] Step 0 time (s): 1.25\nSubsequent prediction time including all (s): 6.50\n", 7.75),
    ],
    ids=["opennmt", "eole"],
)
def test_seconds_of_decoding(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


def test_a_log_without_seconds_is_told() -> None:
    with pytest.raises(ValueError, match="the log tells no time of decoding"):
        read_seconds("done\n")
