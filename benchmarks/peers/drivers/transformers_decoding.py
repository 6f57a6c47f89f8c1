"""`generate` of Transformers on an exported model.

python transformers_decoding.py MODEL PAIRS SETTINGS
"""

import sys
from collections.abc import Sequence

import torch
from measuring import END, LONGEST, PAD, Ids, Setting, by_length, length_of, measure, read_pairs, read_settings
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM


def main(folder: str, path: str, settings: list[Setting]) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    model.generation_config.max_length = None
    rows = [source for source, _ in read_pairs(path)]
    for setting in settings:
        forced = setting.ends == "forced"

        def decode(wanted: Sequence[Ids], setting: Setting = setting, forced: bool = forced) -> int:
            tokens = 0
            for batch in by_length(wanted, setting.batch):
                ids = pad_sequence([torch.tensor([*row, END]) for row in batch], batch_first=True, padding_value=PAD)
                limits = {"min_new_tokens": setting.steps} if forced else {}
                output = model.generate(
                    input_ids=ids,
                    attention_mask=(ids != PAD).long(),
                    num_beams=setting.beam,
                    do_sample=False,
                    early_stopping="never" if setting.ends == "exact" else False,
                    max_new_tokens=setting.steps if forced else LONGEST,
                    **limits,
                )
                tokens += sum(map(length_of, output[:, 1:].tolist()))
            return tokens

        with torch.inference_mode():
            measure(setting, rows, decode)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], read_settings(sys.argv[3]))
