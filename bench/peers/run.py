"""Runs the peers and Retrace on one system, model by model, each in a process of its own. Writes one JSON object."""

import argparse
import datetime
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKPOINT = ["none", "full", "every2", "every4", "half"]
NEWER = ["sac", "compile:1", "compile:0.5", "compile:0.3", "compile:0.1", "compile:0"]


class Plan:
    """How much to run."""

    def __init__(self, quick, with_compile):
        self.rounds = 1 if quick else 7
        self.sweep = 3 if quick else 12
        self.settings = ["none", "full", "half"] if quick else list(CHECKPOINT)
        if with_compile:
            self.settings += ["sac", "compile:0.5"] if quick else NEWER


def run_peers(model, plan, counter):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "peers.json")
        command = [sys.executable, "-B", os.path.join(HERE, "peers.py"), model, *plan.settings]
        command += ["--counter", counter, "--rounds", str(plan.rounds), "--output", output]
        subprocess.run(command, check=True, stdout=sys.stderr)
        with open(output) as file:
            return json.load(file)


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bench(retrace, model, *arguments):
    """The rows of `retrace bench`. Exit code 1 with rows says that some have no time; the table will say so too."""
    command = [retrace, "bench", model, "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise SystemExit(f"bench/compare: this failed with exit code {done.returncode}: {' '.join(command)}")
    return json.loads(done.stdout)


def peers_budgets(retrace, model, peers):
    """For each peer the budget that gives Retrace its step peak. A budget counts what was live before the step too."""
    (plain,) = [row for row in bench(retrace, model, "--policy", "plain", "--steps", "1") if row["policy"] == "plain"]
    before = plain["peak_bytes"] - plain["step_peak_bytes"]
    peaks = {row["step_peak_bytes"] for row in peers["rows"] if row["step_peak_bytes"] and row["setting"] != "none"}
    # What needs more than the plain run asks nothing of a budget.
    return [str(before + peak) for peak in sorted(peaks) if peak < plain["step_peak_bytes"]]


def run_retrace(retrace, model, plan, peers):
    budgets = [f"sweep:{plan.sweep}", *peers_budgets(retrace, model, peers)]
    others = machine.OthersWatch(children_seconds())
    rows = bench(retrace, model, "--steps", str(plan.rounds), "--budget", *budgets)
    return {"model": model, "rows": rows, "others_cores": others.cores(children_seconds())}


def check_budgets_exist(retrace):
    text = subprocess.run([retrace, "bench", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if "--budget" not in text:
        raise SystemExit(f"bench/compare: {retrace} has no 'bench MODEL --budget', so there is nothing to compare.")


def first_line(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def torch_version():
    """Debian's. PyTorch itself calls Debian's 1.13.1 "1.13.0a0"."""
    return re.match(r"[\d.]+", first_line("dpkg-query", "-W", "-f", "${Version}", "python3-torch")).group()


def source_version():
    """The commit, with a + if the sources differ from it. None in a chroot without git; the host knows it then."""
    try:
        commit = first_line("git", "rev-parse", "--short", "HEAD")
        changed = first_line("git", "diff", "HEAD", "--name-only", "--", "src", "include", "models", "tools")
    except FileNotFoundError:
        return None
    return commit + "+" if commit and changed else commit


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--build", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--compile", action="store_true", help="also what only PyTorch 2 has")
    args = parser.parse_args()

    plan = Plan(args.quick, args.compile)
    retrace = os.path.join(args.build, "release", "tools", "retrace", "retrace")
    counter = os.path.join(args.build, "peers", "libbyte_counter.so")
    check_budgets_exist(retrace)
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "quick": args.quick,
        "rounds": plan.rounds,
        "source": source_version(),
        "machine": machine.describe(),
        "peers": [],
        "retrace": [],
    }
    for model in args.models:
        result["peers"].append(run_peers(model, plan, counter))
        result["retrace"].append(run_retrace(retrace, model, plan, result["peers"][-1]))
    result["torch"] = torch_version()
    result["load_average_after"] = machine.describe()["load_average"]
    with open(args.output, "w") as file:
        json.dump(result, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"bench/compare: this failed with exit code {error.returncode}: {' '.join(error.cmd)}")
