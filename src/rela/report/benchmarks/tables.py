"""Tables of benchmarks in Markdown: numbers with their quartiles, beside what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rela.report.benchmarks.read import Benchmark, Number

MODES: Final = ("forward", "forward+backward")
_CORE: Final = "relu_attention"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are numbers."""
    lines = [f"| {' | '.join(columns)} |", "|---|" + "--:|" * (len(columns) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def speed(number: Number | None, digits: int = 2) -> str:
    """A number with its quartiles."""
    if number is None:
        return "-"
    spread = "" if number.low is None or number.high is None else f" ({number.low:.{digits}f}-{number.high:.{digits}f})"
    return f"{number.value:.{digits}f}{spread}"


def asked(number: Number | None) -> str:
    """What was asked for, and whether it was reached."""
    if number is None or number.target is None:
        return "-"
    return f"≥ {number.target:g} {'met' if number.met else '**missed**'}"


def caveats(bench: Benchmark) -> list[str]:
    """What a reader of the numbers must know: a note in the file, and other processes that ran meanwhile."""
    share = bench.data.get("others_cpu_share")
    busy = "" if share is None else f"Other processes took {share:.1%} of the processors meanwhile."
    return [text for text in (bench.data.get("note", ""), busy) if text]


def machine_table(bench: Benchmark) -> str:
    """The machine that the numbers come from."""
    facts = bench.data["machine"]
    rows = {
        "processor": f"{facts['processor']}, {facts['cores']} cores, {facts['hardware_threads']} hardware threads",
        "instruction sets": ", ".join(facts["flags"]),
        "memory": f"{facts['memory_gib']} GiB",
        "torch": f"{facts['torch']}, {facts['threads']} threads",
        "kernel of ReLU attention": facts["kernel"],
        "reads from memory": _unit(facts.get("read_gb_per_second"), "GB/s"),
        "matrix products, float32": _unit(facts.get("gflops"), "GFLOP/s"),
    }
    return markdown(["", "this machine"], [[name, str(value)] for name, value in rows.items() if value is not None])


def _unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:.0f} {unit}"


def core_table(bench: Benchmark) -> str:
    """ReLU attention beside torch's kernel, all cases."""
    density = {number.label: number.value for number in bench.numbers(_CORE, "core.density")}
    rows: list[list[str]] = []
    for label in density:
        found = [bench.number(_CORE, f"core.{mode}", label) for mode in MODES]
        cells = [cell for number in found for cell in (speed(number), asked(number))]
        rows.append([_case(label), f"{density[label]:.2f}", *cells])
    table = markdown(["case", "density", "forward", "target", "forward + backward", "target"], rows)
    return f"{table}\n\n`{bench.signature(_CORE, 'core.forward')}`"


def _case(label: str) -> str:
    kind, _, rest = label.partition(" ")
    names = {
        "plain": "",
        "cross": "Tq = T/2, ",
        "gqa": "8 heads on 2, ",
        "padding": "padding mask, ",
        "dropout": "dropout 0.1, ",
        "trained": "trained model, ",
    }
    sizes = rest.partition(" density")[0].replace("=", " = ").replace(" BH", ", B·H").replace(" d_h", ", d_h")
    return names.get(kind, f"{kind}, ") + sizes


def entmax_table(bench: Benchmark) -> str:
    """ReLU attention beside the entmax package."""
    rows: list[list[str]] = []
    for number in bench.numbers(_CORE, "core.forward.entmax15"):
        both = bench.number(_CORE, "core.forward+backward.entmax15", number.label)
        rows.append([_case(number.label), speed(number, 1), asked(number), speed(both, 1), asked(both)])
    return markdown(["case", "forward", "target", "forward + backward", "target"], rows)


def scaling_table(bench: Benchmark) -> str:
    """How time and memory grow: the longest length of each method, and the exponents."""
    rows: list[list[str]] = []
    for name, entry in bench.entries.items():
        for mode in MODES:
            times = bench.numbers(name, f"scaling.{mode}.seconds")
            peaks = bench.numbers(name, f"scaling.{mode}.bytes")
            if not times:
                continue
            exponents = [bench.number(name, f"scaling.{mode}.{what}.exponent") for what in ("seconds", "bytes")]
            shown = ["-" if number is None else f"{number.value:.2f}" for number in exponents]
            numbers = [f"{int(times[-1].label):,}", f"{times[-1].value:.2f} s", f"{peaks[-1].value / 2**20:,.0f} MiB"]
            rows.append([f"`{name}`, {mode}", *numbers, *shown, entry["left_out"].get(mode, "")])
    columns = ["method", "longest T", "time", "peak memory", "time ~ T^", "memory ~ T^", "left out"]
    return markdown(columns, rows)


def scaling_points_table(bench: Benchmark, mode: str = "forward+backward") -> str:
    """Milliseconds and MiB of each method at each length."""
    names = [name for name in bench.entries if bench.numbers(name, f"scaling.{mode}.seconds")]
    lengths = sorted({int(one.label) for name in names for one in bench.numbers(name, f"scaling.{mode}.seconds")})
    rows: list[list[str]] = []
    for length in lengths:
        row = [f"{length:,}"]
        for name in names:
            time = bench.number(name, f"scaling.{mode}.seconds", str(length))
            peak = bench.number(name, f"scaling.{mode}.bytes", str(length))
            row.append("-" if time is None or peak is None else f"{time.value * 1000:,.1f} / {peak.value / 2**20:,.1f}")
        rows.append(row)
    return markdown(["T", *(f"`{name}` ms / MiB" for name in names)], rows)


def steps_table(bench: Benchmark) -> str:
    """Milliseconds a step of every decoder."""
    batches = [number.label for number in bench.numbers(next(iter(bench.entries)), "decode.step_ms")]
    rows: list[list[str]] = []
    for name in bench.entries:
        share = bench.number(name, "decode.bandwidth_share")
        steps = [speed(bench.number(name, "decode.step_ms", batch)) for batch in batches]
        rows.append([f"`{name}`", *steps, "-" if share is None else f"{share.value:.0%}"])
    heads = [f"ms a step, batch {batch}" for batch in batches]
    table = markdown(["", *heads, "of the read bandwidth, batch 1"], rows)
    return f"{table}\n\n`{bench.signature(next(iter(bench.entries)), 'decode.step_ms')}`"


def decoding_table(bench: Benchmark) -> str:
    """How many times faster our decoders are than others."""
    rows: list[list[str]] = []
    for name, entry in bench.entries.items():
        for measure in entry["measures"]:
            _, over, other = measure.partition("over.")
            best = "best of either, " if "best_over" in measure else ""
            rows += [
                [f"{best}`{name}` over {other}", number.label, speed(number), asked(number)]
                for number in (bench.numbers(name, measure) if over else ())
            ]
    return markdown(["", "batch", "times as fast", "target"], rows)


def length_table(bench: Benchmark) -> str:
    """Decoding speed by groups of source length."""
    names = list(bench.entries)
    rows = [
        [f"{number.label}", *(speed(bench.number(name, "decode.speed", number.label)) for name in names)]
        for number in bench.numbers(names[0], "decode.speed")
    ]
    rows.append(["mean", *(speed(bench.number(name, "decode.speed.mean")) for name in names)])
    table = markdown(["pieces of the source", *(f"`{name}`" for name in names)], rows)
    return f"{table}\n\n`{bench.signature(names[-1], 'decode.speed')}`"


def serve_table(bench: Benchmark) -> str:
    """The service under load, a column for each model."""
    names = list(bench.entries)

    def shown(measure: str, form: str) -> list[str]:
        found = [bench.number(name, f"serve.{measure}") for name in names]
        return ["-" if one is None else form.format(one.value) for one in found]

    def together(form: str, *measures: str) -> list[str]:
        return [" / ".join(parts) for parts in zip(*(shown(measure, form) for measure in measures), strict=True)]

    clients, requests = bench.data["clients"], bench.data["requests"]
    rows: list[list[str]] = []
    for beam in dict.fromkeys(number.label for name in names for number in bench.numbers(name, "serve.gain")):
        gains = [bench.number(name, "serve.gain", beam) for name in names]
        cells = [f"{speed(gain)}{'' if gain is None or gain.met else ', **missed**'}" for gain in gains]
        rows.append([f"answers to {clients} clients computed together, over one by one, beam {beam}", *cells, "≥ 3"])
    rows += [
        ["requests a second that it can do", *shown("sustained", "{:,.0f}"), "-"],
        [f"requests a second that came, {requests:,} in all", *shown("rate", "{:,.0f}"), "4 times as many"],
        ["of these translated / told to come again", *together("{:,.0f}", "done", "refused"), "-"],
        ["lost", *shown("lost", "{:,.0f}"), "0"],
        ["seconds until a translation: half / 99% / all", *together("{:.2f}", "median", "p99", "longest"), "bounded"],
        ["seconds that a full queue takes", *shown("bound", "{:.2f}"), "-"],
        ["seconds until a refusal, 99%", *shown("refusal_p99", "{:.3f}"), "-"],
        [
            "MB of memory after a tenth / half-way / at the end",
            *together("{:,.0f}", *(f"memory_{part}_mb" for part in ("tenth", "half", "end"))),
            "flat",
        ],
    ]
    signatures = "; ".join(f"`{bench.signature(name, 'serve.gain')}`" for name in names)
    return f"{markdown(['', *(f'`{name}`' for name in names), 'asked'], rows)}\n\n{signatures}"


_TRAIN: Final = {
    "train.step.over.softmax": "a whole training step, times as fast as softmax on SDPA",
    "train.step.peak_share": "a whole training step, share of the matrix product peak",
    "train.over.joeynmt": "training, times JoeyNMT's target tokens a second",
    "train.peak_share": "training, share of the matrix product peak",
}


def train_table(bench: Benchmark) -> str:
    """Training steps and whole trainings."""
    rows: list[list[str]] = []
    signatures: list[str] = []
    for measure, what in _TRAIN.items():
        for name in bench.entries:
            number = bench.number(name, measure)
            if number is not None and not (name == "softmax" and measure.endswith("over.softmax")):
                rows.append([f"`{name}`: {what}", speed(number), asked(number)])
                signatures += [f"`{bench.signature(name, measure)}`"] if ".over." in measure else []
    return markdown(["", "median", "target"], rows) + "\n\n" + "; ".join(signatures)


_GROUPS: Final[dict[str, Callable[[str, str], bool]]] = {
    "forward, T = 32..128": lambda m, c: m == "core.forward" and c.startswith("plain") and _length(c) <= 128,
    "forward, T = 512.., density 0.5": lambda m, c: m == "core.forward" and _is_long(c, "0.5"),
    "forward, T = 512.., density 0.15": lambda m, c: m == "core.forward" and _is_long(c, "0.15"),
    "forward + backward, T = 32..128": lambda m, c: (
        m == "core.forward+backward" and c.startswith("plain") and _length(c) <= 128
    ),
    "forward + backward, T = 512.., density 0.5": lambda m, c: m == "core.forward+backward" and _is_long(c, "0.5"),
    "forward + backward, T = 512.., density 0.15": lambda m, c: m == "core.forward+backward" and _is_long(c, "0.15"),
    "masks, Tq != Tk, grouped heads, dropout": lambda m, c: (
        m in ("core.forward", "core.forward+backward") and not c.startswith(("plain", "trained"))
    ),
    "queries, keys, values of a trained model": lambda _, c: c.startswith("trained"),
    "over the entmax package's entmax15": lambda m, _: m.endswith(".entmax15"),
    "training step over softmax": lambda m, _: m == "train.step.over.softmax",
    "training over JoeyNMT": lambda m, _: m == "train.over.joeynmt",
    "training, share of the matrix product peak": lambda m, _: m in ("train.peak_share", "train.step.peak_share"),
    "decoding over our softmax": lambda m, _: m == "decode.over.softmax",
    "decoding over CTranslate2, float32": lambda m, _: m == "decode.over.ctranslate2",
    "decoding over CTranslate2, best to best": lambda m, _: m == "decode.best_over.ctranslate2",
    "decoding over transformers": lambda m, _: m == "decode.over.transformers",
}


_WIDEST: Final = {"avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}
"""The widest vectors of a processor, by its flags."""


def _length(case: str) -> int:
    return int(case.partition("T=")[2].partition(" ")[0])


def _is_long(case: str, density: str) -> bool:
    return case.startswith("plain") and case.endswith(f"density={density}") and _length(case) >= 512


def summary_table(*machines: Sequence[Benchmark]) -> str:
    """Every target, and for each machine the least and greatest that was measured, and how often it was reached."""
    found = [_by_group(benches) for benches in machines]
    rows: list[list[str]] = []
    for group in _GROUPS:
        if numbers := [number for groups in found for number in groups.get(group, ())]:
            longest = max(_length(number.label) for number in numbers) if "512.." in group else 0
            name = group.replace("512..", f"512..{longest}")
            rows.append([name, f"≥ {numbers[0].target:g}", *(_verdict(groups.get(group, ())) for groups in found)])
    return markdown(["", "asked", *(_machine_name(benches) for benches in machines)], rows)


def _by_group(benches: Sequence[Benchmark]) -> dict[str, list[Number]]:
    found: dict[str, list[Number]] = {}
    for bench in benches:
        for entry, measure, number in bench.with_targets():
            if entry == "softmax":
                continue  # a baseline
            group = next(name for name, fits in _GROUPS.items() if fits(measure, number.label))
            found.setdefault(group, []).append(number)
    return found


def _verdict(numbers: Sequence[Number]) -> str:
    """The range of the numbers, and whether they all reach what was asked for."""
    if not numbers:
        return "-"
    values = [f"{number.value:.2f}" for number in sorted(numbers, key=lambda number: number.value)]
    ends = dict.fromkeys((values[0], values[-1]))  # one, if they are the same
    missed = sum(not number.met for number in numbers)
    return " to ".join(ends) + (f", **missed** in {missed} of {len(numbers)}" if missed else ", met")


def _machine_name(benches: Sequence[Benchmark]) -> str:
    """The maker and the widest vectors of the one processor that all these results are of."""
    names: dict[str, None] = {}
    for bench in benches:
        facts = bench.data["machine"]
        widest = next((name for flag, name in _WIDEST.items() if flag in facts["flags"]), "")
        maker = next((maker for maker in ("AMD", "Intel") if maker in facts["processor"]), facts["processor"])
        names[f"{maker}, {widest}" if widest else maker] = None
    if len(names) != 1:
        raise ValueError(
            f"expected results of one machine in a column, got {' and '.join(names) or 'none'}; "
            "measure all parts on one: make bench"
        )
    return next(iter(names))


def attentions_table(bench: Benchmark, part: str) -> str:
    """Every attention's sublayer or core beside torch's; a column for each length and mode."""
    names = [name for name in bench.entries if bench.numbers(name, f"{part}.forward")]
    first: dict[str, Any] = bench.entries[names[0]]["measures"]
    lengths = first[f"{part}.forward"]["labels"]["length"]
    middle = lengths[len(lengths) // 2]
    rows: list[list[str]] = []
    for name in names:
        zeros = bench.number(name, "sparsity", middle)
        speeds = [number for mode in MODES for number in bench.numbers(name, f"{part}.{mode}")]
        rows.append([f"`{name}`", "-" if zeros is None else f"{zeros.value:.0%}", *(f"{n.value:.2f}" for n in speeds)])
    heads = [f"{mode} {length}" for mode in ("fwd", "both") for length in lengths]
    signature = bench.signature(names[0], f"{part}.forward")
    rounds = max(number.rounds or 0 for number in bench.numbers(names[0], f"{part}.forward"))
    tokens = signature.partition("|tokens:")[2].partition("|")[0]
    recipe = signature.partition("|d:")[2].partition("|tokens:")[0]
    note = (
        f"fwd: inference; both: forward and backward in training; the number is the length T. zeros: share of weights "
        f"that are exactly 0 at T={middle}, at the start of training. {tokens} tokens a batch, `d:{recipe}`; medians "
        f"of {rounds} interleaved rounds, fewer for what is over ten times slower."
    )
    return f"{markdown(['attention', 'zeros', *heads], rows)}\n\n{note}"
