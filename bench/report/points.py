"""From what bench/measure wrote to one list of points, whatever system they come from."""

import dataclasses
from typing import Optional

MIB = 2**20
# The two counters and the two programs are not the same code; the work is. Above this difference it would not be.
SAME_WORK = 0.005
# Cores' worth of work of others from which on times are not to be relied on.
BUSY_CORES = 0.15


@dataclasses.dataclass
class Point:
    model: str
    system: str  # one line of the plot
    torch: str
    setting: str
    is_retrace: bool
    is_plain: bool
    step_peak_mib: Optional[float]
    ratio: Optional[float]
    seconds: Optional[float]
    gradients: str  # identical, close, not comparable; anything else has no time
    buffers_identical: bool = True
    error: Optional[str] = None
    budget_mib: Optional[float] = None
    gap: Optional[float] = None  # what the plan says it can be from the best possible, of the step's time
    is_within_budget: Optional[bool] = None


def mib(byte_count):
    return None if byte_count is None else byte_count / MIB


def peer_system(setting, torch):
    kind = "compile" if setting.startswith("compile") else "selective" if setting == "sac" else "checkpoint"
    return f"PyTorch {torch} {kind}"


def peer_point(model, torch, row):
    return Point(
        model=model,
        system=peer_system(row["setting"], torch),
        torch=torch,
        setting=row["setting"],
        is_retrace=False,
        is_plain=row["setting"] == "none",
        step_peak_mib=mib(row["step_peak_bytes"]),
        ratio=row["ratio"],
        seconds=row["seconds_median"],
        gradients=row["gradients"] or "failed",
        buffers_identical=row.get("buffers_identical", True),
        error=row.get("error"),
    )


def retrace_point(model, torch, row):
    budget = row.get("budget_bytes")
    is_plain = row["policy"] == "plain"
    is_sound = row["gradients_identical"]
    peak = max(row["peak_bytes"], row.get("first_step_peak_bytes", 0))
    return Point(
        model=model,
        system=f"Retrace on LibTorch {torch}",
        torch=torch,
        setting="plain" if is_plain else f"budget {mib(budget):.1f} MiB" if budget else row["policy"],
        is_retrace=True,
        is_plain=is_plain,
        step_peak_mib=mib(row["step_peak_bytes"]) if is_sound else None,
        ratio=row["ratio"],
        seconds=row["seconds_median"],
        gradients="identical" if is_sound else "failed",
        budget_mib=mib(budget),
        gap=row.get("gap"),
        is_within_budget=None if budget is None else peak <= budget,
    )


def points_of(measured):
    """All points of one system's file, in the order they were measured; Retrace's from large budgets to small."""
    points = []
    torch = measured["torch"]
    for peers, retrace in zip(measured["peers"], measured["retrace"]):
        points += [peer_point(peers["model"], torch, row) for row in peers["rows"]]
        ours = [retrace_point(retrace["model"], torch, row) for row in retrace["rows"]]
        points += sorted(ours, key=lambda p: (not p.is_plain, -(p.budget_mib or 0)))
    return points


def check_same_work(points):
    """Plain runs need the same memory on both sides, or the comparison means nothing."""
    for ours in (p for p in points if p.is_retrace and p.is_plain):
        for theirs in points:
            if (theirs.model, theirs.torch) != (ours.model, ours.torch) or theirs.is_retrace or not theirs.is_plain:
                continue
            if theirs.step_peak_mib is None or abs(theirs.step_peak_mib / ours.step_peak_mib - 1) > SAME_WORK:
                raise SystemExit(
                    f"bench/compare: {ours.model} on LibTorch {ours.torch}: the plain step peaks are "
                    f"{ours.step_peak_mib} MiB in C++ and {theirs.step_peak_mib} MiB in Python, so this is not the "
                    "same work. Nothing was written."
                )


def others_cores(measured):
    seen = [row.get("others_cores", 0) for peers in measured["peers"] for row in peers["rows"]]
    return max(seen + [retrace["others_cores"] for retrace in measured["retrace"]])


def frontier(points):
    """Those for which nothing of the same system is both smaller and faster, by memory."""
    best, kept = float("inf"), []
    for point in sorted(points, key=lambda p: (p.step_peak_mib, p.ratio)):
        if point.ratio < best:
            kept.append(point)
            best = point.ratio
    return kept
