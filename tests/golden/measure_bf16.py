#!/usr/bin/env python3
"""How far PyTorch strays from the golden references under the policy bf16.

The bounds of `golden_check precision=bf16` come from here, not from our own errors (docs/numerics.md).
The models are written out by hand on torch autograd; the script first proves them in float64 and float32
against the bounds of fp32, and exits with 1 if they fail. It needs only torch (Debian: python3-torch):

    python3 tests/golden/measure_bf16.py [MODEL ...]

Variants of the policy. All keep float32 master weights and moments, and weights that are their rounding:

    op ends   every op computes in float32 and rounds what it stores, activations and their gradients;
              gradients of weights stay in float32
    probs     the same, and attention stores its probabilities
    logits    the same as `op ends`, and the loss starts from stored logits
    native    torch's own bfloat16 tensors and ops, gradients of weights in bfloat16 as well
    fused     the same as `op ends`, and attention's gradient starts from the stored output, as
              FlashAttention's and ours do; shown for comparison, it sets no bound

Each is run from the weights as they are and from `SEEDS` perturbed copies (by 1e-7, relative): two runs
that differ by less than float32 resolves separate over 20 steps, and the spread belongs to the figure.
"""

import json
import math
import struct
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

MODELS = ["llama", "llama-gqa", "qwen2", "gpt2", "gpt2-erf"]
# As golden_check computes them; `keys` are key biases by its rule for them (see key_bias). The last two are
# not in it: key biases of models with rotary positions, as tensors like any other.
QUANTITIES = ["logits", "gradient", "keys", "first loss", "later loss", "grad norm", "final"]
QUANTITIES += ["key grad", "key final"]
FP32_BOUNDS = [5e-6, 1e-5, 1e-5, 2e-6, 5e-4, 1e-3, 1e-3, 1e-5, 1e-3]
SEEDS = 4
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32}


def read_safetensors(path):
    data = bytearray(path.read_bytes())
    (header_size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + header_size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        count = math.prod(entry["shape"])
        offset = 8 + header_size + entry["data_offsets"][0]
        flat = torch.frombuffer(data, dtype=DTYPES[entry["dtype"]], count=count, offset=offset)
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors


def rounded(x):
    return x.to(torch.bfloat16).to(x.dtype)


class RoundBoth(torch.autograd.Function):
    """The end of an op: what it stores is rounded, and so is the sum of the gradients that come back."""

    @staticmethod
    def forward(_, x):
        return rounded(x)

    @staticmethod
    def backward(_, grad):
        return rounded(grad)


class RoundGradient(torch.autograd.Function):
    """The start of an op: the gradient that it hands back is stored."""

    @staticmethod
    def forward(_, x):
        return x.view_as(x)

    @staticmethod
    def backward(_, grad):
        return rounded(grad)


class RoundValue(torch.autograd.Function):
    """A weight from its master; the gradient keeps its precision."""

    @staticmethod
    def forward(_, x):
        return rounded(x)

    @staticmethod
    def backward(_, grad):
        return grad


class Exact:
    """No rounding but that of `dtype`."""

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype

    def weight(self, master):
        return master

    def start(self, x):  # of an op, on each activation that it reads
        return x

    def end(self, x):  # of an op, on what it stores
        return x

    def wide(self, x):  # what norms, softmax, rotary positions and the loss compute in
        return x

    fused_attention = False

    def probs(self, p):
        return p

    def logits(self, x):
        return x


class OpEnds(Exact):
    """Values are held in float32 and rounded to bfloat16 where an op of ours reads or writes them."""

    def __init__(self, name, stores_probs=False, stores_logits=False, fused_attention=False):
        super().__init__(name, torch.float32)
        self.stores_probs, self.stores_logits = stores_probs, stores_logits
        self.fused_attention = fused_attention

    def weight(self, master):
        return RoundValue.apply(master)

    def start(self, x):
        return RoundGradient.apply(x)

    def end(self, x):
        return RoundBoth.apply(x)

    def probs(self, p):
        return RoundBoth.apply(p) if self.stores_probs else p

    def logits(self, x):
        return RoundBoth.apply(x) if self.stores_logits else x


class Native(Exact):
    """torch.bfloat16 throughout; what torch's ops keep inside is theirs."""

    def __init__(self, name):
        super().__init__(name, torch.float32)

    def weight(self, master):
        return master.to(torch.bfloat16)

    def end(self, x):
        return x.to(torch.bfloat16)

    def wide(self, x):
        return x.float()

    def probs(self, p):
        return p.to(torch.bfloat16)


def rms_norm(policy, x, weight, eps):
    x, weight = policy.wide(policy.start(x)), policy.wide(weight)
    return policy.end(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight)


def layer_norm(policy, x, weight, bias, eps):
    x = policy.wide(policy.start(x))
    return policy.end(F.layer_norm(x, x.shape[-1:], policy.wide(weight), policy.wide(bias), eps))


def linear(policy, x, weight, bias=None):
    return policy.end(F.linear(policy.start(x), weight, bias))


def add(policy, x, y):
    return policy.end(policy.start(x) + policy.start(y))


def rotate(policy, x_bhtk, theta):
    """Rotary positions on the halves of each head, as transformers does for Llama."""
    half = x_bhtk.shape[-1] // 2
    exponents = torch.arange(half, dtype=torch.float64) / half
    angles_th = torch.arange(x_bhtk.shape[2], dtype=torch.float64)[:, None] * theta**-exponents
    cos, sin = angles_th.cos().to(policy.dtype), angles_th.sin().to(policy.dtype)
    x = policy.wide(policy.start(x_bhtk))
    first, second = x[..., :half], x[..., half:]
    return policy.end(torch.cat([first * cos - second * sin, second * cos + first * sin], -1))


def attention_probs(scores):
    seq_len = scores.shape[-1]
    hidden = torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -math.inf), -1)


