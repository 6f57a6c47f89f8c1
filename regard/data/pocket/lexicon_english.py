"""English word forms of the concepts, as tables."""

from typing import Final, NamedTuple

# concept, singular, plural
_NOUNS: Final = """
man man men
woman woman women
child child children
boy boy boys
girl girl girls
teacher teacher teachers
doctor doctor doctors
baker baker bakers
farmer farmer farmers
king king kings
queen queen queens
student student students
friend friend friends
neighbour neighbour neighbours
sister sister sisters
mother mother mothers
father father fathers
cat cat cats
dog dog dogs
horse horse horses
duck duck ducks
mouse mouse mice
bird bird birds
bear bear bears
wolf wolf wolves
fox fox foxes
frog frog frogs
bat_animal bat bats
apple apple apples
cake cake cakes
egg egg eggs
book book books
newspaper newspaper newspapers
poem poem poems
story story stories
letter_mail letter letters
key key keys
cup cup cups
lamp lamp lamps
box box boxes
ball ball balls
bag bag bags
knife knife knives
bicycle bicycle bicycles
picture picture pictures
bat_club bat bats
match_fire match matches
candle candle candles
match_game match matches
hat hat hats
coat coat coats
dress dress dresses
table table tables
bed bed beds
chair chair chairs
mat mat mats
roof roof roofs
bridge bridge bridges
tree tree trees
door door doors
window window windows
house house houses
school school schools
church church churches
castle castle castles
kitchen kitchen kitchens
bank_money bank banks
plant_factory plant plants
station station stations
garden garden gardens
park park parks
forest forest forests
town town towns
village village villages
river river rivers
lake lake lakes
bank_river bank banks
bus bus buses
letter_sign letter letters
word word words
name name names
question question questions
plant_green plant plants
flower flower flowers
"""

# concept, base, third person, past, participle, preposition that belongs to the verb
_VERBS: Final = """
sleep sleep sleeps slept slept
laugh laugh laughs laughed laughed
sing sing sings sang sung
work work works worked worked
play play plays played played
run run runs ran run
swim swim swims swam swum
fly fly flies flew flown
bark bark barks barked barked
arrive arrive arrives arrived arrived
live live lives lived lived
go go goes went gone
come come comes came come
see see sees saw seen
find find finds found found
buy buy buys bought bought
sell sell sells sold sold
eat_person eat eats ate eaten
eat_animal eat eats ate eaten
write write writes wrote written
open open opens opened opened
close close closes closed closed
carry carry carries carried carried
lose lose loses lost lost
paint paint paints painted painted
visit visit visits visited visited
invite invite invites invited invited
help help helps helped helped
thank thank thanks thanked thanked
follow follow follows followed followed
love love loves loved loved
like like likes liked liked
hate hate hates hated hated
fear fear fears feared feared
know know knows knew known
wait_for wait waits waited waited for
look_for look looks looked looked for
look_at look looks looked looked at
win win wins won won
light light lights lit lit
water water waters watered watered
hunt hunt hunts hunted hunted
feed feed feeds fed fed
call call calls called called
catch catch catches caught caught
learn learn learns learned learned
forget forget forgets forgot forgotten
wash wash washes washed washed
repair repair repairs repaired repaired
give give gives gave given
show show shows showed shown
send send sends sent sent
lend lend lends lent lent
think think thinks thought thought
know_that know knows knew known
say say says said said
believe believe believes believed believed
hope hope hopes hoped hoped
be be is was been
"""

TIMES: Final = {
    "today": ("today",),
    "now": ("now",),
    "yesterday": ("yesterday",),
    "tomorrow": ("tomorrow",),
    "every_day": ("every", "day"),
    "in_the_morning": ("in", "the", "morning"),
    "in_the_evening": ("in", "the", "evening"),
    "at_night": ("at", "night"),
    "last_year": ("last", "year"),
    "next_week": ("next", "week"),
}

PRONOUNS: Final = {"he": ("he", "him"), "she": ("she", "her"), "they": ("they", "them")}
"""Subject and object form."""


class EnglishNoun(NamedTuple):
    """Singular and plural."""

    singular: str
    plural: str


class EnglishVerb(NamedTuple):
    """The four forms that differ, and the preposition the verb brings (`wait for`)."""

    base: str
    third: str
    past: str
    participle: str
    preposition: str


def _noun_table() -> dict[str, EnglishNoun]:
    rows = (line.split() for line in _NOUNS.strip().split("\n"))
    return {concept: EnglishNoun(singular, plural) for concept, singular, plural in rows}


def _verb_table() -> dict[str, EnglishVerb]:
    table = {}
    for line in _VERBS.strip().split("\n"):
        concept, base, third, past, participle, *preposition = line.split()
        table[concept] = EnglishVerb(base, third, past, participle, "".join(preposition))
    return table


NOUNS: Final = _noun_table()
VERBS: Final = _verb_table()
