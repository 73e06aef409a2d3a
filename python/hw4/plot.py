"""Draws the results of hw4 bench --output or hw4.neighbours --json: time, rate and memory over a size.

    python -m hw4.plot r.json -o r.svg                                # or r.png
    python -m hw4.plot r.json -o r.png --relative-to naive            # one more row: how many times as fast
    python -m hw4.plot r.json -o r.png --x num_heads --where batch_size=16 emb_dim=2048
    python -m hw4.plot old.json new.json -o both.svg --y time --passes forward

Each pass has a column, each implementation a colour, each combination of the other sizes a dash and a marker. A marker
with a cross at the top is a cell that ran out of memory. Needs matplotlib. Also runs as a standalone file: python3
python/hw4/plot.py. Exit codes: 1 nothing was drawn, 2 wrong usage.
"""
import argparse
import collections
import dataclasses
import io
import json
import os
import statistics
import sys
from pathlib import Path

DRAWN = ("ok", "oom")  # other cells are counted
PASSES = ("forward", "backward", "forward_backward")
# Sizes by hw4 bench's names: letter, axis label.
SIZES = {"seq_len": ("N", "sequence length N (tokens)"), "batch_size": ("B", "batch size B (sequences)"),
         "num_heads": ("H", "heads H"), "head_dim": ("d", "columns of a head d"),
         "emb_dim": ("E", "columns of all heads E"), "kv_heads": ("heads of K and V", "heads of K and V"),
         "queries": ("queries", "new tokens of a decoding step")}
SETTINGS = ("causal", "dtype", "kind", "device", "warmup", "cold", "regime")
WORDS = {"causal": {True: "causal", False: "no mask"}, "cold": {True: "cold caches", False: "warm caches"},
         "warmup": {None: "warm-up by time"}}
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8a6d3b")
STYLES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ((0, (6, 2, 1, 2, 1, 2)), "v"), ((0, (1, 4)), "P"))
MARK_ROOM, MOST_ROOM = 0.08, 0.4  # fraction of a panel's height, for the crosses of one line and of all


class Refused(Exception):
    pass


@dataclasses.dataclass
class Cell:
    """One pass of one implementation on one problem."""
    impl: str
    of: str  # the name of the pass
    fields: dict  # keyed as SIZES and SETTINGS
    status: str
    seconds: list
    flop: float = 0
    peak_bytes: int = 0
    before_bytes: int = 0
    cache_bytes: float = 0  # that a decoding step reads
    ratios: dict = dataclasses.field(default_factory=dict)  # measured in turns, by the other implementation