class FusedAttention(torch.autograd.Function):
    """softmax(q k^T / sqrt(K)) v, whose gradient takes rowsum(dP * P) as rowsum(dO * O) of the stored O."""

    @staticmethod
    def forward(context, q, k, v):
        probs = attention_probs(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
        out = rounded(probs @ v)
        context.save_for_backward(q, k, v, probs, out)
        return out

    @staticmethod
    def backward(context, dout):
        q, k, v, probs, out = context.saved_tensors
        dscores = probs * (dout @ v.transpose(-1, -2) - (dout * out).sum(-1, keepdim=True))
        dscores = dscores / math.sqrt(q.shape[-1])
        return dscores @ k, dscores.transpose(-1, -2) @ q, probs.transpose(-1, -2) @ dout


def attention(policy, q_bhtk, k_bhtk, v_bhtk):
    group = q_bhtk.shape[1] // k_bhtk.shape[1]
    # Before the heads are repeated, so that the gradients of a group are summed before they are stored.
    q, k, v = policy.start(q_bhtk), policy.start(k_bhtk), policy.start(v_bhtk)
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if policy.fused_attention:
        out = FusedAttention.apply(q, k, v)
    else:
        scores = policy.wide(q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        out = policy.probs(attention_probs(scores)) @ v
    return policy.end(out.transpose(1, 2).flatten(2))


def heads_of(x_btd, num_heads):
    return x_btd.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def llama_hidden(policy, config, w, ids):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    eps, theta = config["rms_norm_eps"], config["rope_parameters"]["rope_theta"]
    biased = config["model_type"] == "qwen2"
    x = policy.end(F.embedding(ids, w["model.embed_tokens.weight"]))
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        # One product for q, k and v and one for gate and up, so that their input has one gradient to store.
        names = [at + f"self_attn.{part}_proj" for part in "qkv"]
        weight = torch.cat([w[name + ".weight"] for name in names])
        bias = torch.cat([w[name + ".bias"] for name in names]) if biased else None
        h = rms_norm(policy, x, w[at + "input_layernorm.weight"], eps)
        q, k, v = linear(policy, h, weight, bias).split([w[name + ".weight"].shape[0] for name in names], -1)
        q = rotate(policy, heads_of(q, heads), theta)
        k = rotate(policy, heads_of(k, kv_heads), theta)
        h = attention(policy, q, k, heads_of(v, kv_heads))
        x = add(policy, linear(policy, h, w[at + "self_attn.o_proj.weight"]), x)
        h = rms_norm(policy, x, w[at + "post_attention_layernorm.weight"], eps)
        weight = torch.cat([w[at + "mlp.gate_proj.weight"], w[at + "mlp.up_proj.weight"]])
        gate, up = policy.start(linear(policy, h, weight)).chunk(2, -1)
        h = policy.end(F.silu(gate) * up)
        x = add(policy, linear(policy, h, w[at + "mlp.down_proj.weight"]), x)
    return rms_norm(policy, x, w["model.norm.weight"], eps)


def gpt2_hidden(policy, config, w, ids):
    heads, eps = config["n_head"], config["layer_norm_epsilon"]
    approximate = "none" if config["activation_function"] == "gelu" else "tanh"
    positions = w["transformer.wpe.weight"][: ids.shape[1]]
    x = policy.end(F.embedding(ids, w["transformer.wte.weight"]))
    x = policy.end(policy.start(x) + positions)

    def norm(name, y):
        return layer_norm(policy, y, w[name + ".weight"], w[name + ".bias"], eps)

    def conv1d(name, y):
        return linear(policy, y, w[name + ".weight"].t(), w[name + ".bias"])

    for layer in range(config["n_layer"]):
        at = f"transformer.h.{layer}."
        q, k, v = conv1d(at + "attn.c_attn", norm(at + "ln_1", x)).chunk(3, -1)
        h = attention(policy, heads_of(q, heads), heads_of(k, heads), heads_of(v, heads))
        x = add(policy, conv1d(at + "attn.c_proj", h), x)
        h = conv1d(at + "mlp.c_fc", norm(at + "ln_2", x))
        h = policy.end(F.gelu(policy.start(h), approximate=approximate))
        x = add(policy, conv1d(at + "mlp.c_proj", h), x)
    return norm("transformer.ln_f", x)


class Golden:
    """One folder of tests/golden."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.training = json.loads((folder / "training.json").read_text())
        self.weights = read_safetensors(folder / "model.safetensors")
        self.ids = read_safetensors(folder / "batches.safetensors")["input_ids"].long()
        self.reference = read_safetensors(folder / "reference.safetensors")

    def logits(self, policy, w, ids):
        gpt2 = self.config["model_type"] == "gpt2"
        hidden = (gpt2_hidden if gpt2 else llama_hidden)(policy, self.config, w, ids)
        embedding = "transformer.wte.weight" if gpt2 else "model.embed_tokens.weight"
        return F.linear(policy.start(hidden), w.get("lm_head.weight", w[embedding]))

    def key_bias(self, name):
        """The rows of a tensor that are a bias on keys, which golden_check compares by a rule of its own.

        Softmax does not see GPT-2's: their gradient is zero in real arithmetic and noise in any other. With
        rotary positions the bias turns with its key, and what is left of the gradient is small but real."""
        rows = self.weights[name].shape[0]
        if name.endswith("k_proj.bias"):
            return slice(0, rows)
        if name.endswith("attn.c_attn.bias"):
            return slice(rows // 3, 2 * rows // 3)
        return slice(0, 0)


def relative(found, wanted):
    found, wanted = found.detach().double(), wanted.double()
    return ((found - wanted).norm() / wanted.norm()).item()


def worst_tensor(golden, found, prefix):
    """The worst relative error of a tensor; of one with a key bias, the rest counts."""
    worst = 0.0
    for name, value in found.items():
        value, wanted = value.detach().clone(), golden.reference[prefix + name].clone()
        value[golden.key_bias(name)] = 0
        wanted[golden.key_bias(name)] = 0
        if wanted.any():
            worst = max(worst, relative(value, wanted))
    return worst


def worst_key_bias_gradient(golden, grads):
    """Key biases count by the norm of all gradients together."""
    worst = 0.0
    for name, grad in grads.items():
        rows = golden.key_bias(name)
        worst = max(worst, (grad - golden.reference["grad." + name])[rows].double().norm().item())
    return worst / golden.reference["grad_norm"][0].item()


def worst_rotary_key_bias(golden, found, prefix):
    names = [name for name in found if name.endswith("k_proj.bias")]
    return max([relative(found[name], golden.reference[prefix + name]) for name in names], default=0.0)


def perturbed(weights, seed):
    if seed == 0:
        return weights
    generator = torch.Generator().manual_seed(seed)

    def noise(w):
        return 1e-7 * torch.randn(w.shape, generator=generator, dtype=w.dtype)

    return {name: w * (1 + noise(w)) for name, w in weights.items()}


def measure(golden, policy, seed):
    """The figures of QUANTITIES from a run of all steps."""
    start = perturbed(golden.weights, seed)
    masters = {name: w.to(policy.dtype, copy=True).requires_grad_() for name, w in start.items()}
    settings = golden.training
    groups = [
        {"params": [w for w in masters.values() if w.dim() > 1], "weight_decay": settings["weight_decay"]},
        {"params": [w for w in masters.values() if w.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])
    loss_errors, norm_errors = [], []
    for step, ids in enumerate(golden.ids):
        w = {name: policy.weight(master) for name, master in masters.items()}
        logits = golden.logits(policy, w, ids)
        scored = policy.wide(policy.logits(logits))[:, :-1].flatten(0, 1)
        loss = F.cross_entropy(scored, ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        grads = {name: master.grad for name, master in masters.items()}
        wanted_loss = golden.reference["loss"][step].item()
        wanted_norm = golden.reference["grad_norm"][step].item()
        loss_errors.append(abs(loss.item() - wanted_loss) / wanted_loss)
        if step == 0:
            logits_error = relative(policy.end(logits), golden.reference["logits"])
            gradient_errors = [worst_tensor(golden, grads, "grad."), worst_key_bias_gradient(golden, grads)]
            rotary_key_error = worst_rotary_key_bias(golden, grads, "grad.")
        norm = torch.nn.utils.clip_grad_norm_(list(masters.values()), settings["clip_grad_norm"]).item()
        norm_errors.append(abs(norm - wanted_norm) / wanted_norm)
        optimizer.step()
    figures = [logits_error, *gradient_errors, loss_errors[0], max(loss_errors[1:]), max(norm_errors)]
    figures += [worst_tensor(golden, masters, "final."), rotary_key_error]
    return figures + [worst_rotary_key_bias(golden, masters, "final.")]


def print_row(label, figures):
    print(f"{label:<26}" + "".join(f"{x:>11.2e}" for x in figures), flush=True)


def main():
    torch.set_num_threads(1)
    folder = Path(__file__).resolve().parent
    goldens = {name: Golden(folder / name) for name in sys.argv[1:] or MODELS}
    print(f"{'':<26}" + "".join(f"{q:>11}" for q in QUANTITIES))

    print("proof")
    failed = False
    for policy in [Exact("float64", torch.float64), Exact("float32", torch.float32)]:
        for name, golden in goldens.items():
            figures = measure(golden, policy, seed=0)
            print_row(f"  {name}, {policy.name}", figures)
            failed = failed or any(not x <= bound for x, bound in zip(figures, FP32_BOUNDS))
    if failed:
        sys.exit("the models here do not reproduce the references: their bf16 figures would mean nothing")

    policies = [
        OpEnds("op ends"),
        OpEnds("probs", stores_probs=True),
        OpEnds("logits", stores_logits=True),
        Native("native"),
        OpEnds("fused", fused_attention=True),
    ]
    worst = [0.0] * len(QUANTITIES)
    for policy in policies:
        print(f"bf16, {policy.name}: smallest and largest of {1 + SEEDS} runs")
        for name, golden in goldens.items():
            runs = [measure(golden, policy, seed) for seed in range(1 + SEEDS)]
            print_row(f"  {name}, smallest", [min(column) for column in zip(*runs)])
            largest = [max(column) for column in zip(*runs)]
            print_row(f"  {name}, largest", largest)
            if not policy.fused_attention:
                worst = [max(pair) for pair in zip(worst, largest)]
    print_row("bf16, worst", worst)
    print_row("bf16, twice the worst", [2 * x for x in worst])


if __name__ == "__main__":
    main()
