"""`regard human`: people judge outputs; campaigns, the page they see, and what their answers say."""

import json
import signal
import threading
from pathlib import Path

import typer

from regard.errors import UsageError

app = typer.Typer(help="Let people judge outputs.", no_args_is_help=True, rich_markup_mode=None)


@app.command("new")
def new(
    campaign: Path = typer.Argument(..., metavar="CAMPAIGN.json", help="The file to write."),
    source: Path = typer.Option(..., "--source", help="Sources, a line each."),
    output: list[str] = typer.Option(..., "--output", metavar="NAME=FILE", help="Outputs of a system; once for each."),
    reference: Path | None = typer.Option(None, "--reference", help="References, a line each, shown to annotators."),
    kind: str = typer.Option("direct", "--kind", help="adequacy-fluency, direct, pairwise or ranking."),
    items: int = typer.Option(50, "--items", help="Lines that are drawn."),
    annotators: int = typer.Option(1, "--annotators", help="People who judge; each gets a link."),
    shared: float = typer.Option(1.0, "--shared", help="Share of items that everybody sees; the others are dealt."),
    repeats: float = typer.Option(0.1, "--repeats", help="Share of tasks that are asked a second time."),
    seed: int = typer.Option(1, "--seed", help="Another seed draws other items in another order."),
) -> None:
    """Draw lines and deal them to annotators.

    Which system made an output stands only in the file. Keep it from the annotators: it holds their links, too.
    """
    from regard.data import read_lines
    from regard.human import KINDS, Plan, make_campaign, write_campaign

    chosen = next((each for each in KINDS if each == kind), None)
    if chosen is None:
        raise UsageError(f"--kind {kind}: must be one of {', '.join(KINDS)}")
    plan = Plan(kind=chosen, items=items, annotators=annotators, shared=shared, repeats=repeats, seed=seed)
    made = make_campaign(
        plan,
        sources=list(read_lines(source)),
        outputs={name: list(read_lines(file)) for name, file in _named(output).items()},
        references=None if reference is None else list(read_lines(reference)),
    )
    write_campaign(campaign, made)
    for annotator in made.annotators:
        again = sum(task.repeats is not None for task in annotator.tasks)
        typer.echo(f"{annotator.name}: {len(annotator.tasks):,} tasks, {again:,} of them repeats", err=True)
    typer.echo(f"next: regard human serve {campaign}", err=True)


def _named(outputs: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for each in outputs:
        name, separator, file = each.partition("=")
        if not (separator and name and file):
            raise UsageError(f"--output {each}: must be NAME=FILE, such as baseline=baseline.de")
        if name in named:
            raise UsageError(f"--output {each}: there are two systems of the name {name}; give them different names")
        named[name] = file
    return named


@app.command("serve")
def serve(
    campaign: Path = typer.Argument(..., metavar="CAMPAIGN.json", help="What `regard human new` has made."),
    port: int = typer.Option(8765, "--port", help="Where to listen; 0 takes any port that is free."),
    host: str = typer.Option("127.0.0.1", "--host", help="Another host lets other machines in, and needs a key."),
    key: str | None = typer.Option(
        None, "--key", envvar="REGARD_KEY", help="What annotators must type; tell it apart from the links."
    ),
    name: list[str] = typer.Option([], "--name", help="A name of this machine in links; may be given again."),
) -> None:
    """Show the page to annotators until Ctrl-C; every answer is on the disk before it is acknowledged."""
    from regard.human import Answers, answers_path, read_campaign
    from regard.human.server import Address, Server, answered

    address = Address(host=host, port=port, key=key, names=tuple(name))
    read = read_campaign(campaign)
    with Answers(answers_path(campaign), read) as answers:
        if answers.mended:
            typer.echo(
                f"regard: {answers.mended} bytes of an answer that was never acknowledged were cut off", err=True
            )
        server = Server(read, answers, address)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a browser that goes away must not end the server
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, lambda *_: threading.Thread(target=server.shutdown).start())
        counts = answered(read, answers)
        for annotator in read.annotators:
            done, total = counts[annotator.name]
            typer.echo(f"{annotator.name}  {server.link(annotator)}  {done:,} of {total:,} answered")
        typer.echo(f"answers go to {answers.path}; Ctrl-C stops", err=True)
        server.serve_forever(poll_interval=0.2)
        server.server_close()
        done = sum(count for count, _ in answered(read, answers).values())
        typer.echo(f"{done:,} answers in {answers.path}", err=True)


@app.command("results")
def results(
    campaign: Path = typer.Argument(..., metavar="CAMPAIGN.json", help="A campaign with answers."),
    as_json: bool = typer.Option(False, "--json", help="Write everything as JSON."),
    resamples: int = typer.Option(1000, "--resamples", min=100, max=100_000, help="Draws for intervals and tests."),
) -> None:
    """Say how good each system was found, how sure that is, and how far annotators agree."""
    from regard.human import answers_path, read_answers, read_campaign
    from regard.human.results import evaluate
    from regard.human.table import render

    read = read_campaign(campaign)
    result = evaluate(read, read_answers(answers_path(campaign), read), resamples=resamples)
    typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False) if as_json else render(result))
    for warning in result.warnings:
        typer.echo(f"regard: {warning}", err=True)
