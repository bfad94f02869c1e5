"""Writes screens of a terminal as a picture (SVG) for the documentation."""

import os
from pathlib import Path
from xml.sax.saxutils import escape

CHARACTER, LINE, MARGIN, GAP = 8.4, 19, 14, 16


def write(name, screens, width, height):
    """Writes the screens, side by side, into the folder that $OTAFLASH_PICTURES names. Each screen has `width` columns and `height` lines.
    Does nothing if the variable is not set."""
    folder = os.environ.get("OTAFLASH_PICTURES")
    if not folder:
        return
    panel, depth = round(width * CHARACTER + 2 * MARGIN), height * LINE + 2 * MARGIN
    total = len(screens) * (panel + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{depth}" viewBox="0 0 {total} {depth}" '
        'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14">'
    ]
    for number, lines in enumerate(screens):
        left = number * (panel + GAP)
        parts.append(f'<rect x="{left}" width="{panel}" height="{depth}" rx="6" fill="#1e1e24"/>')
        for row, line in enumerate(lines, 1):
            if line:
                place = f'x="{left + MARGIN}" y="{MARGIN + row * LINE - 5}" textLength="{len(line) * CHARACTER:.1f}"'
                parts.append(f'<text {place} fill="#e8e8ec" xml:space="preserve">{escape(line)}</text>')
    Path(folder, name).write_text("\n".join([*parts, "</svg>"]) + "\n")
