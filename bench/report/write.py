#!/usr/bin/env python3
"""Writes compare.json, compare.md and compare.svg from what bench/measure found on one or more systems.

compare.json holds all that is needed to write the others again: python3 bench/report/write.py compare.json --out DIR.
"""

import argparse
import json
import os

import plot
import points as point_list
import table


def load(paths):
    """Files of bench/measure, or a compare.json made of them. Oldest LibTorch first."""
    runs = []
    for path in paths:
        try:
            with open(path) as file:
                content = json.load(file)
            runs += content["runs"] if "runs" in content else [content]
        except (OSError, ValueError) as error:
            raise SystemExit(f"bench/compare: {path} cannot be read: {error}. Nothing was written.")
    return sorted(runs, key=lambda run: [int(part) for part in run["torch"].split(".")])


def write_all(out, contents):
    os.makedirs(out, exist_ok=True)
    for name, content in contents.items():
        path = os.path.join(out, name)
        with open(path + ".partial", "w") as file:
            file.write(content)
        os.replace(path + ".partial", path)  # complete, or as it was


def subtitle(runs):
    busy = any(point_list.others_cores(run) > point_list.BUSY_CORES for run in runs)
    machine = runs[0]["machine"]
    notes = [f"{machine['cpu']}, one thread", runs[0]["date"]]
    notes += ["quick run, not a measurement"] * runs[0]["quick"] + ["the machine was busy"] * busy
    return "; ".join(notes) + ". Hollow: another point of the same line takes no more memory and no more time."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", nargs="+")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    runs = load(args.measured)
    points = [point for run in runs for point in point_list.points_of(run)]
    point_list.check_same_work(points)
    text = table.markdown(runs, points)
    write_all(
        args.out,
        {
            "compare.json": json.dumps({"runs": runs}, indent=1) + "\n",
            "compare.md": text,
            "compare.svg": plot.svg(points, subtitle(runs)),
        },
    )
    print(f"bench/compare: wrote {args.out}/compare.json, compare.md and compare.svg")
    broken = [p for p in points if p.is_retrace and (p.ratio is None or p.is_within_budget is False)]
    for point in broken:
        print(f"bench/compare: {point.model}, {point.system}, {point.setting}: no sound result, see the messages above")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
