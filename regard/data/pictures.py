"""Picture files as rows of numbers, which stores keep as they keep ids: [height, width, pixels...], row by row.

Pillow reads them; it is an extra, and is asked for where the first picture is read. Only formats that are decoded
inside Pillow itself are opened: others would start programs on files of unknown origin.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from regard.data.example import Example, Misfit
from regard.data.excerpt import excerpt
from regard.data.store import Store
from regard.errors import UsageError

FORMATS: Final = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MOST_PIXELS: Final = 4_000_000
"""A small file may hold a huge picture; a larger one than this is refused before it is decoded."""

Pixels = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Pictures:
    """How pictures are read: grey (one channel) or red, green and blue (three).

    `cell` is the side of the square of pixels that a model makes one item of; batches are measured in such items.
    """

    channels: int
    cell: int = 1

    def read(self, path: str) -> Pixels:
        """The row of a picture file; a Misfit says why there is none."""
        try:
            from PIL import Image, ImageOps
        except ImportError:
            raise UsageError("pictures are read by the package pillow: `pip install pillow`") from None
        name = excerpt(path, 4096)
        if not _readable(path):
            raise Misfit(f"{name}: a pipe or a device is no file of a picture")
        large = f"more than the {MOST_PIXELS:,} pixels a picture may have; make it smaller"
        try:
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Misfit(f"{name}: {image.width} × {image.height} are {large}")
                if image.mode[0] in "IF":
                    raise Misfit(f"{name}: pixels of more than 8 bit a channel; save the picture with 8")
                upright = ImageOps.exif_transpose(image)
                if upright.has_transparency_data:
                    seen = upright.convert("RGBA")
                    upright = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
                pixels = np.asarray(upright.convert("L" if self.channels == 1 else "RGB"), dtype=np.int32)
        except Misfit:
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise Misfit(f"{name}: it has many times {large}") from None
        except FileNotFoundError:
            raise Misfit(f"{name}: there is no such picture") from None
        except Exception as error:  # decoders stumble over broken files in many ways
            told = error.strerror if isinstance(error, OSError) and error.strerror else "broken, or of another format"
            raise Misfit(f"{name}: cannot be read as a picture ({told}); known are {', '.join(FORMATS)}") from None
        return np.concatenate((np.array(pixels.shape[:2], dtype=np.int32), pixels.ravel()))

    def items(self, store: Store, stream: str) -> npt.NDArray[np.int64]:
        """How many items a model makes of each picture of a store: (n,)."""
        sizes = np.array([store.ids(stream, index)[:2] for index in range(len(store))], dtype=np.int64)  # (n, 2)
        found: npt.NDArray[np.int64] = (-(-sizes // self.cell)).prod(axis=1)
        return found

    def arrays(self, rows: Iterable[npt.ArrayLike]) -> list[npt.NDArray[np.float32]]:
        """Rows as pictures of numbers from 0 to 1: (channels, height, width) each."""
        pictures = []
        for row in rows:
            whole = np.asarray(row)
            shape = (int(whole[0]), int(whole[1]), self.channels)
            pictures.append((whole[2:].reshape(shape) / np.float32(255)).astype(np.float32).transpose(2, 0, 1))
        return pictures


def _readable(path: str) -> bool:
    """Whether a path may be opened: a pipe would wait for ever, a device never end. What is not there may be tried."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def beside_files(examples: Iterable[Example]) -> Iterator[Example]:
    """Examples whose pictures are told from the folder of their file, told from the working directory instead."""
    return (replace(one, fields={**one.fields, "source": _beside(one)}) for one in examples)


def _beside(example: Example) -> str:
    """Further columns stand behind the path and stay as they are."""
    blank = not example.source.partition("\t")[0].strip()
    # Not a Path, which would change what stands behind the path.
    return example.source if blank else os.path.join(Path(example.place.file).parent, example.source)  # noqa: PTH118


def picture_key(pictures: Pictures, examples: Iterable[Example]) -> str:
    """A hash of how pictures are read, and of the bytes of all of them in order; one that is missing counts as none."""
    whole = hashlib.sha256(f"{pictures.channels}".encode())
    for example in examples:
        path = example.source.partition("\t")[0]
        try:
            if not _readable(path):
                raise OSError(path)
            with Path(path).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except (OSError, ValueError):
            whole.update(b"none")
    return whole.hexdigest()
