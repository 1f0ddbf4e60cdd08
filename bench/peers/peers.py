"""Measures PyTorch's settings on one model, and writes a JSON object.

Every setting first runs one step from the same weights, buffers and seed as the plain run, and its gradients are
compared; where they differ no time is taken. Then it takes turns with the plain run, and its ratio is the median of the
ratios of steps that ran side by side: a slow moment of the machine slows both.
"""

import argparse
import functools
import gc
import json
import os
import statistics
import sys
import time

import torch

from machine import OthersWatch
from progress import Progress
from settings import make_forward
from work import WORKS

STEP_SEED = 7  # every step draws the same dropout masks, as in `retrace bench`
# Compiled code adds up in another order, so its gradients may be off by as much as this, or by twice what the plain run's
# are if its input changes in the last bit: a fresh ResNet turns that into percents.
CLOSE = 1e-3


class Measurer:
    def __init__(self, work):
        self.work = work
        self.buffers = [(b, b.clone()) for b in work.chain.buffers()]
        self.plain = make_forward("none", work)
        self.reference = self.snapshot(self.plain)

    def step(self, forward, change_input=lambda x: x):
        """One step: its seconds, its peak above what was live before, its loss and its input."""
        for parameter in self.work.parameters:
            parameter.grad = None
        torch.manual_seed(STEP_SEED)
        gc.collect()
        base = torch.ops.byte_counter.live()
        torch.ops.byte_counter.reset_peak()
        begin = time.perf_counter()
        x = change_input(self.work.make_input())
        y = self.work.head(forward(x))
        loss = self.work.loss(y)
        loss.backward()
        seconds = time.perf_counter() - begin
        return seconds, torch.ops.byte_counter.peak() - base, loss.detach(), x

    def snapshot(self, forward, **options):
        """Loss, gradients and buffers after one step from the initial state."""
        for buffer, initial in self.buffers:
            buffer.copy_(initial)
        _, _, loss, x = self.step(forward, **options)
        gradients = [p.grad.clone() for p in self.work.parameters]
        if x.grad is not None:
            gradients.append(x.grad.clone())
        return {"loss": loss, "gradients": gradients, "buffers": [b.clone() for b, _ in self.buffers]}

    def compare(self, forward, is_compiled):
        seen = self.snapshot(forward)
        row = {
            "gradients": "identical",
            "buffers_identical": all(map(same_bits, self.reference["buffers"], seen["buffers"])),
        }
        pairs = list(zip(self.reference["gradients"], seen["gradients"]))
        if all(same_bits(a, b) for a, b in pairs) and same_bits(self.reference["loss"], seen["loss"]):
            return row
        row["gradient_error"] = relative_error(joined(self.reference["gradients"]), joined(seen["gradients"]))
        row["loss_error"] = relative_error(self.reference["loss"], seen["loss"])
        row["gradients"] = "differ"
        if is_compiled and row["gradient_error"] <= self.rounding():
            row["gradients"] = "close"
        elif is_compiled and self.has_dropout() and row["loss_error"] <= 0.01:
            # Compiled code draws other dropout masks from the same seed, so only the loss can be compared.
            row["gradients"] = "not comparable"
        return row

    @functools.lru_cache
    def rounding(self):
        """How far off gradients can be through rounding alone, relative to their norm."""
        seen = self.snapshot(self.plain, change_input=next_after)
        return max(CLOSE, 2 * relative_error(joined(self.reference["gradients"]), joined(seen["gradients"])))

    def has_dropout(self):
        return any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in self.work.chain.modules())

    def time(self, forward, rounds, progress):
        self.step(forward)
        others = OthersWatch()
        plain, own = [], []
        for i in range(rounds):
            turns = [(self.plain, plain), (forward, own)]
            for run, into in turns if i % 2 == 0 else reversed(turns):
                into.append(self.step(run)[:2])
            progress.advance()
        return {
            "step_peak_bytes": max(peak for _, peak in own),
            "seconds_median": statistics.median(s for s, _ in own),
            "plain_seconds_median": statistics.median(s for s, _ in plain),
            "plain_step_peak_bytes": max(peak for _, peak in plain),
            "ratio": statistics.median(a[0] / b[0] for a, b in zip(own, plain)),
            "others_cores": others.cores(time.process_time()),
        }


def same_bits(a, b):
    if a.dtype == torch.float32:
        return torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))
    return torch.equal(a, b)


def next_after(x):
    changed = torch.nextafter(x.detach(), torch.full_like(x, float("inf")))
    return changed.requires_grad_(x.requires_grad)


def joined(tensors):
    return torch.cat([t.flatten() for t in tensors])


def relative_error(a, b):
    return ((a - b).norm() / a.norm().clamp_min(1e-30)).item()


def measure(measurer, setting, rounds, progress):
    row = {"setting": setting, "gradients": None, "step_peak_bytes": None, "ratio": None, "seconds_median": None}
    try:
        forward = make_forward(setting, measurer.work)
        row.update(measurer.compare(forward, is_compiled=setting.startswith("compile")))
        if row["gradients"] != "differ":
            row.update(measurer.time(forward, rounds, progress))
    except Exception as error:  # of PyTorch, about this setting only: the others can still be measured
        row["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=WORKS)
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--counter", required=True, help="libbyte_counter.so")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", required=True, help="where the JSON goes")
    args = parser.parse_args()

    torch.ops.load_library(os.path.abspath(args.counter))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    progress = Progress(len(args.settings) * args.rounds)
    measurer = Measurer(WORKS[args.model]())
    rows = []
    for setting in args.settings:
        progress.show(f"{args.model}: PyTorch {torch.__version__}, {setting}")
        rows.append(measure(measurer, setting, args.rounds, progress))
        progress.finish(len(rows) * args.rounds)
    progress.close()
    with open(args.output, "w") as file:
        json.dump({"model": args.model, "rounds": args.rounds, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
