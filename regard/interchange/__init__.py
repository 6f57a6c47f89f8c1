"""Models that come from elsewhere, and models that go there."""

from regard.interchange.importing import Imported, import_checkpoint
from regard.interchange.sentence import SentenceEncoder, sentence_encoder

__all__ = ["Imported", "SentenceEncoder", "import_checkpoint", "sentence_encoder"]
