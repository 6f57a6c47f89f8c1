"""Characters to ids and back: units of text, vocabularies, normalisation, and the words behind tokens."""

from regard.text.backwards import BackwardTokenizer
from regard.text.build import Answer, Unit, load_tokenizer, train_answers, train_tokenizer
from regard.text.byte import ByteTokenizer
from regard.text.character import CharacterTokenizer
from regard.text.codes import Codes, CodesTokenizer
from regard.text.encoding import Encoding
from regard.text.imported import ImportedTokenizer
from regard.text.inflection import InflectionTokenizer
from regard.text.label import LabelTokenizer, NumberTokenizer
from regard.text.normal import Normalised, NormalisedTokenizer, Normaliser
from regard.text.piece import PieceTokenizer
from regard.text.tokenizer import Draw, Tokenizer
from regard.text.word import WordTokenizer
from regard.text.words import tokens_to_words, word_spans

__all__ = [
    "Answer",
    "BackwardTokenizer",
    "ByteTokenizer",
    "CharacterTokenizer",
    "Codes",
    "CodesTokenizer",
    "Draw",
    "Encoding",
    "ImportedTokenizer",
    "InflectionTokenizer",
    "LabelTokenizer",
    "Normalised",
    "NormalisedTokenizer",
    "Normaliser",
    "NumberTokenizer",
    "PieceTokenizer",
    "Tokenizer",
    "Unit",
    "WordTokenizer",
    "load_tokenizer",
    "tokens_to_words",
    "train_answers",
    "train_tokenizer",
    "word_spans",
]
