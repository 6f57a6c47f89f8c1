"""`regard inspect`: where a model looks while it writes."""

from dataclasses import replace
from pathlib import Path

import typer

from regard.errors import UsageError


def inspect(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    sentence: str = typer.Argument(..., metavar="SENTENCE", help="The source."),
    target: str | None = typer.Option(None, "--target", help="Look at this target instead of the model's own output."),
    beam: int | None = typer.Option(None, "--beam", min=1, max=1024, help="Hypotheses kept; 1 is greedy."),
    layer: int | None = typer.Option(None, "--layer", help="Decoder layer, from 0; -1 is the last."),
    head: int | None = typer.Option(None, "--head", help="Attention head, from 0."),
    html: Path | None = typer.Option(None, "--html", help="Write a page."),
    svg: Path | None = typer.Option(None, "--svg", help="Write a picture."),
) -> None:
    """Show the alignment of a source with the output, in the terminal, as a page or as a picture."""
    from regard.cli.console import colour, terminal_width, write_text
    from regard.report import to_html, to_svg, to_text
    from regard.run.model import Model

    model = Model.load(run)
    if not sentence.strip():
        raise UsageError("the sentence is blank; there is nothing to look at")
    text = target
    if text is None:
        prediction = model.predict(sentence, beam=beam)
        if prediction.fault:
            raise UsageError(f"the sentence cannot be read: {prediction.fault}")
        text = prediction.text
    if not text.strip():
        raise UsageError("the output is empty; there is nothing to align. Give a target with --target")
    reading = model.reading
    if layer is not None or head is not None:
        reading = replace(reading, layer=reading.layer if layer is None else layer, head=head)
    picture = replace(model.align([(sentence, text)], reading)[0], title=text)
    for path, draw in ((html, to_html), (svg, to_svg)):
        if path is not None:
            write_text(path, draw(picture))
            typer.echo(f"wrote {path}", err=True)
    if html is None and svg is None:
        typer.echo(to_text(picture, terminal_width(), colour=colour()), color=colour())
