"""Writes docs/performance.md and its picture from a record."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.cells import LABELS, OURS, SLOW, SYSTEMS, Cell, decodings, memories, trainings
from peers.configs import FEW_STEPS, LONG_STEPS
from peers.figures import (
    Figure,
    Goal,
    Read,
    at,
    decoding_settings,
    engine_goals,
    faster,
    fault,
    figure,
    goals,
    held,
    limit,
    ours,
    rate,
    share,
)
from peers.picture import picture
from peers.shapes import SHAPES, training_operations
from regard.files import replace_file

Record = Mapping[str, Any]
PAGE, PICTURE = "performance.md", "performance.svg"

HEAD = f"""\
# How fast it is, beside its peers

Training and decoding of the same models on the same cores, by regard and by the programs that people use for this.
Every figure on this page comes from `make bench`, which installs the peers, runs everything and writes the page; run it
on idle cores to see it on your own machine.

- **Data**: Multi30k, English to German, one joint BPE vocabulary of 8,000 entries, learned once by regard; peers read
  its pieces. Test: test_2016, 1,000 sentences.
- **Training**: batches of about 4,096 target tokens, dropout 0.1, label smoothing 0.1, Adam, gradients clipped as each
  does by itself. Each program runs its own training command; Transformers has none for this, so it runs the plain loop
  that a user would write, with batches of alike lengths. Rates are target tokens per second, ends included and padding
  not, the median over the windows of the log after the first steps.
- **Not at their defaults**: Eole and OpenNMT-py sort the corpus once instead of nine copies of it, which shortens their
  start, and read it in the process that trains, so that nothing takes a core from the steps that count; Eole is spared
  its log of the sharpness of attention. What had to be mended to run a peer beside this torch is told below. Of regard,
  the faster of float32 and bfloat16 is what others are compared with; its default is float32.
- **Allocator tuned**: with `MALLOC_MMAP_MAX_=0` and a large `MALLOC_TRIM_THRESHOLD_` in the environment, which regard
  settles by itself. Peers are shown both ways in training; in decoding those that a measure names, and Transformers on
  B, in the settings that matter most. Nothing was aimed at for decoding so: its ratios stand beside the others.
- **Memory**: compared is the most that a program holds in a training of {LONG_STEPS.all} steps of A, in one round: in
  the first steps memory still grows. The tables of training show the most of the few steps that are timed there.
- **A few steps only**: JoeyNMT and yoyodyne have batches of all lengths and take so long over a step that two are
  timed, in one round. Where regard is far slower in bfloat16 than in float32, because the processor does not have it,
  A has one round in bfloat16, and the larger models are not trained in it.
- **Decoding**: with natural ends and, so that everyone does the same work, with a length forced to 16 steps. regard,
  Transformers and CTranslate2 decode with the same weights, trained by regard and exported. Eole and OpenNMT-py decode
  with what they have learned in the run above, which is too little to end a sentence: with forced length only. Of B and
  C a part of the test set is decoded, and one by one a smaller part. regard reads and writes text where torch searches;
  all others, its native engine too, get and give tokens. CTranslate2 runs as many workers of one thread as there are
  cores, for single sentences one thread, with AVX-512 forced where the processor has it, and in batches of 16, 32 or 64
  sentences, whichever is fastest; the native engine has as many workers, and takes 16 sentences at a time.
- **Ends of a beam search**: by themselves, regard and Transformers end a search when no beginning would be better than
  what is written if it ended now; Transformers wants as many outputs as the beam is wide for that. Both are also run to
  the last, until nothing better can come (`exact`: `--stopping exact`, `early_stopping="never"`).
- **Rounds**: everything runs once, one after the other. Then all again but peers that are not among the best two of
  what they are compared in, nor named by what was aimed at: these have one round.
  Figures are medians over the rounds, ± is half of what lies between
  the least and the greatest of them; where there is none, there was one round. Ratios are taken within a round; above 1
  regard is faster. Cells that were measured again after a change (`--redo`) have rounds of another day than the rest.
"""


def write_pages(record: Record, folder: Path) -> None:
    """The page and its picture."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / PAGE, page(record).encode())
    replace_file(folder / PICTURE, picture(record).encode())


def page(record: Record) -> str:
    sections = [HEAD, where(record), f"![Rates beside those of regard]({PICTURE})"]
    heads = ["", "must", "stretch", "seen", "in rounds", ""]
    sections += ["## What was aimed at", table(heads, goal_rows(goals(record)))]
    sections += ["The native engine, in 8 bits and with natural ends:", table(heads, goal_rows(engine_goals(record)))]
    for name, shape in SHAPES.items():
        sections += [f"## Training {name}", f"{shape.told}. {steps_told(record, name)}", training_table(record, name)]
        sections += memory_table(record, name)
    sections += ["## Decoding", models(record)]
    for name in SHAPES:
        if decoding_settings(record, name):
            sections += [f"### Model {name}", decoding_table(record, name), output_lengths(record, name)]
    sections += ["## Starting", START, table(["", "seconds", ""], start_rows(record))]
    sections += ["## The limit of the machine", LIMIT, *limit_tables(record)]
    sections += ["## The peers", table(["", "version", "torch", ""], peer_rows(record))]
    return "\n\n".join(section.strip("\n") for section in sections if section) + "\n"


