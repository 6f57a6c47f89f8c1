"""English words that hold a sentence together and say little by themselves, and signs between words."""

from typing import Final

_WORDS: Final = """
a an the this that these those and or but nor so yet if as than then though although because while when where whether
of in on at by for from to with without within into onto upon over under between among through during before after about
against above below up down out off near since until till per via
i you he she it we they me him her us them my your his its our their mine yours hers ours theirs who whom whose which
what myself yourself himself herself itself ourselves themselves there here
is am are was were be been being do does did done doing have has had having will would shall should can could may might
must ought
not no n't 's 're 've 'll 'd 'm
all any both each either every few many more most much neither none other others some such own same only very too also
just how why again once
"""
_SIGNS: Final = ". , ; : ! ? ' \" ` `` '' ( ) [ ] { } - -- – — / … « » “ ” ‘ ’ &"

ENGLISH: Final = frozenset(_WORDS.split()) | frozenset(_SIGNS.split())