def cells_of_bench(row):
    given = row["hw4"]["parameters"]
    fields = {**given, "head_dim": given["emb_dim"] // given["num_heads"], "regime": None}
    fields = {name: fields[name] for name in (*SIZES, *SETTINGS)}
    impl = given["impl"] + (f":{given['kernel']}" if given["kernel"] else "")
    for name in PASSES:
        found = row["hw4"][name]
        if found["status"] != "skipped":
            caches = found.get("cache_bytes", 0)
            yield Cell(impl, name, fields, found["status"], found.get("samples", []),
                       0 if caches else found.get("flop", 0), found.get("peak_bytes", 0),
                       found.get("before_backward_bytes", 0), caches)


def cells_of_neighbours(row):
    decodes = row["passes"] == "decode"
    batch, heads, kv_heads, tokens, dim = row["cell"] if decodes else (*row["cell"][:2], *row["cell"][1:])
    fields = {"batch_size": batch, "num_heads": heads, "kv_heads": kv_heads, "seq_len": tokens,
              "queries": 1 if decodes else tokens, "emb_dim": heads * dim, "head_dim": dim, "causal": row["causal"],
              "dtype": row["dtype"], "kind": row["values"], "device": "gpu", "warmup": None, "cold": decodes,
              "regime": row["regime"]}
    of = {"both": "forward_backward", "decode": "forward"}.get(row["passes"], row["passes"])
    flop, caches = (0, 1e9 * row["amount"]) if decodes else (1e12 * row["amount"], 0)
    for impl, columns in row["series"].items():
        ratios = {peer: found["ratio"] for peer, found in row["peers"].items() if impl == row["contract"]
                  and "ratio" in found}
        yield Cell(impl, of, fields, "ok", columns["seconds"], flop, cache_bytes=caches, ratios=ratios)
    for impl, text in {found["refused_by"]: found["refused"] for found in row["peers"].values()
                       if "refused" in found}.items():
        yield Cell(impl, of, fields, "oom" if "out of memory" in text else "unsupported", [])


def read(path):
    """The machine's name and the cells."""
    try:
        document = json.loads(Path(path).read_bytes())
        if "rows" in document:
            return document["device"], [cell for row in document["rows"] for cell in cells_of_neighbours(row)]
        rows = document["results"] if "results" in document else [document]
        machine = (document if "results" in document else document["hw4"])["machine"]
        return machine["name"] or machine["device"], [cell for row in rows for cell in cells_of_bench(row)]
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise Refused(f"{path}: not a file that hw4 bench --output or hw4.neighbours --json has written") from error


def merged(cells):
    """One cell per problem: hw4.neighbours measures a contract again beside each peer."""
    found = {}
    for cell in cells:
        key = (cell.impl, cell.of, *cell.fields.items())
        if key in found and cell.seconds and found[key].seconds:
            found[key].seconds += cell.seconds
            found[key].ratios.update(cell.ratios)
        elif key not in found or cell.seconds:
            found[key] = cell
    return list(found.values())


def word(name, value):
    """ "N 1k", "causal", "fp16" """
    if name in SIZES:
        return f"{SIZES[name][0]} {short(value)}"
    if name == "warmup" and value is not None:
        return f"{value} warm-ups"
    return WORDS.get(name, {}).get(value, str(value))


def short(number):
    return f"{number // 1024}k" if number and number % 1024 == 0 else str(number)


def condition(text):
    name, equals, value = text.partition("=")
    if not equals or name not in (*SIZES, *SETTINGS, "impl"):
        raise argparse.ArgumentTypeError(f"'{text}': need NAME=VALUE of {', '.join((*SIZES, *SETTINGS, 'impl'))}")
    value = {"yes": "True", "no": "False"}.get(value, value)
    return name, str(int(value[:-1]) * 1024) if value[:-1].isdigit() and value.endswith("k") else value


def lines_of(cells, x):
    """{(implementation, the values that distinguish lines): its cells in the order of x}, and the common values."""
    names = [name for name in (*SIZES, *SETTINGS) if name != x]
    names.remove("emb_dim" if x not in ("num_heads", "emb_dim") else "head_dim")
    for name, usual in (("kv_heads", "num_heads"), ("queries", "seq_len")):  # equal, unless given
        if name in names and all(cell.fields[name] == cell.fields[usual] for cell in cells):
            names.remove(name)

    def varies(name):
        values = {}  # at one x; an implementation with one type implies it
        for cell in cells:
            values.setdefault((cell.fields[x], cell.impl if name == "dtype" else ""), set()).add(cell.fields[name])
        return any(len(found) > 1 for found in values.values())

    constant = [name for name in names if len({cell.fields[name] for cell in cells}) == 1]
    telling = [name for name in names if varies(name)]
    lines = {}
    for cell in sorted(cells, key=lambda cell: cell.fields[x]):
        rest = tuple(word(name, cell.fields[name]) for name in telling)
        lines.setdefault((cell.impl, rest), []).append(cell)
    shared = [word(name, cells[0].fields[name]) for name in constant if name not in ("warmup", "cold", "regime")]
    for name in (name for name in names if name in SIZES and name not in constant and name not in telling):
        found = [cell.fields[name] for cell in cells]
        shared.append(f"{word(name, min(found))} to {short(max(found))}")
    return lines, telling, shared


def quantities(lines, baseline, x):
    """{name: (axis label, function from a cell of a line to its value)}"""
    base = {(rest, cell.fields[x], cell.of): statistics.median(cell.seconds)
            for (impl, rest), cells in lines.items() if impl == baseline for cell in cells if cell.status == "ok"}

    def ratio(cell, rest):
        if cell.impl == baseline:
            return None  # drawn as a horizontal line
        if baseline in cell.ratios:
            return cell.ratios[baseline]
        return base.get((rest, cell.fields[x], cell.of), 0) / statistics.median(cell.seconds)

    return {"time": ("time (ms)", lambda cell, _: statistics.median(cell.seconds) * 1e3),
            "rate": ("rate (TFLOP/s)", lambda cell, _: cell.flop / statistics.median(cell.seconds) / 1e12),
            "bandwidth": ("K and V (GB/s)", lambda cell, _: cell.cache_bytes / statistics.median(cell.seconds) / 1e9),
            "memory": ("peak memory (MiB)", lambda cell, _: cell.peak_bytes / 2**20),
            "before": ("memory before backward (MiB)", lambda cell, _: cell.before_bytes / 2**20),
            "ratio": (f"times as fast as {baseline}", ratio)}


def draw_panel(axes, lines, looks, of, value, is_log):
    """`lines`: the (x, cell) pairs of each."""
    from matplotlib.ticker import LogLocator, NullFormatter
    drawn, marked = 0, []
    for key, cells in lines.items():
        color, (dash, marker) = looks[key]
        ran = [(x, value(cell, key[1])) for x, cell in cells if cell.of == of and cell.status == "ok"]
        ran = [(x, y) for x, y in ran if y]
        lost = [x for x, cell in cells if cell.of == of and cell.status == "oom"]
        if ran:
            axes.plot(*zip(*ran), color=color, linestyle=dash, marker=marker, markersize=4, linewidth=1.4)
        marked += [(color, marker, lost)] if lost else []
        drawn += len(ran) + len(lost)
    low, high = axes.get_ylim()
    if is_log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
        axes.yaxis.set_major_formatter(lambda y, _: "" if y > high else f"{y:,.0f}" if y >= 1 else f"{y:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        low, high = 0, high * 1.05
    room = min(MARK_ROOM, MOST_ROOM / max(1, len(marked)))
    share = room * len(marked)
    part = share / (1 - share)
    axes.set_ylim(low, high * (high / low) ** part if is_log else high + (high - low) * part)
    for i, (color, marker, lost) in enumerate(marked):
        for shape, size in ((marker, min(7, 110 * room)), ("x", min(4, 60 * room))):
            axes.plot(lost, [1 - room * (i + 0.5)] * len(lost), color=color, marker=shape, markersize=size,
                      fillstyle="none", linestyle="none", transform=axes.get_xaxis_transform())
    if not drawn:
        axes.axis("off")


def looks_of(lines, telling):
    """{line: (colour, (dash, marker))}, in the order of a legend: a colour for each implementation and type."""
    def parts(line):
        impl, rest = line
        dtype = [value for name, value in zip(telling, rest) if name == "dtype"]
        return (impl, *dtype), tuple(value for name, value in zip(telling, rest) if name != "dtype")

    colored, styled = (list(dict.fromkeys(parts(line)[i] for line in lines)) for i in (0, 1))
    for found, most, what in ((colored, COLORS, "implementations"), (styled, STYLES, "lines of an implementation")):
        if len(found) > len(most):
            raise Refused(f"{len(found)} {what} are more than can be told apart, {len(most)}: take some by --where, of "
                          f"{', '.join(['impl', *telling])}")
    places = {line: (colored.index(parts(line)[0]), styled.index(parts(line)[1])) for line in lines}
    return {line: (COLORS[places[line][0]], STYLES[places[line][1]]) for line in sorted(lines, key=places.get)}


def figure_of(cells, machine, args):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    matplotlib.rcParams["svg.hashsalt"] = "hw4"  # the same bytes in each run

    others = collections.Counter(cell.status for cell in cells if cell.of in args.passes and cell.status not in DRAWN)
    cells = [cell for cell in cells if cell.of in args.passes and cell.status in DRAWN]
    if not cells:
        raise Refused("no pass ran that could be drawn")
    x = args.x
    lines, telling, shared = lines_of(cells, x)
    looks = looks_of(lines, telling)
    known = quantities(lines, args.relative_to, x)
    of_passes = [name for name in args.passes if any(cell.of == name for cell in cells)]
    wanted = [name for name in args.y if any(
        known[name][1](cell, rest) for (_, rest), found in lines.items() for cell in found if cell.status == "ok")]
    if not wanted:
        raise Refused(f"no cell has {' or '.join(args.y)}")
    rows, columns = (len(wanted), len(of_passes)) if len(of_passes) > 1 else (1, len(wanted))
    fig = Figure(figsize=(max(3.4 * columns, 5), 2.5 * rows + 1.1), layout="constrained")
    panels = fig.subplots(rows, columns, squeeze=False)
    values = sorted({cell.fields[x] for cell in cells})
    in_x = {key: [(cell.fields[x], cell) for cell in found] for key, found in lines.items()}
    for place, panel in enumerate(panels.flat):
        name = wanted[place // columns] if len(of_passes) > 1 else wanted[place]
        of = of_passes[place % len(of_passes)]
        label, value = known[name]
        draw_panel(panel, in_x, looks, of, value, name in ("time", "memory", "before"))
        panel.set_xscale("log", base=2)
        panel.set_xlim(values[0] / 1.3, values[-1] * 1.3)
        panel.set_xticks(values, [short(number) for number in values], rotation=45 if len(values) > 7 else 0)
        panel.set_xticks([], minor=True)
        if place >= (rows - 1) * columns:
            panel.set_xlabel(SIZES[x][1])
        panel.set_ylabel(label)
        if place < columns:
            panel.set_title(of.replace("_", " and "), fontsize=10)
        if name == "ratio":
            panel.axhline(1, color="#999999", linewidth=0.8)
        panel.grid(color="#e6e6e6", linewidth=0.6)
        panel.set_axisbelow(True)
    handles = [Line2D([], [], color=color, linestyle=dash, marker=marker, markersize=4, label=", ".join([impl, *rest]))
               for (impl, rest), (color, (dash, marker)) in looks.items()]
    if any(cell.status == "oom" for cell in cells):
        handles.append(Line2D([], [], color="#000000", marker="x", linestyle="none", label="out of memory"))
    fig.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), frameon=False, fontsize=8)
    left_out = ", ".join(f"{count} {status}" for status, count in others.items())
    fig.suptitle(f"{machine}\n{', '.join(shared)}" + (f"\nnot drawn: {left_out}" if others else ""), fontsize=10)
    return fig


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m hw4.plot", usage="%(prog)s [options] -o FILE FILE.json ...",
                                     description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="with several files, lines have the files' names")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="a name that ends in .svg or .png")
    parser.add_argument("--x", choices=SIZES, help="default: the size that has most values")
    parser.add_argument("--y", nargs="+", choices=("time", "rate", "bandwidth", "memory", "before", "ratio"),
                        help="rows; bandwidth: of decoding; before: memory before backward; default: time, rate or "
                             "bandwidth, memory, with --relative-to ratio")
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES)
    parser.add_argument("--where", nargs="+", type=condition, default=[], metavar="NAME=VALUE",
                        help="some cells alone, such as seq_len=1k causal=yes impl=f32")
    parser.add_argument("--relative-to", metavar="NAME", help="the implementation that ratios compare with")
    args = parser.parse_args(argv)
    if not args.output.endswith((".svg", ".png")):
        parser.error(f"-o '{args.output}': need a name that ends in .svg or .png")
    if args.y and "ratio" in args.y and not args.relative_to:
        parser.error("--y ratio: needs --relative-to")
    args.y = args.y or ("time", "rate", "bandwidth", "memory", *(["ratio"] if args.relative_to else []))
    return args


