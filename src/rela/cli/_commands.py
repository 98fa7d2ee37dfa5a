"""The list of commands. A new one is one entry here and one file beside this one."""

from collections.abc import Callable
from dataclasses import dataclass

from rela.cli import (
    align,
    analyze,
    average,
    bench_align,
    bench_attention,
    bench_decode,
    bench_length,
    bench_memory,
    bench_noise,
    bench_score,
    bench_serve,
    bench_train,
    demo,
    doctor,
    evaluate,
    export,
    filter_corpus,
    flops,
    grammar,
    noise,
    prepare,
    report,
    reproduce,
    score,
    serve,
    train,
    translate,
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: the words that call it, what it runs, and the example its help shows.

    The function's docstring is the help, its annotated parameters are the options. A name of two words,
    such as "bench attention", is a command inside a group.
    """

    name: str
    run: Callable[..., None]
    example: str


COMMANDS: list[Command] = [
    Command(name="demo", run=demo.demo, example="rela demo --attention softmax --json demo.json"),
    Command(
        name="prepare",
        run=prepare.prepare,
        example="rela prepare runs/store --corpus multi30k-en-de --merges 5000",
    ),
    Command(name="train", run=train.train, example="rela train configs/multi30k.yaml --set model.attention=softmax"),
    Command(name="average", run=average.average, example="rela average runs/multi30k --last 5"),
    Command(
        name="translate",
        run=translate.translate,
        example="rela translate --model runs/multi30k news.en -o news.de",
    ),
    Command(
        name="align",
        run=align.align,
        example="rela align runs/multi30k --src test.en --tgt test.de -o test.align",
    ),
    Command(
        name="grammar",
        run=grammar.grammar,
        example="rela grammar corpus --count train=100000 --count test=1000",
    ),
    Command(
        name="bench attention",
        run=bench_attention.attention,
        example="rela bench attention --lengths 32,128,512 --model runs/multi30k --json speed.json",
    ),
    Command(
        name="bench decode",
        run=bench_decode.decode,
        example="rela bench decode --batches 1,16 --threads 2 --json decode.json",
    ),
    Command(
        name="bench length",
        run=bench_length.length,
        example="rela bench length --corpus multi30k-en-de --json length.json",
    ),
    Command(
        name="bench memory",
        run=bench_memory.memory,
        example="rela bench memory --json memory.json --resume",
    ),
    Command(
        name="bench align",
        run=bench_align.align,
        example="rela bench align runs/multi30k --src test.en --tgt test.de",
    ),
    Command(
        name="bench noise",
        run=bench_noise.noise,
        example="rela bench noise --learn-src dev.en --learn-tgt dev.de --src test.en --tgt test.de runs/multi30k",
    ),
    Command(
        name="bench score",
        run=bench_score.score,
        example="rela bench score runs/multi30k --src train.en --tgt train.de --json score.json",
    ),
    Command(
        name="bench serve",
        run=bench_serve.serve,
        example="rela bench serve runs/multi30k --src test.en --json serve.json",
    ),
    Command(
        name="bench train",
        run=bench_train.train,
        example="rela bench train --store runs/multi30k-store --joeynmt joeynmt/bin/python",
    ),
    Command(
        name="evaluate",
        run=evaluate.evaluate,
        example="rela evaluate ours.de --reference test.de --system theirs.de --language de",
    ),
    Command(
        name="analyze",
        run=analyze.analyze,
        example="rela analyze runs/rela-g --compare runs/softmax --src test.en --tgt test.de --out runs/analysis",
    ),
    Command(
        name="score",
        run=score.score,
        example="rela score runs/multi30k pairs.tsv -o scored.tsv",
    ),
    Command(
        name="noise",
        run=noise.noise,
        example="rela noise --src train.en --tgt train.de --share 0.3 -o crawl.tsv --labels crawl.labels",
    ),
    Command(
        name="filter",
        run=filter_corpus.filter_corpus,
        example="rela filter crawl.tsv --model runs/multi30k --keep 0.8",
    ),
    Command(
        name="serve", run=serve.serve, example="rela serve runs/multi30k softmax=runs/multi30k-softmax --port 8000"
    ),
    Command(name="report", run=report.report, example="rela report runs/analysis --paper --out report"),
    Command(
        name="reproduce",
        run=reproduce.reproduce,
        example="rela reproduce --corpus multi30k-en-de --scale laptop --only table1,figure6",
    ),
    Command(name="export", run=export.export, example="rela export runs/multi30k --onnx exported --int8"),
    Command(name="flops", run=flops.flops, example="rela flops --heads 8 --dim 512 --length 100 --json -"),
    Command(name="doctor", run=doctor.doctor, example="rela doctor --json -"),
]

GROUPS: dict[str, str] = {"bench": "Measure speed side by side with what users would pick instead."}
"""The help of each group of commands."""
