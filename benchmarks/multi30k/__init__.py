"""Translation of Multi30k: what is trained, how it is run and judged, and the pages that are written from it."""