START = "`--help` of the command; of Transformers and CTranslate2, which have none, the import."
LIMIT = """\
Matrix products alone, of the shapes that training needs, two operations for each multiply-add. The limit is what a
program would reach that did nothing but the products with weights, forward and twice backward; attention's own products
are not in it. *Each alone*: every product at its fastest, over and over on the same numbers, which then lie in the
nearest cache. *In order*: the products of a step one after the other, each on numbers of its own, as training does
them. A token of the target needs the operations of its pair divided by the length of its target. The recurrent products
of C are taken as if all steps were one product, which no program can do."""


def where(record: Record) -> str:
    about = record["about"]
    machine = about["machine"]
    rounds = max((len(rounds) for rounds in record["cells"].values()), default=0)
    quick = " **This was a quick trial of a few steps: none of it is a result.**" if about["quick"] else ""
    return (
        f"Measured on {machine['processor']}, {about['threads']} threads on {machine['cores']} cores, "
        f"{machine['system']}, Python {machine['python']}, torch {about['torch']}, in {rounds} rounds.{quick}"
    )


def table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)])


def shown(found: Figure, digits: int = 0) -> str:
    """A median and half of the spread, where there are several rounds."""
    if not found:
        return "–"
    return f"{found.median:,.{digits}f}" + (f" ± {50 * found.spread:.0f} %" if len(found.known) > 1 else "")


def times(found: Figure) -> str:
    return f"{found.median:.2f}" if found else "–"


def goal_rows(wanted: Sequence[Goal]) -> Iterator[list[str]]:
    for goal in wanted:
        state = "" if goal.aim is None or not goal.found else "met" if goal.met else "missed"
        sign = "≤" if goal.most else "≥"
        aim = "" if goal.aim is None else f"{sign} {goal.aim:g}"
        stretch = "" if goal.stretch is None else f"{sign} {goal.stretch:g}"
        yield [goal.name, aim, stretch, times(goal.found), by_round(goal.found), state]


def by_round(found: Figure) -> str:
    """The least and the greatest."""
    return f"{min(found.known):.2f} – {max(found.known):.2f}" if len(found.known) > 1 else ""


def training_table(record: Record, model: str) -> str:
    heads = ["", "tokens/s", "regard is as fast, times", "tokens a step", "parameters", "memory, MB", "of ours"]
    return table(heads, training_rows(record, model))


def training_rows(record: Record, model: str) -> Iterator[list[str]]:
    """The first of ours is the faster one, and what the others are compared with."""
    own = ours(record, model)
    mine = Cell(kind="train", system=OURS, model=model, precision=faster(record, model))
    memory = figure(record, mine, held)
    for cell in trainings(model):
        found, used = figure(record, cell, rate), figure(record, cell, held)
        if not found:
            yield [cell.label, fault(record, cell), "", "", "", "", ""]
            continue
        parameters = next(one["parameters"] for one in record["cells"][cell.key] if "parameters" in one)
        yield [
            cell.label,
            shown(found),
            times(own.over(found)),
            tokens_of(record, cell),
            f"{parameters:,}",
            megabytes(used),
            times(used.over(memory)),
        ]


def steps_told(record: Record, model: str) -> str:
    """Of how many steps the memory in a table is."""
    steps = record["about"]["steps"][model]
    slow = [LABELS[cell.system] for cell in trainings(model) if cell.system in SLOW and not cell.tuned]
    few = f", of {' and '.join(slow)} in {FEW_STEPS.all}" if slow and not record["about"]["quick"] else ""
    return f"Memory is the most held in {steps['warm'] + steps['timed']} steps{few}."


def memory_table(record: Record, model: str) -> list[str]:
    """How memory grows over a longer training; nothing where nobody has looked."""
    cells = [cell for cell in memories() if cell.model == model]
    known = [one for cell in cells for one in record["cells"].get(cell.key, []) if one.get("seen")]
    if not known:
        return []
    first, last = (known[0]["seen"][place]["step"] for place in (0, -1))
    own = Cell(kind="memory", system=OURS, model=model, precision=faster(record, model))
    memory = figure(record, own, held)
    rows = []
    for cell in cells:
        if why := fault(record, cell):
            rows.append([cell.label, why, *[""] * 5])
            continue
        told = [megabytes(figure(record, cell, seen_at(place, name))) for name, place in GROWTH]
        used = figure(record, cell, held)
        rows.append([cell.label, *told, megabytes(used), times(used.over(memory))])
    heads = ["", f"most until step {first}, MB", f"until step {last}", f"held after step {first}", f"after step {last}"]
    text = f"Memory over {known[0]['steps']} steps; at the end, of the whole program, its start and its end included:"
    return [text, table([*heads, "most of all", "of ours"], iter(rows))]


