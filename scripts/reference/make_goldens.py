#!/usr/bin/env python3
"""Writes tests/golden_torch/: tiny random models with what PyTorch makes of them.

Each folder holds a complete Hugging Face model and golden.safetensors; README.md beside this file says what is in it.
Usage: make_goldens.py [--to FOLDER]
"""

import argparse
import json
import pathlib
import shutil

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

from golden_settings import BETAS, EPS, LEARNING_RATE, MAX_GRAD_NORM, STEPS, WEIGHT_DECAY

ROOT = pathlib.Path(__file__).resolve().parents[2]

ROWS, LENGTH, VOCAB, HIDDEN, LAYERS = 2, 12, 51, 16, 2
IGNORE = -100  # a label that is not trained
PACKED_LENGTHS = [5, 7]

# Shared by the families that descend from Llama. The small rope_theta turns even the slowest pair visibly within 12
# positions, and differs from every family's default, so a reader that loses it can't pass.
LLAMA_LIKE = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": 27,
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500.0,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}

# With head_dim 8 the wavelengths are 6.3, 63, 628 and 6283 tokens: one pair is kept, one blended, two are slowed.
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 96,
}

# Folder -> config.json, in the spelling that most published folders have (rope_theta and rope_scaling at the top).
MODELS = {
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": VOCAB,
        "n_positions": 16,
        "n_embd": HIDDEN,
        "n_layer": LAYERS,
        "n_head": 4,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "llama": {
        **LLAMA_LIKE,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 18,  # transformers wants a multiple of the heads; their outputs together are 24 wide
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    },
    "llama3_rope_tied": {
        **LLAMA_LIKE,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 8,
        "max_position_embeddings": 768,
        "rope_theta": 10000.0,
        "rope_scaling": LLAMA3_ROPE,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
    },
    "qwen2": {
        **LLAMA_LIKE,
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
    },
    "qwen3": {
        **LLAMA_LIKE,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "attention_bias": False,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
    },
    "mistral": {
        **LLAMA_LIKE,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "sliding_window": 5,
        "tie_word_embeddings": False,
    },
}


def sorted_parameters(model):
    """(name, parameter) by name; a tied head shows once, under the embedding's name."""
    return sorted(model.named_parameters())


def build(config_path, seed):
    """The model of a config with weights that hide nothing: no bias is zero, no norm weight is one."""
    config = transformers.AutoConfig.from_pretrained(config_path)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted_parameters(model):
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() >= 2:
                # 1/sqrt(width), so scores and logits have a spread near 1 and the softmax is far from uniform
                p.copy_(noise * config.hidden_size**-0.5)
            elif name.endswith(".bias"):
                p.copy_(0.2 * noise)
            else:
                p.copy_(1 + 0.3 * noise)
    return model.train()


def make_batch(seed):
    """ids_BT and labels_BT, the labels unshifted: equal to the ids, or IGNORE."""
    generator = torch.Generator().manual_seed(seed)
    ids_BT = torch.randint(0, VOCAB, (ROWS, LENGTH), generator=generator)
    labels_BT = ids_BT.clone()
    labels_BT[0, :7] = IGNORE  # a prompt: 5 supervised tokens here against 9 below, so a mean of rows' means shows
    labels_BT[1, [3, 7]] = IGNORE  # holes
    return ids_BT, labels_BT


def token_losses(logits_BTV, labels_BT):
    """Entry t is the loss of predicting labels[t + 1]; 0 where that is IGNORE, and in the last column."""
    losses_BT = torch.zeros(labels_BT.shape)
    losses_BT[:, :-1] = F.cross_entropy(
        logits_BTV[:, :-1].transpose(1, 2), labels_BT[:, 1:], ignore_index=IGNORE, reduction="none"
    )
    return losses_BT


def supervised(labels_BT):
    return int((labels_BT[:, 1:] != IGNORE).sum())


def logits_of(model, ids_BT):
    return model(input_ids=ids_BT, use_cache=False).logits


def forward_and_gradients(model, ids_BT, labels_BT):
    """What one batch gives; the gradient is of loss_sum / supervised_tokens."""
    model.zero_grad()
    logits_BTV = logits_of(model, ids_BT)
    losses_BT = token_losses(logits_BTV, labels_BT)
    count = supervised(labels_BT)
    (losses_BT.sum() / count).backward()
    out = {
        "input_ids": ids_BT.int(),
        "labels": labels_BT.int(),
        "logits": logits_BTV.detach(),
        "token_losses": losses_BT.detach(),
        "loss_sum": losses_BT.detach().sum().reshape(1),
        "supervised_tokens": torch.tensor([count], dtype=torch.int32),
    }
    out |= {f"grad.{name}": p.grad.clone() for name, p in sorted_parameters(model)}
    return out


