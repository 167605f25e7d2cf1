"""The report as Markdown and as one HTML page."""

from html import escape

import plots

TITLES = {"prefill": "a prompt of {tokens} tokens", "decode": "a decoded token"}

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --faint: #667085; --line: #d9dee7;
  --ground: #ffffff; --decode: #2f6fde; --prefill: #d9822b; --rest: #98a2b3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --faint: #98a2b3; --line: #353d4d;
  --ground: #14181f; --decode: #6ea1ff; --prefill: #f0a860; --rest: #667085; } }
body { background: var(--ground); color: var(--ink); margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
.wide { overflow-x: auto; }
th, td { padding: 2px 10px; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; max-width: 760px; height: auto; display: block; margin: .5rem 0; }
svg text { font-size: 12px; fill: var(--ink); } svg .value { fill: var(--faint); }
.decode { fill: var(--decode); } .prefill { fill: var(--prefill); } .rest { fill: var(--rest); }
.grid { stroke: var(--line); fill: none; } .roof { stroke: var(--faint); fill: none;
  stroke-width: 1.5; } .spread { stroke: var(--ink); fill: none; }
pre { overflow-x: auto; font-size: 12px; } .faint { color: var(--faint); }
"""


def title_of(test):
    return TITLES[test["test"]].format(**test)


def with_steps(report):
    return [test for test in report["tests"] if "steps" in test]


def giga(amount, seconds):
    return f"{amount / seconds / 1e9:.1f}" if amount > 0 and seconds > 0 else "-"


def summary_table(report):
    rows = [("test", "tok/s", "min", "max", "of a plain read")]
    for test in report["tests"]:
        if test["test"] == "first_token":
            continue
        speed = test["tokens_per_second"]
        share = f"{100 * test['bandwidth_fraction']:.0f}%" if test["test"] == "decode" else "-"
        rows.append((f"{test['test']} {test['tokens']}", f"{speed['median']:.1f}",
                     f"{speed['min']:.1f}", f"{speed['max']:.1f}", share))
    return rows


def step_table(steps):
    rows = [("step", "class", "runs", "time us", "wait us", "MB", "GB/s", "GFLOP/s",
             "of the roof", "part")]
    for row in steps["rows"]:
        product = row["operations"] > 0
        roof = f"{100 * row['roof_fraction']:.0f}% {row['roof']}" if row["roof_fraction"] else "-"
        rows.append((row["step"], row["class"], row["runs"], f"{1e6 * row['seconds']:.1f}",
                     f"{1e6 * row['waiting_seconds']:.1f}", f"{row['bytes'] / 1e6:.3f}",
                     giga(row["bytes"], row["seconds"]) if product else "-",
                     giga(row["operations"], row["seconds"]), roof,
                     f"{100 * row['fraction']:.1f}%"))
    for name, seconds in (("barriers and waiting", steps["barrier_seconds"]),
                          ("bookkeeping", steps["bookkeeping_seconds"])):
        rows.append((name, "", "", f"{1e6 * seconds:.1f}", "", "", "", "", "",
                     f"{100 * seconds / steps['seconds']:.1f}%"))
    return rows


def overhead_line(steps):
    which = "without an involuntary context switch" if steps["undisturbed"] else \
        "with involuntary context switches: there was none without"
    return (f"Barriers and bookkeeping: {100 * steps['overhead_fraction']:.1f}% of a decoded token "
            f"(median of {steps['samples']} tokens {which}).")


def roof_line(roofline):
    names = (("f32", "f32"), ("int8", "int8 dot"), ("bf16", "bf16 dot"), ("tile", "bf16 tiles"))
    parts = []
    for key, name in names:
        rate = roofline[f"{key}_operations_per_second"]
        parts.append(f"{name} {rate / 1e9:.1f}" if rate > 0 else f"{name} none")
    return (f"Roofs, by all threads: plain read "
            f"{roofline['plain_read_bytes_per_second'] / 1e9:.1f} GB/s, prefetched read "
            f"{roofline['prefetched_read_bytes_per_second'] / 1e9:.1f} GB/s; multiply-adds in "
            f"GFLOP/s: {', '.join(parts)}.")


def product_table(document):
    rows = [("size", "unit", "path", "weights", "packing", "threads", "best us", "median us",
             "GFLOP/s", "of the peak")]
    for row in document["products"]:
        rows.append((row["m"], f"{row['unit']} ({row['kernels']})", row["path"],
                     row["type"] if row["type"] == row["computed"]
                     else f"{row['type']} as {row['computed']}",
                     "with" if row["packing"] else "without", row["threads"],
                     f"{1e6 * row['seconds']:.2f}", f"{1e6 * row['median_seconds']:.2f}",
                     f"{row['gflops']:.1f}", f"{100 * row['peak_fraction']:.0f}%"))
    return rows


def dispatch_line(document):
    dispatch = document["dispatch"]
    return (f"Dispatch latency, an empty job to {dispatch['threads']} threads and back: "
            f"{1e6 * dispatch['seconds']:.2f} us at best, "
            f"{1e6 * dispatch['median_seconds']:.2f} us in the median. It is no time of a product.")


def product_plot(document):
    """The best of each unit and size, packed operands or a BLAS."""
    kinds = {"matrix": "decode", "vector": "prefill"}
    rows = [(f"{row['m']} {row['unit']}", row["gflops"],
             f"{100 * row['peak_fraction']:.0f}% of peak", kinds.get(row["unit"], "rest"), None)
            for row in sorted(document["products"], key=lambda row: row["m"])
            if row["path"] == "sgemm" or (row["path"] == "packed" and not row["packing"])]
    return plots.bars(rows, "products", " GFLOP/s")


def set_table(report):
    rows = [("kernel set", "pp128 tok/s", "tg32 tok/s")]
    for entry in report["kernel_sets"]:
        rows.append((entry["set"], *(f"{entry[test]['median']:.1f}"
                                     for test in ("prefill", "decode"))))
    return rows


def facts(report):
    first = report["tests"][0]
    return [f"model: {first['model']}", f"device: {first['device']}",
            *(f"{key}: {value}" for key, value in report["device"].items()),
            f"commit: {report['commit']}", f"date: {report['date']}"]


def markdown_table(rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    lines.insert(1, "|---" + "|---:" * (len(rows[0]) - 1) + "|")
    return "\n".join(lines)


def markdown(report):
    parts = ["# Orrery on this machine", "\n".join(f"- {fact}" for fact in facts(report)),
             markdown_table(summary_table(report))]
    for test in with_steps(report):
        parts += [f"## Where the time goes: {title_of(test)}",
                  f"{1e3 * test['steps']['seconds']:.3f} ms, mean of the "
                  f"{test['steps']['kept']} fastest of {test['steps']['samples']}.",
                  markdown_table(step_table(test["steps"]))]
        if test["test"] == "decode":
            parts.append(overhead_line(test["steps"]))
    if with_steps(report):
        parts.append(roof_line(with_steps(report)[-1]["roofline"]))
    if report["kernel_sets"]:
        parts += ["## Kernel sets", markdown_table(set_table(report))]
    parts += ["## Products", markdown_table(product_table(report["products"])),
              dispatch_line(report["products"])]
    if report["missing"]:
        parts += ["## Not measured", "\n".join(f"- {line}" for line in report["missing"])]
    for kernel in report["kernels"]:
        parts += [f"## {kernel['name']}", "```\n" + kernel["text"].rstrip() + "\n```"]
    return "\n\n".join(parts) + "\n"


def html_table(rows):
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in rows[0])
    body = "\n".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
                     for row in rows[1:])
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def speed_plot(report):
    rows = []
    for test in report["tests"]:
        if test["test"] == "first_token":
            continue
        speed = test["tokens_per_second"]
        rows.append((f"{test['test']} {test['tokens']}", speed["median"], "", test["test"],
                     (speed["min"], speed["max"])))
    return plots.bars(rows, "tokens a second", " tok/s")


def step_plot(test):
    steps = test["steps"]
    rows = []
    for row in steps["rows"]:
        roof = f"{100 * row['roof_fraction']:.0f}% of {row['roof']}" if row["roof_fraction"] else ""
        rows.append((row["step"], 100 * row["fraction"], roof, test["test"], None))
    for name in ("barrier", "bookkeeping"):
        rows.append((f"{name}s and waiting" if name == "barrier" else name,
                     100 * steps[f"{name}_seconds"] / steps["seconds"], "", "rest", None))
    return plots.bars(rows, title_of(test), "%")


def roof_plot(report):
    tests = with_steps(report)
    roofline = tests[-1]["roofline"]
    points = [(row["step"], row["operations"] / row["bytes"], row["operations"] / row["seconds"],
               test["test"])
              for test in tests for row in test["steps"]["rows"]
              if row["operations"] > 0 and row["bytes"] > 0 and row["seconds"] > 0]
    roofs = [(name, roofline[f"{key}_operations_per_second"])
             for key, name in (("f32", "f32"), ("int8", "int8"), ("bf16", "bf16"),
                               ("tile", "bf16 tiles"))
             if roofline[f"{key}_operations_per_second"] > 0]
    read = max(roofline["plain_read_bytes_per_second"],
               roofline["prefetched_read_bytes_per_second"])
    return plots.roofline(points, read, roofs, "rooflines") if points and roofs else ""


def set_plot(report):
    rows = [(f"{entry['set']} {test}", entry[test]["median"], "", test,
             (entry[test]["min"], entry[test]["max"]))
            for test in ("prefill", "decode") for entry in report["kernel_sets"]]
    return plots.bars(rows, "kernel sets", " tok/s")


def html(report):
    parts = ["<h1>Orrery on this machine</h1>",
             "<ul>" + "".join(f"<li>{escape(fact)}</li>" for fact in facts(report)) + "</ul>",
             "<h2>Tokens a second</h2>", speed_plot(report), html_table(summary_table(report))]
    for test in with_steps(report):
        steps = test["steps"]
        parts += [f"<h2>Where the time goes: {escape(title_of(test))}</h2>",
                  f"<p>{1e3 * steps['seconds']:.3f} ms, mean of the {steps['kept']} fastest of "
                  f"{steps['samples']}; parts of the time, and of the nearer roof.</p>",
                  step_plot(test), html_table(step_table(steps))]
        if test["test"] == "decode":
            parts.append(f"<p>{escape(overhead_line(steps))}</p>")
    if with_steps(report):
        parts += ["<h2>Rooflines</h2>",
                  '<p><svg viewBox="0 0 12 12" style="width:12px;display:inline"><circle cx="6" '
                  'cy="6" r="4.5" class="prefill"/></svg> prefill '
                  '<svg viewBox="0 0 12 12" style="width:12px;display:inline"><circle cx="6" '
                  'cy="6" r="4.5" class="decode"/></svg> decode</p>',
                  roof_plot(report),
                  f"<p>{escape(roof_line(with_steps(report)[-1]['roofline']))}</p>"]
    if report["kernel_sets"]:
        parts += ["<h2>Kernel sets</h2>", set_plot(report), html_table(set_table(report))]
    parts += ["<h2>Products</h2>", product_plot(report["products"]),
              html_table(product_table(report["products"])),
              f"<p>{escape(dispatch_line(report['products']))}</p>"]
    if report["missing"]:
        parts += ["<h2>Not measured</h2>",
                  "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in report["missing"])
                  + "</ul>"]
    for kernel in report["kernels"]:
        parts += [f"<h2>{escape(kernel['name'])}</h2>", f"<pre>{escape(kernel['text'])}</pre>"]
    body = "\n".join(parts)
    return ('<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width">\n'
            f"<title>Orrery on this machine</title>\n<style>{STYLE}</style>\n<body>\n{body}\n"
            "</body>\n</html>\n")
