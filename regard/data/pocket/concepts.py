"""What the pocket world is about: nouns, adjectives, verbs and what goes with what, without any language.

A noun carries tags; verbs, adjectives and prepositions select nouns by tag, and every noun has its own name as a tag.
Names with an underscore are senses of one English word (`bank_money`, `bank_river`). Two senses of a word never fit
the same place in a sentence, so the words around it always tell which one is meant.
"""

from dataclasses import dataclass
from typing import Final

# weight, name, tags
_NOUNS: Final = """
3 man          person adult
3 woman        person adult
2 child        person small_person
2 boy          person small_person
2 girl         person small_person
2 teacher      person adult worker
2 doctor       person adult worker
2 baker        person adult worker
2 farmer       person adult worker
1.5 king       person adult
1.5 queen      person adult
1.5 student    person adult
2 friend       person kin
2 neighbour    person kin
1.5 sister     person kin
2 mother       person kin parent
1.5 father     person kin parent
3 cat          animal pet owned
3 dog          animal pet owned barker
2 horse        animal pet owned
1.5 duck       animal pet owned flyer
2 mouse        animal wild prey
2 bird         animal wild prey flyer singer
1.5 bear       animal wild
1.5 wolf       animal wild
1.5 fox        animal wild prey
1.5 frog       animal wild prey
2 bat_animal   flyer
2 apple        food snack
1.5 cake       food
1.5 egg        food snack
2 book         text owned
1.5 newspaper  text
1.5 poem       text
1.5 story      text
2 letter_mail  owned
2 key          object owned
1.5 cup        object owned
1.5 lamp       object owned device
1.5 box        object container
1.5 ball       object owned
1.5 bag        object owned container
1.5 knife      object
1.5 bicycle    owned device
1.5 picture    object owned
2 bat_club     owned
2 match_fire   fire
2 candle       fire object
2 match_game   game
2 hat          garment owned
1.5 coat       garment owned
1.5 dress      garment owned
2 table        furniture surface shelter
1.5 bed        furniture surface shelter
1.5 chair      furniture surface shelter
1.5 mat        surface
1.5 roof       surface
1.5 bridge     surface shelter
1.5 tree       shelter
2 door         opening
2 window       opening
3 house        building room owned
2 school       building room goal
1.5 church     building goal
1.5 castle     building goal
1.5 kitchen    room
2 bank_money   institution goal
2 plant_factory institution goal
1.5 station    goal
3 garden       region
1.5 park       region goal
2 forest       region
2 town         region settlement
2 village      region settlement goal
2 river        water goal
1.5 lake       water goal
6 bank_river   shore
1.5 bus        vehicle
6 letter_sign  sign
2 word         sign_bearer
2 name         sign_bearer
2 question     puzzle
2 plant_green  green
2 flower       green
"""

# weight, name, place in the phrase (1 = before those of place 2), attributive or both uses, nouns it fits
_ADJECTIVES: Final = """
3 small     1 both animal small_person object garment furniture opening building room region tree lake bat_animal candle
3 big       1 both animal object garment furniture opening building region tree lake river bat_animal question
3 old       1 both adult kin pet text object garment furniture opening building room settlement tree bicycle bank_money
2 young     1 both adult student pet
2 beautiful 1 both woman girl queen king horse bird garment text picture building region water green bridge
2 good      1 both person food text question match_game
2 new       1 attributive text garment bag lamp key ball furniture school bridge bicycle plant_factory teacher bat_club
1.5 long    1 both letter_mail text dress coat river bridge knife match_game word name
3 first     1 attributive letter_sign
3 last      1 attributive letter_sign
2 black     2 both pet wolf bear hat coat dress bag box cup key lamp bicycle bat_animal
2 white     2 both pet mouse bird garment cup house table candle door flower
2 red       2 both apple fox hat coat dress bag box ball cup bicycle flower bus door
2 green     2 both frog apple garment bag lamp park forest tree bus door plant_green bank_river
1.5 blue    2 both garment ball cup bag bicycle flower door window bird
2 tired     2 both person pet wolf bear
2 hungry    2 both person animal bat_animal
2 happy     2 both person
2 clever    2 both person pet fox mouse
1.5 light_weight 2 both bag box chair coat bicycle ball dress
2.5 light_bright 2 both kitchen house school church
2 dark      2 both kitchen house church castle forest garden station
2 hard_difficult 2 both question word poem book name
1.5 hard_solid 2 both bed chair mat apple cake egg
1.5 steep   2 both roof bank_river
1.5 broken  2 both device chair door window roof cup key bat_club
"""

