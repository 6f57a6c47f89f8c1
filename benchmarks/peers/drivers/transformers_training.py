"""The plain loop that a user of Transformers would write: Marian, batches of alike lengths, Adam.

python transformers_training.py SHAPE PAIRS STEPS WINDOW TOKENS [--bfloat16]
"""

import argparse
import contextlib
import json
import time

import torch
from measuring import END, PAD, START, memory, read_pairs, tell, training_batches
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel


def model_of(shape: dict[str, int]) -> MarianMTModel:
    return MarianMTModel(
        MarianConfig(
            vocab_size=shape["vocabulary"],
            d_model=shape["width"],
            encoder_layers=shape["layers"],
            decoder_layers=shape["layers"],
            encoder_attention_heads=shape["heads"],
            decoder_attention_heads=shape["heads"],
            encoder_ffn_dim=shape["inner"],
            decoder_ffn_dim=shape["inner"],
            activation_function="relu",
            dropout=0.1,
            attention_dropout=0.1,
            activation_dropout=0.0,
            max_position_embeddings=512,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=END,
            bos_token_id=START,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", type=json.loads)
    parser.add_argument("pairs")
    parser.add_argument("steps", type=int)
    parser.add_argument("window", type=int)
    parser.add_argument("tokens", type=int)
    parser.add_argument("--bfloat16", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    model = model_of(options.shape).train()
    tell(parameters=sum(one.numel() for one in model.parameters() if one.requires_grad))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    lossy = torch.autocast("cpu", torch.bfloat16) if options.bfloat16 else contextlib.nullcontext()
    pairs = read_pairs(options.pairs)
    step, tokens, epoch, began = 0, 0, 0, time.perf_counter()
    while step < options.steps:
        epoch += 1
        for batch in training_batches(pairs, options.tokens, epoch):
            source = pad_sequence([torch.tensor([*row, END]) for row, _ in batch], batch_first=True, padding_value=PAD)
            target = pad_sequence([torch.tensor([*row, END]) for _, row in batch], batch_first=True, padding_value=PAD)
            inputs = torch.cat((torch.full((len(batch), 1), START), target[:, :-1]), dim=1)
            with lossy:
                logits = model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=inputs).logits
                loss = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1
                )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            tokens += int((target != PAD).sum())
            if step % options.window == 0:
                now = time.perf_counter()
                rate, mean = tokens / (now - began), tokens / options.window
                tell(step=step, tokens_per_second=rate, tokens=mean, loss=float(loss.detach()), **memory())
                tokens, began = 0, now
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
