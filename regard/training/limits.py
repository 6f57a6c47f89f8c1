"""When a training is over."""

from regard.training.progress import Progress
from regard.training.settings import Settings


def reason_to_end(settings: Settings, progress: Progress) -> str:
    """Why training is over, or nothing: whichever limit is reached first."""
    if settings.steps is not None and progress.step >= settings.steps:
        return f"{_counted(progress.step, 'step')} done"
    if settings.epochs is not None and progress.epoch >= settings.epochs:
        return f"{_counted(progress.epoch, 'epoch')} done"
    if settings.minutes is not None and progress.seconds >= 60 * settings.minutes:
        return f"{settings.minutes:g} minute{' is' if settings.minutes == 1 else 's are'} over"
    if settings.patience is not None and progress.without_gain >= settings.patience:
        return f"{_counted(progress.without_gain, 'validation')} without a gain"
    return ""


def expected_steps(settings: Settings, batches_in_epoch: int) -> int | None:
    """About how many steps there will be at most, if that is known."""
    limits = [] if settings.steps is None else [settings.steps]
    if settings.epochs is not None:
        limits.append(settings.epochs * batches_in_epoch)
    return min(limits, default=None)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
