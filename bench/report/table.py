"""compare.md: the conditions, the plot, and one table per model."""

from points import BUSY_CORES, others_cores

GRADIENTS = {"identical": "identical", "close": "rounded otherwise ¹", "not comparable": "other dropout masks ²"}


def in_that_memory(point, points):
    """What Retrace took in this peer's step peak, on the same LibTorch: of the run that came closest to it, not of the
    fastest, which of many noisy ones would be the luckiest."""
    fits = [
        p
        for p in points
        if p.is_retrace and (p.model, p.torch) == (point.model, point.torch) and p.ratio is not None
        and p.step_peak_mib <= point.step_peak_mib
    ]
    return f"{max(fits, key=lambda p: p.step_peak_mib).ratio:.2f}" if fits else "does not fit"


def cells(point, points):
    peak = "-" if point.step_peak_mib is None else f"{point.step_peak_mib:.1f}"
    ratio = "-" if point.ratio is None else f"{point.ratio:.2f}"
    gradients = GRADIENTS.get(point.gradients, "**differ**" if point.gradients == "differ" else "**failed**")
    if point.is_within_budget is False:
        gradients += ", **above its budget**"
    if point.is_retrace or point.is_plain or point.ratio is None:
        last = ""
    else:
        last = in_that_memory(point, points)
    return [point.system, point.setting, peak, ratio, gradients, last]


def model_table(model, points):
    lines = [
        f"## {model}",
        "",
        "| system | setting | step peak, MiB | time, its plain run = 1 | gradients | Retrace within that memory |",
        "|---|---|--:|--:|---|--:|",
    ]
    for point in (p for p in points if p.model == model):
        lines.append("| " + " | ".join(cells(point, points)) + " |")
    return lines + [""]


def conditions(measured):
    machine = measured["machine"]
    busy = others_cores(measured)
    lines = [
        f"- LibTorch and PyTorch {measured['torch']} on {machine['system']}, Linux {machine['kernel']}; "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; one thread. {measured['date']}"
        + (f", commit {measured['source']}" if measured["source"] else "")
        + f". Medians of {measured['rounds']} rounds. Load average {machine['load_average'][0]} when it began, "
        f"{measured['load_average_after'][0]} when it ended.",
    ]
    if busy > BUSY_CORES:
        lines.append(
            f"  **The machine was busy**: others took up to {busy} cores while this ran. Bytes are exact all the same; "
            "times are not to be relied on."
        )
    else:
        lines.append(f"  The machine was quiet: others took at most {busy} cores.")
    if measured["quick"]:
        lines.append("  **A quick run**: it shows that everything works, and is no measurement.")
    return lines


def footnotes(points):
    lines = []
    if any(p.gradients == "close" for p in points):
        lines.append(
            "¹ Compiled code adds up in another order. Relative difference below 0.001, or below twice what a change of the "
            "input's last bit makes to the plain run's gradients."
        )
    if any(p.gradients == "not comparable" for p in points):
        lines.append("² Compiled code draws other dropout masks from the same seed. The loss agrees within 1 %.")
    twice = sorted({f"{p.setting} ({p.model})" for p in points if p.error is None and not p.buffers_identical})
    if twice:
        lines.append(
            "BatchNorm's running statistics differ from the plain run's after one step of " + ", ".join(twice) + "."
        )
    lines += [f"{p.system}, {p.setting}, {p.model}: {p.error}" for p in points if p.error]
    return [line for text in lines for line in (text, "")]


def markdown(runs, points):
    lines = [
        "# Retrace and its peers on the same work",
        "",
        "Written by `bench/compare`; `bench/README.md` says how to read it.",
        "",
        *(line for measured in runs for line in conditions(measured)),
        "",
        "![Memory against time, one line per system](compare.svg)",
        "",
    ]
    for model in dict.fromkeys(p.model for p in points):
        lines += model_table(model, points)
    return "\n".join(lines + footnotes(points)).rstrip() + "\n"
