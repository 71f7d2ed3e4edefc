#!/usr/bin/env python3
"""Loads an exported folder with transformers and shows that it works: parameters, loss on a text, a greedy sample.

One JSON line goes to stdout. The status is 1, with the reason on stderr, when the folder doesn't load whole (a missing,
surplus or misshapen tensor), when the tokenizer's ids don't fit the vocabulary, or when the loss isn't finite.
Usage: check_export.py FOLDER [--text FILE] [--max-rows N]
"""

import argparse
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers

SAMPLE_TOKENS = 20
DEFAULT_TEXT = "Once upon a time, there was a little girl who liked to read."


def load(folder):
    """The model and its tokenizer; an unclean load ends the program, since transformers only warns of it."""
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are listed below, by name
            dtype="auto",
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as e:  # whatever transformers throws, the folder is what it could not load
        sys.exit(f"{folder}: transformers can't load it: {type(e).__name__}: {e}")
    faults = [f"{kind}: {sorted(map(str, names))}" for kind, names in info.items() if names]
    if faults:
        sys.exit(f"{folder}: the tensors don't fit the config: " + "; ".join(faults))
    return model.float().eval(), tokenizer


def rows_of(ids, context):
    """The text cut into rows of `context` predictions; neighbours share the token at the cut."""
    starts = range(0, len(ids) - 1, context)
    return [ids[s : s + context + 1] for s in starts]


@torch.no_grad()
def loss_of(model, ids, context, max_rows):
    """(sum of losses in nats, tokens predicted)."""
    total, count = 0.0, 0
    for row in rows_of(ids, context)[:max_rows]:
        row_T = torch.tensor(row)
        logits_TV = model(input_ids=row_T[None, :-1], use_cache=False).logits[0]
        total += F.cross_entropy(logits_TV, row_T[1:], reduction="sum").item()
        count += len(row) - 1
    return total, count


@torch.no_grad()
def greedy(model, ids, context):
    """SAMPLE_TOKENS more ids, each from the whole of what fits the context; no cache, no sampling settings."""
    ids = list(ids)
    for _ in range(SAMPLE_TOKENS):
        logits_V = model(input_ids=torch.tensor([ids[-context:]]), use_cache=False).logits[0, -1]
        ids.append(int(logits_V.argmax()))
    return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, help="UTF-8 text for the loss (a sentence without it)")
    parser.add_argument("--max-rows", type=int, default=64, help="stop the loss after so many rows (64)")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    model, tokenizer = load(args.folder)
    context = model.config.max_position_embeddings  # GPT-2's n_positions too, by its config's alias
    text = args.text.read_text(encoding="utf-8") if args.text else DEFAULT_TEXT
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) < 2:
        sys.exit(f"the text has {len(ids)} tokens; a loss needs two or more")
    if max(ids) >= model.config.vocab_size:
        sys.exit(f"{args.folder}: the tokenizer gives id {max(ids)}, the vocabulary ends at {model.config.vocab_size - 1}")

    total, count = loss_of(model, ids, context, args.max_rows)
    if not math.isfinite(total):
        sys.exit(f"{args.folder}: the loss is {total}")
    prompt = ids[: min(8, context)]
    sample = greedy(model, prompt, context)[len(prompt) :]
    result = {
        "folder": str(args.folder),
        "model_type": model.config.model_type,
        "parameters": sum(p.numel() for p in model.parameters()),  # a tied head counts once
        "context": context,
        "text_tokens": len(ids),
        "text_comes_back": tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text,
        "loss": total / count,
        "loss_tokens": count,
        "prompt": tokenizer.decode(prompt),
        "greedy_ids": sample,
        "greedy_text": tokenizer.decode(sample),
    }
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
