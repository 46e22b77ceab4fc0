#!/usr/bin/env python3
"""The PyTorch side of bench/gpu_step: whole training steps on one GPU: forward, backward, clipping, AdamW with fp32
weights behind bf16 ones.

usage: torch_gpu_step.py MODEL B T [--compile] [--mode MODE] [--steps N] [--accum N]

Prints one line "RESULT ... tok/s=... peak=... first=..." of the median step. Random tokens, nothing dropped.
"""
import argparse
import time
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Shape(NamedTuple):
    layers: int
    width: int
    heads: int
    ffn: int
    vocab: int
    kind: str


SHAPES = {
    "gpt2": Shape(12, 768, 12, 3072, 50304, "gpt2"),
    "gpt2-xl": Shape(48, 1600, 25, 6400, 50304, "gpt2"),
    "llama2-7b": Shape(32, 4096, 32, 11008, 32000, "llama"),
    "bert-large": Shape(24, 1024, 16, 4096, 30528, "bert"),  # an encoder with a tied head, every token scored
}


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


def make_norm(shape):
    return RMSNorm(shape.width) if shape.kind == "llama" else nn.LayerNorm(shape.width)


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        bias = shape.kind != "llama"
        self.norm1, self.norm2 = make_norm(shape), make_norm(shape)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=bias)
        self.out = nn.Linear(shape.width, shape.width, bias=bias)
        self.up = nn.Linear(shape.width, (2 if shape.kind == "llama" else 1) * shape.ffn, bias=bias)
        self.down = nn.Linear(shape.ffn, shape.width, bias=bias)

    def attention(self, x, cos, sin):
        batch, seq_len, width = x.shape
        heads = self.shape.heads
        q, k, v = self.qkv(x).view(batch, seq_len, 3, heads, width // heads).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if self.shape.kind == "llama":
            q, k = turn(q, cos, sin), turn(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.shape.kind != "bert")
        return self.out(y.transpose(1, 2).reshape(batch, seq_len, width))

    def mlp(self, x):
        if self.shape.kind == "llama":
            gate, up = self.up(x).chunk(2, -1)
            return self.down(F.silu(gate) * up)
        return self.down(F.gelu(self.up(x), approximate="tanh"))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, shape, seq_len):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.width)
        self.positions = None if shape.kind == "llama" else nn.Embedding(seq_len, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = make_norm(shape)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)
        if shape.kind != "llama":
            self.head.weight = self.embedding.weight
        head_dim = shape.width // shape.heads
        rates = 1.0 / (10000 ** (torch.arange(0, head_dim, 2).float() / head_dim))
        angles = torch.outer(torch.arange(seq_len).float(), rates)
        self.register_buffer("cos", angles.cos(), False)
        self.register_buffer("sin", angles.sin(), False)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x)).view(-1, self.head.weight.shape[0]).float()
        return F.cross_entropy(logits, targets.view(-1))


def make_model(shape, seq_len):
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Model(shape, seq_len)
        torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.02)
    return model


class Optimizer:
    """AdamW on fp32 copies of the weights, 24 parameters at a time: fp32 gradients of all would not fit beside 7B."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.wide = [p.detach().float().clone().requires_grad_() for p in parameters]
        self.chunks = [range(i, min(i + 24, len(parameters))) for i in range(0, len(parameters), 24)]
        self.updates = [torch.optim.AdamW([self.wide[i] for i in chunk], lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                          fused=True) for chunk in self.chunks]

    def step(self):
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters])
        factor = torch.clamp(1.0 / (norm + 1e-6), max=1.0)
        for chunk, update in zip(self.chunks, self.updates):
            for i in chunk:
                self.wide[i].grad = self.parameters[i].grad.float().mul_(factor)
            update.step()
            torch._foreach_copy_([self.parameters[i].data for i in chunk], [self.wide[i].data for i in chunk])
            for i in chunk:
                self.wide[i].grad = self.parameters[i].grad = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("batch", type=int, metavar="B")
    parser.add_argument("seq_len", type=int, metavar="T")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mode", default="default", help="torch.compile's")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--accum", type=int, default=1)
    arguments = parser.parse_args()
    shape = SHAPES[arguments.model]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = make_model(shape, arguments.seq_len)
    optimizer = Optimizer(list(model.parameters()))
    run = torch.compile(model, mode=arguments.mode) if arguments.compile else model
    ids = torch.randint(0, shape.vocab, (arguments.batch, arguments.seq_len + 1), device="cuda")

    def step():
        for _ in range(arguments.accum):
            loss = run(ids[:, :-1].contiguous(), ids[:, 1:].contiguous()) / arguments.accum
            loss.backward()
        optimizer.step()
        return loss

    start = time.time()
    first_loss = step().item()
    torch.cuda.synchronize()
    first = time.time() - start
    step()
    step()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(arguments.steps):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        loss = step()
        end.record()
        torch.cuda.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3)
    median = sorted(seconds)[len(seconds) // 2]
    tokens = arguments.batch * arguments.seq_len * arguments.accum
    print(f"RESULT {arguments.model} {arguments.batch} x {arguments.seq_len} x {arguments.accum} "
          f"compile={arguments.compile}/{arguments.mode} step={median * 1e3:.1f}ms tok/s={tokens / median:.0f} "
          f"peak={torch.cuda.max_memory_allocated() / 2**30:.1f}GiB first={first:.1f}s "
          f"loss {first_loss * arguments.accum:.3f}->{loss.item() * arguments.accum:.3f}", flush=True)


main()