# weight, name, frame, aspect, places it may happen at; subject tags > object tags
# Frames: alone, object, recipient, to, from, that. Aspects: event, process, state, affect.
_VERBS: Final = """
2   sleep    alone  process any   : person animal bat_animal
2   laugh    alone  event   any   : person
2   sing     alone  process any   : person singer
2   work     alone  process works : person
2   play     alone  process any   : small_person pet
1.5 run      alone  process land  : person animal
1.5 swim     alone  process water : person pet bear frog
1.2 fly      alone  process land  : flyer bat_animal
1.2 bark     alone  process any   : barker
2   arrive   alone  event   none  : person vehicle letter_mail
2.5 live     alone  state   home  : person
2.5 go       to     event   none  : person > goal
2   come     from   event   none  : person pet > region school kitchen house
2   see      object event   any   : person animal > person animal building vehicle picture flower tree
1.5 find     object event   any   : person > animal object garment text small_person letter_mail
2   buy      object event   none  : person > object food text garment furniture bicycle green bat_club fire
1.5 sell     object event   none  : person > object food text garment furniture bicycle green bat_club fire
1.5 eat_person object event any   : person > food
1.2 eat_animal object event any   : animal > snack prey
2   write    object event   none  : person > letter_mail letter_sign word name poem story book
1.5 open     object event   none  : person > opening container letter_mail book
1.5 close    object event   none  : person > opening container book
1.5 carry    object process none  : person > object small_person bat_club chair bicycle
1.5 lose     object event   any   : person > object garment book letter_mail bat_club
1.5 paint    object event   none  : person > building tree bridge flower horse king queen bank_river
1.5 visit    object event   none  : person > building region institution
1.5 invite   object event   none  : person > person
1.5 help     object event   any   : person > person
1.2 thank    object event   none  : person > person
1.5 follow   object process none  : person animal > person animal
2   love     object affect  none  : person > person animal text flower region garment
2   like     object affect  none  : person animal > person animal food flower region
1.5 hate     object affect  none  : person animal > animal person question food
1.5 fear     object affect  none  : person animal > wild dog horse king queen teacher bat_animal
1.5 know     object state   none  : person > person text region word
1.5 wait_for object process any   : person > person vehicle letter_mail
1.5 look_for object process any   : person animal > animal object garment small_person book
1.5 look_at  object event   none  : person animal > person animal building picture flower
1.5 win      object event   none  : person > match_game
1.5 light    object event   none  : person > fire
1.5 water    object event   none  : person > green tree
1.2 hunt     object process land  : person pet bear wolf fox > prey wolf bear bat_animal
1.5 feed     object event   none  : person > animal bat_animal
1.5 call     object event   none  : person > person
1.5 catch    object event   land  : person animal > prey ball bat_animal
1.5 learn    object event   none  : person > word poem letter_sign
1.5 forget   object event   none  : person > word name key bag garment question letter_sign match_fire
1.5 wash     object event   none  : person > cup garment pet apple knife
1.5 repair   object event   none  : person > device chair roof door window bridge table
1.5 give     recipient event none : person > object text food flower garment letter_mail
1.5 show     recipient event none : person > object text garment flower animal letter_mail
1.5 send     recipient event none : person > text picture key box flower letter_mail
1.2 lend     recipient event none : person > book newspaper bicycle knife lamp coat hat bag bat_club
2   think    that   state   none  : person
1.5 know_that that  state   none  : person
2   say      that   state   none  : person
1.5 believe  that   state   none  : person
1.5 hope     that   state   none  : person
"""