GROWTH = (("peak", 0), ("peak", -1), ("resident", 0), ("resident", -1))
"""The columns that show how memory grows: at the first look, at the last."""


def seen_at(place: int, name: str) -> Read:
    return lambda result: result["seen"][place][name] if result["seen"] else None


def megabytes(found: Figure) -> str:
    return f"{found.median / 1e6:,.0f}" if found else "–"


def tokens_of(record: Record, cell: Cell) -> str:
    """Real target tokens of a batch, where a program tells."""
    found = figure(record, cell, lambda result: result.get("tokens") or None)
    return f"{found.median:,.0f}" if found else "–"


def models(record: Record) -> str:
    told = [
        f"{name}: {one['steps']} steps, BLEU {one['BLEU']:.1f}" for name, one in record["models"].items() if one["BLEU"]
    ]
    end = f" The models were trained briefly by regard ({'; '.join(told)})." if told else ""
    return f"Sentences per second; in brackets, how many times as many regard decodes in one process.{end}"


def decoding_table(record: Record, model: str) -> str:
    settings = decoding_settings(record, model)
    mine = Cell(kind="decode", system=OURS, model=model)
    rows = []
    for cell in decodings(model):
        if why := fault(record, cell):
            rows.append([cell.label, why, *[""] * len(settings)])
            continue
        cells = []
        for setting in settings:
            found = figure(record, cell, at(setting))
            ratio = figure(record, mine, at(setting)).over(found)
            same = cell == mine or not ratio
            cells.append("–" if not found else shown(found) if same else f"{shown(found)} ({times(ratio)})")
        used = [figure(record, cell, at(setting, "bytes")) for setting in settings]
        most = max((one.median for one in used if one), default=0)
        rows.append([cell.label, *cells, f"{most / 1e6:,.0f}" if most else "–"])
    return table(["", *settings, "memory, MB"], iter(rows))


def output_lengths(record: Record, model: str) -> str:
    """Whether programs that end where they like have done the same work."""
    told = []
    for cell in decodings(model):
        found = figure(record, cell, mean_length)
        if found:
            told.append(f"{cell.label} {found.median:.1f}")
    return f"Tokens of an output with natural ends, batch 64, beam 5: {'; '.join(told)}." if told else ""


def mean_length(result: Mapping[str, Any]) -> float | None:
    one = result["figures"].get("natural batch 64 beam 5", {})
    return one["tokens"] / one["sentences"] if "tokens" in one else None


def start_rows(record: Record) -> Iterator[list[str]]:
    for system in SYSTEMS:
        cell = Cell(kind="start", system=system)
        found = figure(record, cell, lambda result: result["seconds"])
        yield [cell.label, shown(found, 2), "" if found else fault(record, cell)]


def limit_tables(record: Record) -> list[str]:
    source, target = record["about"]["lengths"]
    rows = []
    for name, shape in SHAPES.items():
        for precision in ("float32", "bfloat16"):
            bounds = [limit(record, name, precision, one) for one in ("limit", "order")]
            reached = [share(record, name, precision, one) for one in ("limit", "order")]
            millions = training_operations(shape, source, target) / 1e6
            told = [text for one, other in zip(bounds, reached, strict=True) for text in (shown(one), times(other))]
            rows.append([name, precision, f"{millions:.1f}", *told])
    heads = ["", "precision", "million operations a target token"]
    heads += ["each alone, tokens/s", "share that regard reaches", "in order, tokens/s", "share that regard reaches"]
    return [table(heads, iter(rows)), table(["product", "precision", "GFLOP/s"], product_rows(record))]


def product_rows(record: Record) -> Iterator[list[str]]:
    """The speed of every product, by shape."""
    cell = Cell(kind="limit", system=OURS)
    rounds = [one for one in record["cells"].get(cell.key, []) if "fault" not in one]
    for place in rounds[0]["products"] if rounds else []:
        names = ("rows", "inner", "outer", "precision")
        values = [
            other["speed"] / 1e9
            for one in rounds
            for other in one["products"]
            if all(other[name] == place[name] for name in names)
        ]
        told = f"{place['rows']:,} × {place['inner']:,} × {place['outer']:,}"
        yield [told, place["precision"], shown(Figure(tuple(values)))]


def peer_rows(record: Record) -> Iterator[list[str]]:
    for name in SYSTEMS:
        if name in record["peers"]:
            one = record["peers"][name]
            state = f"does not install: {one['fault']}" if one["fault"] else one["note"]
            yield [Cell(kind="start", system=name).label, one["package"], one["torch"], state]
