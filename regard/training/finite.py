"""Numbers that are not finite are found before anything is judged or saved."""

from collections.abc import Iterable

from torch import Tensor

from regard.errors import DivergedError

ADVICE = (
    "Checkpoints, if there are any, are intact: go on with a lower training.learning_rate, a longer training.warmup or "
    "a lower training.clip"
)


def check_finite(named: Iterable[tuple[str, Tensor]], step: int) -> None:
    """Refuse tensors that hold a NaN or an infinity, so that none becomes the best or the last weights."""
    wrong = [name for name, tensor in named if not bool(tensor.isfinite().all())]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DivergedError(
            f"training diverged: after step {step:,} there are numbers that are not finite in {wrong[0]}{more}, so "
            f"these weights are neither judged nor saved. {ADVICE}"
        )
