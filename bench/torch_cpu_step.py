#!/usr/bin/python3
"""The PyTorch side of bench/cpu_step: whole training steps of a GPT-2-like model, fp32, on random tokens.

usage: torch_cpu_step.py a|b [steps]     prints one JSON line
"""
import json
import math
import resource
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPES = {
    "a": dict(layers=4, width=256, heads=8, seq_len=256, batch=8, vocab=8192),
    "b": dict(layers=12, width=768, heads=12, seq_len=512, batch=2, vocab=50304),
}
WARMUP_STEPS = 2


class Block(nn.Module):
    def __init__(self, width, heads, seq_len):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        mask = torch.tril(torch.ones(seq_len, seq_len)).view(1, 1, seq_len, seq_len) == 0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (
            z.view(b, t, self.heads, width // self.heads).transpose(1, 2)
            for z in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(self.mask[:, :, :t, :t], float("-inf")).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).contiguous().view(b, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, seq_len, batch, vocab):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(seq_len, width)
        self.blocks = nn.ModuleList(Block(width, heads, seq_len) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    shape = SHAPES[sys.argv[1]]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = Gpt(**shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    size = (shape["batch"], shape["seq_len"])
    ids, targets = (torch.randint(0, shape["vocab"], size) for _ in range(2))
    seconds, losses = [], []
    for step in range(WARMUP_STEPS + steps):
        start = time.perf_counter()
        loss = model(ids, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step >= WARMUP_STEPS:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    tokens = size[0] * size[1]
    print(json.dumps({
        "program": "torch " + torch.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens_per_step": tokens,
        "step_s": round(median, 4),
        "min_s": round(min(seconds), 4),
        "tokens_per_s": round(tokens / median, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
        "loss0": losses[0],
        "lossN": losses[-1],
    }))


main()
