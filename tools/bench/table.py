"""Rows as tables in Markdown: ratios to nginx first, then the figures with their spread."""


def number(value, digits):
    return f"{value:,.{digits}f}"


def spread(row, who):
    values = row.samples[who]
    text = number(row.median(who), row.digits)
    if len(values) > 1:
        text += f" ({number(min(values), row.digits)}–{number(max(values), row.digits)})"
    return f"{text} {row.unit}".strip()


def most(row):
    return f"{row.ceiling:g} {row.unit}" if row.ceiling else "–"


def beside(rows, names, absent):
    """Work that the peers do, too. A ratio is the median of the rounds' ratios, with their ends."""
    columns = ["warmroute", *(name for name in names if name not in ("warmroute", "nginx")), "nginx"]
    lines = ["| Work | at most | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for row in rows:
        limit = f"{row.limit:g} × nginx" if row.limit else most(row)
        cells = []
        for name in columns:
            if name in absent:
                cells.append("not installed")
            elif name not in row.samples:
                cells.append("–")
            else:
                ratio = None if name == "nginx" or row.ceiling else row.ratio(name, "nginx")
                ends = f" ({ratio[1]:.2f}–{ratio[2]:.2f})" if ratio and ratio[1] != ratio[2] else ""
                rate = f"**{ratio[0]:.2f} ×**{ends}, " if ratio else ""
                cells.append(rate + spread(row, name))
        direct = f" (direct: {spread(row, 'direct')})" if "direct" in row.samples else ""
        lines.append(f"| {row.title}{direct} | {limit} | " + " | ".join(cells) + " |")
    return lines


def rise(row):
    """The dearest step beside the cheapest, by the median of the rounds' ratios."""
    steps = sorted(row.samples, key=row.median)
    return row.ratio(steps[-1], steps[0])[0]


def growth(rows):
    lines = ["| Cost | by step | dearest over cheapest | at most |", "|---|---|---|---|"]
    for row in rows:
        steps = ", ".join(f"{label}: {spread(row, label)}" for label in row.samples)
        limit = f"+{(row.limit - 1) * 100:.0f} %" if row.limit else "–"
        lines.append(f"| {row.title} | {steps} | {(rise(row) - 1) * 100:+.0f} % | {limit} |")
    return lines


def alone(rows):
    lines = ["| warmroute alone | | at most |", "|---|---|---|"]
    return lines + [f"| {row.title} | {spread(row, 'warmroute')} | {most(row)} |" for row in rows]


def notes(rows):
    return [f"- {row.title}: {row.note}" for row in rows if row.note]


def misses(rows):
    """Limits that were not kept, as sentences."""
    found = []
    for row in rows:
        if row.ceiling and "warmroute" in row.samples and row.median("warmroute") > row.ceiling:
            found.append(f"{row.title}: {spread(row, 'warmroute')}, limit {row.ceiling:g}")
        if not row.limit:
            continue
        if row.key.startswith("growth"):
            if rise(row) > row.limit:
                found.append(f"{row.title}: {rise(row):.2f} × its smallest, limit {row.limit:g}")
        elif "warmroute" in row.samples and (ratio := row.ratio("warmroute", "nginx")) and ratio[0] > row.limit:
            found.append(f"{row.title}: {ratio[0]:.2f} × nginx, limit {row.limit:g}")
    return found