# preposition, nouns it takes
_PLACES: Final = """
in     garden house kitchen school church forest town village park castle
on     table bed chair mat roof bridge bank_river
under  table bed tree bridge chair
behind house church tree school castle
near   house church school castle station bridge
"""

# name, tenses it goes with
_TIMES: Final = """
today          present past future perfect
now            present
yesterday      past
tomorrow       future
every_day      present
in_the_morning present past
in_the_evening present past
at_night       present
last_year      past
next_week      future
"""

PLACE_KINDS: Final = {
    "any": ("in", "on", "under", "behind", "near"),
    "land": ("in", "behind", "near"),
    "works": ("in", "in institution", "near"),
    "water": ("in water",),
    "home": ("in home", "near"),
    "none": (),
}
"""Which places a verb may have: a preposition, or a preposition with a tag or group that replaces its usual nouns."""

PLACE_GROUPS: Final = {
    "in institution": ("bank_money", "plant_factory"),
    "in water": ("river", "lake"),
    "in home": ("house", "town", "village", "castle", "forest"),
}

NAMES: Final = ("Anna", "Paul", "Clara", "Leo", "Emma", "Tom")
PRONOUNS: Final = ("he", "she", "they")


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun sense, how often it is chosen, and what it is."""

    name: str
    weight: float
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective sense and the nouns it can be said of."""

    name: str
    weight: float
    slot: int
    predicative: bool
    fits: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb sense with its frame; `places` lists the prepositions (or groups) of where it may happen."""

    name: str
    weight: float
    frame: str
    aspect: str
    places: tuple[str, ...]
    place_required: bool
    subjects: frozenset[str]
    objects: frozenset[str]


@dataclass(frozen=True, slots=True)
class Concepts:
    """The inventory a grammar is built over; a smaller one gives a smaller world."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    verbs: tuple[Verb, ...]
    places: dict[str, tuple[str, ...]]
    times: dict[str, frozenset[str]]
    names: tuple[str, ...]

    def restricted_to(self, words: frozenset[str]) -> "Concepts":
        """Keep only the named concepts: a world small enough to be enumerated or to repeat itself."""
        return Concepts(
            nouns=tuple(noun for noun in self.nouns if noun.name in words),
            adjectives=tuple(adjective for adjective in self.adjectives if adjective.name in words),
            verbs=tuple(verb for verb in self.verbs if verb.name in words),
            places={
                preposition: kept
                for preposition, nouns in self.places.items()
                if (kept := tuple(noun for noun in nouns if noun in words))
            },
            times={name: tenses for name, tenses in self.times.items() if name in words},
            names=tuple(name for name in self.names if name in words),
        )


def _noun(line: str) -> Noun:
    weight, name, *tags = line.split()
    return Noun(name=name, weight=float(weight), tags=frozenset([name, *tags]))


def _adjective(line: str) -> Adjective:
    weight, name, slot, use, *fits = line.split()
    return Adjective(name=name, weight=float(weight), slot=int(slot), predicative=use == "both", fits=frozenset(fits))


def _verb(line: str) -> Verb:
    head, _, selection = line.partition(":")
    weight, name, frame, aspect, place = head.split()
    subjects, _, objects = selection.partition(">")
    return Verb(
        name=name,
        weight=float(weight),
        frame=frame,
        aspect=aspect,
        places=PLACE_KINDS[place],
        place_required=place == "home",
        subjects=frozenset(subjects.split()),
        objects=frozenset(objects.split()),
    )


def _lines(table: str) -> list[str]:
    return table.strip().split("\n")


def _places() -> dict[str, tuple[str, ...]]:
    places = {line.split()[0]: tuple(line.split()[1:]) for line in _lines(_PLACES)}
    return places | PLACE_GROUPS


CONCEPTS: Final = Concepts(
    nouns=tuple(_noun(line) for line in _lines(_NOUNS)),
    adjectives=tuple(_adjective(line) for line in _lines(_ADJECTIVES)),
    verbs=tuple(_verb(line) for line in _lines(_VERBS)),
    places=_places(),
    times={line.split()[0]: frozenset(line.split()[1:]) for line in _lines(_TIMES)},
    names=NAMES,
)