def packed_row(model, seed):
    """Two documents in one row, computed as two separate sequences: neither may see or predict the other."""
    generator = torch.Generator().manual_seed(seed)
    ids_BT = torch.randint(0, VOCAB, (1, sum(PACKED_LENGTHS)), generator=generator)
    labels_BT = ids_BT.clone()
    starts = [sum(PACKED_LENGTHS[:i]) for i in range(len(PACKED_LENGTHS))]
    labels_BT[0, starts] = IGNORE  # nothing predicts a document's first token
    labels_BT[0, 8] = IGNORE

    model.zero_grad()
    logits, losses = [], []
    for start, length in zip(starts, PACKED_LENGTHS):
        piece = slice(start, start + length)
        logits.append(logits_of(model, ids_BT[:, piece]))
        losses.append(token_losses(logits[-1], labels_BT[:, piece]))
    losses_BT = torch.cat(losses, dim=1)
    count = supervised(labels_BT)
    (losses_BT.sum() / count).backward()
    out = {
        "packed.input_ids": ids_BT.int(),
        "packed.labels": labels_BT.int(),
        "packed.document_lengths": torch.tensor(PACKED_LENGTHS, dtype=torch.int32),
        "packed.logits": torch.cat(logits, dim=1).detach(),
        "packed.token_losses": losses_BT.detach(),
        "packed.loss_sum": losses_BT.detach().sum().reshape(1),
        "packed.supervised_tokens": torch.tensor([count], dtype=torch.int32),
    }
    out |= {f"packed.grad.{name}": p.grad.clone() for name, p in sorted_parameters(model)}
    return out


def train(model, ids_BT, labels_BT):
    """STEPS steps on one batch: loss and gradient norm before each update, and the weights after the last."""
    parameters = [p for _, p in sorted_parameters(model)]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=LEARNING_RATE,
        betas=BETAS,
        eps=EPS,
    )
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = token_losses(logits_of(model, ids_BT), labels_BT).sum() / supervised(labels_BT)
        loss.backward()
        losses.append(loss.detach())
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM))
        optimizer.step()
    out = {"losses": torch.stack(losses), "grad_norms": torch.stack(norms)}
    out |= {f"final.{name}": p.detach() for name, p in sorted_parameters(model)}
    return out


def modern_spelling(config):
    """The same config as transformers 5 saves it: what turns positions is gathered in rope_parameters."""
    config = dict(config)
    rope = {"rope_theta": config.pop("rope_theta"), "rope_type": "default"}
    config["rope_parameters"] = rope | config.pop("rope_scaling", {})
    return config


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def save(path, tensors):
    save_file({n: t.contiguous() for n, t in sorted(tensors.items())}, path, metadata={"format": "pt"})


def make_folder(folder, config, seed):
    folder.mkdir(parents=True)
    write_json(folder / "config.json", config)
    if "rope_theta" in config:
        write_json(folder / "config.rope_parameters.json", modern_spelling(config))
    model = build(folder / "config.json", seed)
    save(folder / "model.safetensors", {n: p.detach() for n, p in sorted_parameters(model)})

    ids_BT, labels_BT = make_batch(seed + 1)
    golden = forward_and_gradients(model, ids_BT, labels_BT)
    if folder.name == "llama":
        golden |= packed_row(model, seed + 2)
    golden |= train(model, ids_BT, labels_BT)
    save(folder / "golden.safetensors", golden)
    check_that_it_loads(folder, golden)


def check_that_it_loads(folder, golden):
    """Both spellings of the config and the saved weights give the logits that were saved."""
    spellings = [folder / "config.json", folder / "config.rope_parameters.json"]
    for path in [p for p in spellings if p.exists()]:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, config=transformers.AutoConfig.from_pretrained(path), attn_implementation="eager"
        )
        with torch.no_grad():
            logits_BTV = logits_of(model.train(), golden["input_ids"].long())
        if not torch.equal(logits_BTV, golden["logits"]):
            raise SystemExit(f"{path}: the saved model gives other logits than the one that was saved")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "tests" / "golden_torch")
    to = parser.parse_args().to

    # One thread and no choice of kernels: the same sums in the same order, so the same bytes on the same machine.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for i, (name, config) in enumerate(MODELS.items()):
        shutil.rmtree(to / name, ignore_errors=True)
        make_folder(to / name, config, seed=1000 * (i + 1))
        size = sum(f.stat().st_size for f in (to / name).iterdir())
        print(f"{to / name}: {size} bytes")


if __name__ == "__main__":
    main()
