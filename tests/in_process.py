"""Runs of a series in this process, one after the other: what `train_all` does, without the time to start processes."""

from collections.abc import Callable, Sequence

from regard.errors import RegardError
from regard.run.series import Failed, Job, Result, finished_run, remember
from regard.run.training import train


def train_all_here(
    jobs: Sequence[Job], *, workers: int, tell: Callable[[str], None], overwrite: bool = False
) -> dict[str, Result]:
    """Train what is not finished."""
    del workers
    results: dict[str, Result] = {}
    for job in jobs:
        finished = None if overwrite else finished_run(job.recipe)
        if finished is None:
            tell(f"{job.name}: training")
            try:
                remember(job.recipe, train(job.recipe, overwrite=overwrite))
            except RegardError as error:
                results[job.name] = Failed(str(error), error.exit_code)
                continue
            finished = finished_run(job.recipe)
            assert finished is not None
        results[job.name] = finished
    return results
