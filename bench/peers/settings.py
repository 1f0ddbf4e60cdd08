"""PyTorch's own ways to run a chain of modules in less memory, by name.

none         the plain run
full         every part checkpointed on its own
everyN       every N parts together in one checkpoint
half         the first half of the parts checkpointed, each on its own (of an odd number, the larger half)
sac          selective checkpointing: every part, matrix products and convolutions kept; PyTorch 2 only
compile:B    torch.compile, activation_memory_budget B from 0 to 1; PyTorch 2 only
"""

import functools

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


def one_by_one(parts, count, x, **options):
    """The first `count` parts checkpointed, each on its own; the rest plain."""
    for i, part in enumerate(parts):
        x = checkpoint(part, x, use_reentrant=False, **options) if i < count else part(x)
    return x


def grouped(parts, size, x):
    for i in range(0, len(parts), size):
        x = checkpoint(nn.Sequential(*parts[i : i + size]), x, use_reentrant=False)
    return x


def selective(work):
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    keep = [getattr(torch.ops.aten, name).default for name in work.keep_ops]
    contexts = functools.partial(create_selective_checkpoint_contexts, keep)
    return lambda x: one_by_one(work.chain, len(work.chain), x, context_fn=contexts)


def compiled(work, budget):
    import torch._functorch.config

    # What was compiled for another budget would be found again: it is the same code.
    torch._dynamo.reset()
    torch._functorch.config.activation_memory_budget = budget
    return torch.compile(work.chain)


def make_forward(setting, work):
    """A callable that runs work.chain under `setting`."""
    parts = list(work.chain)
    if setting == "none":
        return work.chain
    if setting == "full":
        return lambda x: one_by_one(parts, len(parts), x)
    if setting == "half":
        return lambda x: one_by_one(parts, (len(parts) + 1) // 2, x)
    if setting == "sac":
        return selective(work)
    if setting.startswith("every") and setting[5:].isdigit() and int(setting[5:]) > 0:
        return lambda x: grouped(parts, int(setting[5:]), x)
    if setting.startswith("compile:"):
        return compiled(work, float(setting[8:]))
    raise SystemExit(f"peers: no setting is called '{setting}'. They are:\n{__doc__}")
