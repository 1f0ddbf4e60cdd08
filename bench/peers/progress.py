"""A bar on the terminal, looking like that of `retrace bench`; nothing where there is no terminal."""

import sys

WIDTH = 24
WIPE = "\r\033[K"


class Progress:
    def __init__(self, total):
        self.total = max(total, 1)
        self.done = 0
        self.what = ""

    def show(self, what):
        self.what = what
        self._draw()

    def advance(self):
        self.finish(self.done + 1)

    def finish(self, done):
        self.done = done
        self._draw()

    def close(self):
        if sys.stderr.isatty():
            print(WIPE, end="", file=sys.stderr, flush=True)

    def _draw(self):
        if not sys.stderr.isatty():
            return
        part = min(self.done / self.total, 1)
        filled = int(WIDTH * part)
        bar = "#" * filled + "." * (WIDTH - filled)
        print(f"{WIPE}[{bar}] {100 * part:.0f}%  {self.what}", end="", file=sys.stderr, flush=True)
