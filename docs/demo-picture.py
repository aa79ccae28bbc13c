#!/usr/bin/env python3
"""Draws docs/demo.svg, an animation of a real run: starts `fairhold dev --demo` in a terminal, kills the leader with SIGKILL, and
records the screen. Run it with `./fairhold picture`."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from xml.sax.saxutils import escape

COLUMNS, ROWS = 100, 30
KILL_AT, END_AT, EVERY = 4.0, 9.5, 0.5
LINE, CHAR, PAD = 17, 8.0, 14
STYLE = "rect{fill:#10151c}text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#c9d4e0;white-space:pre}.b{fill:#ff8f70}.g{fill:#8fd19e}"


def play(screen, said):
    """A terminal screen: text, and the control sequences that move the cursor and clear; others are ignored."""
    row, column = screen["at"]
    cells = screen["cells"]
    for match in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b.|(.)", said, re.S):
        order, char = match.group(2), match.group(3)
        if order == "H":
            numbers = [int(number or 1) for number in match.group(1).split(";")] if match.group(1) else [1, 1]
            row, column = numbers[0] - 1, (numbers[1] if len(numbers) > 1 else 1) - 1
        elif order == "J":
            first = 0 if match.group(1) == "2" else row
            for line in range(first, ROWS):
                cells[line] = [" "] * COLUMNS
        elif order == "K":
            cells[row][column:] = [" "] * (COLUMNS - column)
        elif char == "\r":
            column = 0
        elif char == "\n":
            row += 1
        elif char:
            if row < ROWS and column < COLUMNS:
                cells[row][column] = char
            column += 1
    screen["at"] = (min(row, ROWS - 1), min(column, COLUMNS - 1))


def record(program):
    """The frames of a run: (time, lines, what was typed)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(program, [program, "dev", "--demo", "--port", "7971"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = {"cells": [[" "] * COLUMNS for _ in range(ROWS)], "at": (0, 0)}
    frames, begun, killed, due, rest = [], None, "", 0.0, b""
    try:
        while begun is None or time.monotonic() - begun < END_AT:
            if select.select([terminal], [], [], 0.05)[0]:
                rest += os.read(terminal, 65536)
                text = rest.decode(errors="ignore")
                rest = b""
                play(screen, text)
            lines = ["".join(line).rstrip() for line in screen["cells"]]
            if begun is None:
                if any(" leader " in line for line in lines) and any("#" in line for line in lines):
                    begun = time.monotonic()
                continue
            now = time.monotonic() - begun
            if now >= KILL_AT and not killed:
                leader = next(line.split() for line in lines if re.search(r"\d+ +\d+ +leader ", line))
                os.kill(int(leader[1]), signal.SIGKILL)
                killed = f"$ kill -9 {leader[1]}    # the leader, in another terminal"
            if now >= due:
                frames.append((now, lines, killed))
                due += EVERY
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    return frames


def draw(frames):
    height = max(max((at for at, line in enumerate(lines) if line), default=0) for _, lines, _ in frames) + 3
    size = f"{COLUMNS * CHAR + 2 * PAD:.0f} {height * LINE + 2 * PAD}"
    whole = frames[-1][0] + 2.5
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img"><title>fairhold dev --demo; the leader is killed</title>']
    rules = []
    for number, (begin, _, _) in enumerate(frames):
        end = frames[number + 1][0] if number + 1 < len(frames) else whole
        first, last = 100 * begin / whole, 100 * end / whole
        # A viewer without animations shows the first frame.
        shown = "visible" if number == 0 else "hidden"
        rules.append(
            f"#f{number}{{visibility:{shown};animation:k{number} {whole:.1f}s step-end infinite}}"
            f"@keyframes k{number}{{0%{{visibility:{'visible' if first == 0 else 'hidden'}}}{first:.2f}%{{visibility:visible}}{last:.2f}%{{visibility:hidden}}}}"
        )
    out.append(f"<style>{STYLE}{''.join(rules)}</style><rect width=\"100%\" height=\"100%\" rx=\"8\"/>")
    for number, (_, lines, killed) in enumerate(frames):
        out.append(f'<g id="f{number}">')
        for at, line in enumerate([*lines[: height - 2], "", killed]):
            if line:
                kind = ' class="b"' if "DOWN" in line or line is killed else ' class="g"' if re.search(r"\d leader ", line) else ""
                out.append(f'<text x="{PAD}" y="{PAD + (at + 1) * LINE}"{kind}>{escape(line)}</text>')
        out.append("</g>")
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    program, picture = sys.argv[1:]
    frames = record(program)
    with open(picture, "w", encoding="utf-8") as file:
        file.write(draw(frames))
    print(f"{picture}: {len(frames)} frames")


if __name__ == "__main__":
    main()
