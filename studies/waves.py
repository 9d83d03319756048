"""``python -m studies.waves``: waveforms of an example, to look at and as a picture.

The bench of ``examples/stream_top.v`` runs on Icarus Verilog. ``build/waves/stream.fst`` is all of
it, for a viewer; ``docs/waves.svg`` shows the signals of the saved view ``examples/stream.gtkw``.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from mxsafe.atomic import write_atomically

ROOT = Path(__file__).parents[1]
VIEW = ROOT / "examples" / "stream.gtkw"
PICTURE = ROOT / "docs" / "waves.svg"
_OUT = ROOT / "build" / "waves"
_PERIOD = 2000  # ps
_PIXELS = 16  # of a cycle
_ROW, _HIGH, _LEFT, _CHARACTER = 22, 14, 130, 6.2


@dataclass
class Signal:
    """Values of a signal: times in ps, and the value from each on, in binary digits."""

    width: int
    times: list[int] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def set(self, time: int, value: str) -> None:
        """Take a value on; of several at the same time the last one counts."""
        if self.times and self.times[-1] == time:
            self.times.pop()
            self.values.pop()
        if not self.values or self.values[-1] != value:
            self.times.append(time)
            self.values.append(value)


def build(folder: Path) -> Path:
    """Compile the bench in a folder; the program that `simulate` runs."""
    examples, program = ROOT / "examples", folder / "stream.vvp"
    sources = [examples / "stream_tb.v", examples / "stream_top.v"]
    options: list[str | Path] = [
        "-g2012",
        "-y",
        ROOT / "gen",
        "-y",
        ROOT / "gen" / "parts",
        "-s",
        "stream_tb",
        "-o",
        program,
    ]
    subprocess.run(["iverilog", *options, *sources], check=True)
    return program


def simulate(program: Path, *options: str) -> Path:
    """Run the bench; the file of its waveform, which is VCD without the option ``-fst``."""
    words = ["vvp", "-n", program.name, *options, "+dump"]
    subprocess.run(words, cwd=program.parent, stdout=subprocess.DEVNULL, check=True)
    return program.parent / "stream.fst"


def groups_of(view: str) -> dict[str, list[str]]:
    """Names of signals by group, in the order of a saved view."""
    groups: dict[str, list[str]] = {}
    for line in view.splitlines():
        if line.startswith("-"):
            groups[line[1:]] = []
        elif re.match(r"\w+\.", line):
            groups[next(reversed(groups))].append(line)
    return groups


def read_dump(text: str) -> tuple[dict[str, Signal], int]:
    """Signals by name, in the words of a view, and the time of the end, out of a VCD file."""
    signals: dict[str, Signal] = {}
    by_code: dict[str, Signal] = {}
    scopes: list[str] = []
    head, _, body = text.partition("$enddefinitions $end")
    for kind, words in re.findall(r"\$(scope|upscope|var)\b(.*?)\$end", head, re.DOTALL):
        if kind == "scope":
            scopes.append(words.split()[1])
        elif kind == "upscope":
            scopes.pop()
        else:
            _, width, code, *name = words.split()
            signal = by_code.setdefault(code, Signal(int(width)))
            signals[".".join([*scopes, "".join(name)])] = signal
    now = 0
    for word in re.findall(r"^(#\d+|b[01xz]+ \S+|[01xz]\S+)$", body, re.MULTILINE):
        if word[0] == "#":
            now = int(word[1:])
            continue
        value, code = word[1:].split() if word[0] == "b" else (word[0], word[1:])
        signal = by_code[code]
        # What is left out in front of an x or z is the same, else 0.
        signal.set(now, value.rjust(signal.width, value[0] if value[0] in "xz" else "0"))
    return signals, now


def picture(view: str, dump: str) -> str:
    """The signals of a view as SVG, drawn from a VCD file."""
    signals, end = read_dump(dump)
    lines = []
    y = _ROW
    for group, names in groups_of(view).items():
        lines.append(f'<text x="4" y="{y}" class="group">{escape(group)}</text>')
        y += _ROW
        for name in names:
            label = escape(re.sub(r"^\w+\.|\[.*", "", name))
            lines.append(f'<text x="12" y="{y}">{label}</text>')
            lines += _drawn(signals[name], end, y)
            y += _ROW
    width = round(_at(end)) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" '
        'font-family="monospace" font-size="10" fill="none" stroke-width="1">\n'
        "<style>text{fill:#24292f}.group{font-weight:bold}.w{stroke:#0969da}"
        ".unknown{stroke:#cf222e}</style>\n"
        f'<rect width="{width}" height="{y}" fill="#ffffff"/>\n' + "\n".join(lines) + "\n</svg>\n"
    )


def _at(time: int) -> float:
    return round(_LEFT + time * _PIXELS / _PERIOD, 1)


def _drawn(signal: Signal, end: int, y: int) -> list[str]:
    """Lines of one signal: a wave of one bit, or values between bars."""
    lines = []
    path = ""
    for start, stop, value in zip(
        signal.times, [*signal.times[1:], end], signal.values, strict=True
    ):
        left, right = _at(start), _at(stop)
        if re.search("[xz]", value):
            lines.append(f'<path class="unknown" d="M{left} {y - _HIGH / 2}H{right}"/>')
            path += f"M{right} {y}"
        elif signal.width == 1:
            level = y - _HIGH * int(value)
            path += f"{'V' if path else f'M{left} '}{level}H{right}"
        else:
            path += f"M{left} {y}V{y - _HIGH}H{right}V{y}H{left}"
            text = f"{int(value, 2):0{-(-signal.width // 4)}x}"
            if right - left > _CHARACTER * len(text) + 2:
                lines.append(f'<text x="{left + 3}" y="{y - 3}">{text}</text>')
    return [*lines, f'<path class="w" d="{path}"/>']


def main() -> None:
    """Write the waveform and the picture."""
    _OUT.mkdir(parents=True, exist_ok=True)
    program = build(_OUT)
    drawn = picture(VIEW.read_text(), simulate(program).read_text())
    write_atomically(PICTURE, drawn)
    waveform = simulate(program, "-fst")
    size = waveform.stat().st_size
    print(f"{waveform.relative_to(ROOT)}: {size} bytes; {PICTURE.relative_to(ROOT)}")
    print(f"gtkwave {waveform.relative_to(ROOT)} {VIEW.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
