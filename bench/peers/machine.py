"""What a time has to be read with: the machine, and how busy it was."""

import os
import platform
import time


def _busy_seconds():
    """CPU seconds that all cores have spent on anything, this process included; stolen ones too."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class OthersWatch:
    """How many cores' worth of work others did while we measured. A load average would count us, and our build."""

    def __init__(self, own_seconds=None):
        self.wall = time.monotonic()
        self.busy = _busy_seconds()
        self.own = time.process_time() if own_seconds is None else own_seconds

    def cores(self, own_seconds):
        wall = max(time.monotonic() - self.wall, 1e-9)
        others = (_busy_seconds() - self.busy) - (own_seconds - self.own)
        return round(max(others, 0) / wall, 2)


def _field(path, key, separator):
    try:
        with open(path) as file:
            for line in file:
                name, _, value = line.partition(separator)
                if name.strip() == key:
                    return value.strip().strip('"')
    except OSError:
        pass
    return "unknown"


def describe():
    return {
        "cpu": _field("/proc/cpuinfo", "model name", ":"),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": _field("/etc/os-release", "PRETTY_NAME", "="),
        "kernel": platform.release(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }
