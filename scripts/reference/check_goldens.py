#!/usr/bin/env python3
"""Checks tests/golden_torch/ against formulas written here once more, in numpy and float64, without torch.

Logits and token losses are compared outright; every gradient by a central difference along one random direction per
tensor; the second step's loss after one AdamW step. The formulas are the papers', so a golden that transformers made
with a wrong setting (a lost window, another rope) shows here.
Usage: check_goldens.py [FOLDER]
"""

import json
import math
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file

from golden_settings import BETAS, EPS, LEARNING_RATE, MAX_GRAD_NORM, WEIGHT_DECAY

ROOT = pathlib.Path(__file__).resolve().parents[2]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def heads_of(x_TE, heads):
    return x_TE.reshape(len(x_TE), heads, -1).swapaxes(0, 1)


def attention(q_HTD, k_KTD, v_KTD, window=None):
    """Causal softmax attention of one sequence; with a window, a token sees itself and window - 1 before it."""
    group = len(q_HTD) // len(k_KTD)
    k_HTD, v_HTD = k_KTD.repeat(group, 0), v_KTD.repeat(group, 0)
    scores = q_HTD @ k_HTD.swapaxes(1, 2) / math.sqrt(q_HTD.shape[-1])
    t = np.arange(q_HTD.shape[1])
    back = t[:, None] - t[None, :]
    hidden = (back < 0) | (back >= (window or len(t)))
    out = softmax(np.where(hidden, -np.inf, scores)) @ v_HTD
    return out.swapaxes(0, 1).reshape(len(t), -1)


def gpt2(w, c, ids_T):
    """Radford et al. 2019; Conv1D weights are stored [in, out]."""
    w = {name.removeprefix("transformer."): v for name, v in w.items()}
    eps = c["layer_norm_epsilon"]
    x = w["wte.weight"][ids_T] + w["wpe.weight"][: len(ids_T)]
    for i in range(c["n_layer"]):
        b = {n.removeprefix(f"h.{i}."): v for n, v in w.items() if n.startswith(f"h.{i}.")}
        h = layer_norm(x, b["ln_1.weight"], b["ln_1.bias"], eps)
        qkv = np.split(h @ b["attn.c_attn.weight"] + b["attn.c_attn.bias"], 3, axis=-1)
        h = attention(*(heads_of(part, c["n_head"]) for part in qkv))
        x = x + h @ b["attn.c_proj.weight"] + b["attn.c_proj.bias"]
        h = layer_norm(x, b["ln_2.weight"], b["ln_2.bias"], eps)
        h = h @ b["mlp.c_fc.weight"] + b["mlp.c_fc.bias"]
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + h @ b["mlp.c_proj.weight"] + b["mlp.c_proj.bias"]
    return layer_norm(x, w["ln_f.weight"], w["ln_f.bias"], eps) @ w["wte.weight"].T


