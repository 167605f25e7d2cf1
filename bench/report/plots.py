"""Plots as SVG text; colours come from the style sheet of the page, so that they follow its theme.
"""

import math
from html import escape

WIDTH = 760


def text(x, y, words, kind="label", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">' \
           f'{escape(str(words))}</text>'


def svg(height, parts, title):
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">\n' \
           f'{body}\n</svg>'


def bars(rows, title, unit):
    """Horizontal bars of [(name, value, note, kind, (low, high) or None)], each with its value."""
    left, right, step = 190, 190, 26
    top = max([row[1] for row in rows] + [row[4][1] for row in rows if row[4]] + [1e-12])
    scale = (WIDTH - left - right) / top
    parts = []
    for i, (name, value, note, kind, spread) in enumerate(rows):
        y = 8 + i * step
        length = max(value * scale, 1)
        end = length
        parts.append(text(left - 8, y + 13, name, anchor="end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="18" rx="2" '
                     f'class="{kind}"><title>{escape(f"{name}: {value:.4g}{unit} {note}")}'
                     f'</title></rect>')
        if spread:
            low, high = (left + part * scale for part in spread)
            end = max(end, high - left)
            parts.append(f'<path d="M{low:.1f} {y + 9}H{high:.1f}M{low:.1f} {y + 5}v8'
                         f'M{high:.1f} {y + 5}v8" class="spread"/>')
        words = f"{value:.1f}{unit}" + (f", {note}" if note else "")
        parts.append(text(left + end + 6, y + 13, words, "value"))
    return svg(16 + step * len(rows), parts, title)


def decades(low, high):
    return [10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def short(value):
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def roofline(points, read, roofs, title):
    """Operations a second over operations a byte, both on logarithmic scales.

    points: [(name, operations a byte, operations a second, kind)]; read: bytes a second;
    roofs: [(name, operations a second)].
    """
    left, right, above, height = 70, 110, 14, 400
    bottom = height - 46
    xs = decades(min(p[1] for p in points) / 2, max([p[1] for p in points]
                                                    + [r[1] / read for r in roofs]) * 2)
    ys = decades(min(p[2] for p in points) / 2, max(r[1] for r in roofs) * 1.5)

    def at_x(value):
        return left + (WIDTH - left - right) * math.log(value / xs[0]) / math.log(xs[-1] / xs[0])

    def at_y(value):
        return bottom - (bottom - above) * math.log(value / ys[0]) / math.log(ys[-1] / ys[0])

    parts = []
    for x in xs:
        parts.append(f'<path d="M{at_x(x):.1f} {above}V{bottom}" class="grid"/>')
        parts.append(text(at_x(x), bottom + 16, short(x), anchor="middle"))
    for y in ys:
        parts.append(f'<path d="M{left} {at_y(y):.1f}H{WIDTH - right}" class="grid"/>')
        parts.append(text(left - 6, at_y(y) + 4, short(y), anchor="end"))
    parts.append(text((left + WIDTH - right) / 2, height - 8, "operations a byte", anchor="middle"))
    parts.append(text(left, above - 3, "operations a second"))
    start = max(xs[0], ys[0] / read)
    for name, peak in roofs:
        ridge = min(peak / read, xs[-1])
        parts.append(f'<path d="M{at_x(start):.1f} {at_y(start * read):.1f}'
                     f'L{at_x(ridge):.1f} {at_y(ridge * read):.1f}H{WIDTH - right}" '
                     f'class="roof"/>')
        parts.append(text(WIDTH - right + 6, at_y(peak) + 4, f"{name} {short(peak)}", "value"))
    parts.append(text(at_x(start) + 8, at_y(start * read) - 14, f"read {short(read)}B/s", "value"))
    taken = []  # labels that are placed; one that would lie on another moves down
    for name, x, y, kind in sorted(points, key=lambda p: -p[2]):
        label = at_y(y) + 4
        while any(abs(label - other) < 12 and abs(at_x(x) - where) < 150
                  for where, other in taken):
            label += 12
        taken.append((at_x(x), label))
        end = at_x(x) > WIDTH - right - 130
        side = -1 if end else 1
        if label > at_y(y) + 4:
            parts.append(f'<path d="M{at_x(x):.1f} {at_y(y):.1f}L{at_x(x) + 14 * side:.1f} '
                         f'{label - 4:.1f}" class="grid"/>')
        parts.append(f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4.5" class="{kind}">'
                     f'<title>{escape(f"{name}: {short(y)} operations a second")}</title></circle>')
        parts.append(text(at_x(x) + 16 * side, label, name, "value", "end" if end else "start"))
    return svg(height, parts, title)
