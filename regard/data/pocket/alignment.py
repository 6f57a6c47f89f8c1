"""Gold word alignments from the anchors of two renderings."""

from regard.data.pocket.rendering import Rendering

Links = tuple[tuple[int, int], ...]


def align(source: Rendering, target: Rendering) -> Links:
    """All (i, j) such that source word i and target word j share an anchor, in order."""
    positions: dict[str, list[int]] = {}
    for index, anchors in enumerate(source.anchors):
        for anchor in anchors:
            positions.setdefault(anchor, []).append(index)
    links = {
        (index, other)
        for other, anchors in enumerate(target.anchors)
        for anchor in anchors
        for index in positions.get(anchor, ())
    }
    return tuple(sorted(links))


def pharaoh(links: Links) -> str:
    """Links as `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in links)
