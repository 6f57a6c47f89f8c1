"""What was there before a training is not looked through again and again for garbage.

Python looks for objects that hold nothing but each other whenever many new ones are there, and now and then through all
of them: with torch loaded, as long as one or two updates of a small model take, and all lanes wait for it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def set_aside() -> Iterator[None]:
    """Leave all objects that there are out of collections, for the length of a block.

    What becomes garbage in the meantime, and only then, is found at its end, if it holds itself. Who has set objects
    aside before knows better, and is left alone.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()  # a model that was trained before may hold itself, and would stay
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