def cells_asked_for(args):
    """The machine's name, and the cells."""
    machines, cells = [], []
    for path in args.files:
        machine, found = read(path)
        machines += [machine] if machine not in machines else []
        for cell in found:
            values = {**cell.fields, "impl": cell.impl}
            if all(str(values[name]) == value for name, value in args.where):
                cell.impl += f" ({Path(path).stem})" if len(args.files) > 1 else ""
                cells.append(cell)
    cells = merged(cells)
    if not cells:
        raise Refused("no cell matches --where" if args.where else "no cells")
    impls = list(dict.fromkeys(cell.impl for cell in cells))
    if args.relative_to and args.relative_to not in impls:
        raise Refused(f"--relative-to '{args.relative_to}': need one of {', '.join(impls)}")
    counts = {name: len({cell.fields[name] for cell in cells}) for name in SIZES}
    args.x = args.x or max(counts, key=counts.get)
    return ", ".join(machines), cells


def write(fig, path):
    """Writes the file completely or not at all."""
    form = path[-3:]
    data = io.BytesIO()
    fig.savefig(data, format=form, dpi=150, metadata={"Date": None} if form == "svg" else {})
    part = f"{path}.part{os.getpid()}"
    try:
        Path(part).write_bytes(data.getvalue())
        os.replace(part, path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise Refused(f"{path}: {error.strerror}") from error


def main(argv=None):
    args = parse(argv)
    try:
        machine, cells = cells_asked_for(args)
        write(figure_of(cells, machine, args), args.output)
    except ImportError as error:
        sys.exit(f"plot: needs matplotlib 3.7 or later (pip install matplotlib): {error}")
    except Refused as refused:
        sys.exit(f"plot: {refused}")


if __name__ == "__main__":
    main()