def rope_frequencies(c, head_dim):
    """Su et al. 2021, eq. 15; with llama3 scaling, long wavelengths are slowed and those between are blended."""
    frequencies = []
    s = c.get("rope_scaling")
    for i in range(head_dim // 2):
        f = c["rope_theta"] ** (-2 * i / head_dim)
        if s is not None:
            turns = s["original_max_position_embeddings"] * f / (2 * math.pi)
            share = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
            share = min(1.0, max(0.0, share))
            f = share * f + (1 - share) * f / s["factor"]
        frequencies.append(f)
    return np.array(frequencies)


def rope(x_HTD, frequencies):
    """Halves layout: element i turns together with element i + D/2."""
    angle = np.arange(x_HTD.shape[1])[:, None] * frequencies
    a, b = np.split(x_HTD, 2, axis=-1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)


def llama_like(w, c, ids_T):
    """Llama, Mistral (window), Qwen2 (biases on q, k, v), Qwen3 (norms of each head's q and k before the turn)."""
    w = {name.removeprefix("model."): v for name, v in w.items()}
    eps = c["rms_norm_eps"]
    x = w["embed_tokens.weight"][ids_T]
    for i in range(c["num_hidden_layers"]):
        b = {n.removeprefix(f"layers.{i}."): v for n, v in w.items() if n.startswith(f"layers.{i}.")}
        x = x + llama_attention(b, c, rms_norm(x, b["input_layernorm.weight"], eps))
        h = rms_norm(x, b["post_attention_layernorm.weight"], eps)
        gate = h @ b["mlp.gate_proj.weight"].T
        up = h @ b["mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ b["mlp.down_proj.weight"].T
    return rms_norm(x, w["norm.weight"], eps) @ w.get("lm_head.weight", w["embed_tokens.weight"]).T


def llama_attention(b, c, h_TD):
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]

    def project(part):
        return h_TD @ b[f"self_attn.{part}_proj.weight"].T + b.get(f"self_attn.{part}_proj.bias", 0.0)

    q, k, v = heads_of(project("q"), heads), heads_of(project("k"), kv_heads), heads_of(project("v"), kv_heads)
    if "self_attn.q_norm.weight" in b:
        q = rms_norm(q, b["self_attn.q_norm.weight"], c["rms_norm_eps"])
        k = rms_norm(k, b["self_attn.k_norm.weight"], c["rms_norm_eps"])
    frequencies = rope_frequencies(c, q.shape[-1])
    return attention(rope(q, frequencies), rope(k, frequencies), v, c.get("sliding_window")) @ (
        b["self_attn.o_proj.weight"].T
    )


def logits_of(w, c, ids_T):
    return (gpt2 if c["model_type"] == "gpt2" else llama_like)(w, c, ids_T)


def token_losses(logits_TV, labels_T):
    p_TV = softmax(logits_TV)
    losses_T = np.zeros(len(labels_T))
    for t, label in enumerate(labels_T[1:]):
        losses_T[t] = 0 if label == -100 else -math.log(p_TV[t, label])
    return losses_T


class Batch:
    """Sequences and labels, and the mean loss of their supervised tokens as a function of the weights."""

    def __init__(self, config, golden, prefix=""):
        self.config = config
        bounds = np.cumsum(golden[prefix + "document_lengths"])[:-1] if prefix else []
        self.ids, self.labels = (
            [piece for row in golden[prefix + name] for piece in np.split(row, bounds)]
            for name in ("input_ids", "labels")
        )
        self.supervised = int(golden[prefix + "supervised_tokens"][0])

    def run(self, w):
        logits = [logits_of(w, self.config, ids) for ids in self.ids]
        losses = [token_losses(x, labels) for x, labels in zip(logits, self.labels)]
        return np.concatenate(logits), np.concatenate(losses)

    def loss(self, w):
        return self.run(w)[1].sum() / self.supervised


class Report:
    """Prints one line per check and counts the ones over their bound."""

    def __init__(self):
        self.failed = 0

    def compare(self, what, got, want, bound):
        worst = float(np.max(np.abs(np.asarray(got) - np.asarray(want))))
        bad = not worst <= bound
        self.failed += bad
        print(f"{'FAIL' if bad else 'ok  '} {what}: differs by {worst:.1e}, bound {bound:.0e}")


def check_gradients(report, what, batch, w, gradients):
    """Along a random direction u of each tensor, (L(w + h u) - L(w - h u)) / 2h is <gradient, u>."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for name, gradient in gradients.items():
        u = rng.standard_normal(gradient.shape)
        h = 1e-5
        slope = (batch.loss(w | {name: w[name] + h * u}) - batch.loss(w | {name: w[name] - h * u})) / (2 * h)
        worst = max(worst, abs(slope - float((gradient * u).sum())) / max(1.0, abs(slope)))
    report.compare(f"{what} of {len(gradients)} tensors", worst, 0, 1e-5)


def after_one_step(w, gradients, norm):
    """AdamW's first step (Loshchilov & Hutter 2019, algorithm 2), where both bias corrections cancel."""
    out = {}
    for name, p in w.items():
        g = gradients[name] * min(1.0, MAX_GRAD_NORM / norm)
        decay = WEIGHT_DECAY if p.ndim >= 2 else 0.0
        m, v = (1 - BETAS[0]) * g / (1 - BETAS[0]), (1 - BETAS[1]) * g**2 / (1 - BETAS[1])
        out[name] = p * (1 - LEARNING_RATE * decay) - LEARNING_RATE * m / (np.sqrt(v) + EPS)
    return out


def starting_with(prefix, golden):
    return {n.removeprefix(prefix): v for n, v in golden.items() if n.startswith(prefix)}


def check_folder(report, folder):
    config = json.loads((folder / "config.json").read_text())
    w = {n: v.astype(np.float64) for n, v in load_file(folder / "model.safetensors").items()}
    golden = {
        n: v if v.dtype == np.int32 else v.astype(np.float64)
        for n, v in load_file(folder / "golden.safetensors").items()
    }
    for prefix in ["", "packed."] if "packed.labels" in golden else [""]:
        batch = Batch(config, golden, prefix)
        logits, losses = batch.run(w)
        name = f"{folder.name} {prefix}"
        report.compare(f"{name}logits", logits, golden[prefix + "logits"].reshape(logits.shape), 1e-5)
        report.compare(f"{name}token_losses", losses, golden[prefix + "token_losses"].ravel(), 1e-5)
        report.compare(f"{name}loss_sum", losses.sum(), golden[prefix + "loss_sum"], 1e-4)
        report.compare(f"{name}supervised_tokens", batch.supervised, np.count_nonzero(losses), 0)
        gradients = starting_with(f"{prefix}grad.", golden)
        report.compare(f"{name}gradients missing", len(w.keys() ^ gradients.keys()), 0, 0)
        check_gradients(report, f"{name}gradients", batch, w, gradients)

    batch, gradients = Batch(config, golden), starting_with("grad.", golden)
    norm = math.sqrt(sum((g**2).sum() for g in gradients.values()))
    report.compare(f"{folder.name} grad_norms[0]", norm, golden["grad_norms"][0], 1e-5)
    report.compare(f"{folder.name} losses[0]", batch.loss(w), golden["losses"][0], 1e-5)
    report.compare(f"{folder.name} losses[1]", batch.loss(after_one_step(w, gradients, norm)), golden["losses"][1], 1e-5)


def main():
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden_torch"
    report = Report()
    for folder in sorted(p.parent for p in to.glob("*/golden.safetensors")):
        check_folder(report, folder)
    print(f"{report.failed} checks failed")
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
