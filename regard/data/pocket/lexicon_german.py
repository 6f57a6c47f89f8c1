"""German word forms of the concepts, as tables."""

from typing import Final, NamedTuple

# concept, gender, nominative, genitive, plural; "weak" nouns have their genitive's -(e)n in accusative and dative too
_NOUNS: Final = """
man m Mann Mannes Männer
woman f Frau Frau Frauen
child n Kind Kindes Kinder
boy m Junge Jungen Jungen weak
girl n Mädchen Mädchens Mädchen
teacher m Lehrer Lehrers Lehrer
doctor m Arzt Arztes Ärzte
baker m Bäcker Bäckers Bäcker
farmer m Bauer Bauern Bauern weak
king m König Königs Könige
queen f Königin Königin Königinnen
student m Student Studenten Studenten weak
friend m Freund Freundes Freunde
neighbour m Nachbar Nachbarn Nachbarn weak
sister f Schwester Schwester Schwestern
mother f Mutter Mutter Mütter
father m Vater Vaters Väter
cat f Katze Katze Katzen
dog m Hund Hundes Hunde
horse n Pferd Pferdes Pferde
duck f Ente Ente Enten
mouse f Maus Maus Mäuse
bird m Vogel Vogels Vögel
bear m Bär Bären Bären weak
wolf m Wolf Wolfes Wölfe
fox m Fuchs Fuchses Füchse
frog m Frosch Frosches Frösche
bat_animal f Fledermaus Fledermaus Fledermäuse
apple m Apfel Apfels Äpfel
cake m Kuchen Kuchens Kuchen
egg n Ei Eis Eier
book n Buch Buches Bücher
newspaper f Zeitung Zeitung Zeitungen
poem n Gedicht Gedichtes Gedichte
story f Geschichte Geschichte Geschichten
letter_mail m Brief Briefes Briefe
key m Schlüssel Schlüssels Schlüssel
cup f Tasse Tasse Tassen
lamp f Lampe Lampe Lampen
box f Kiste Kiste Kisten
ball m Ball Balles Bälle
bag f Tasche Tasche Taschen
knife n Messer Messers Messer
bicycle n Fahrrad Fahrrades Fahrräder
picture n Bild Bildes Bilder
bat_club m Schläger Schlägers Schläger
match_fire n Streichholz Streichholzes Streichhölzer
candle f Kerze Kerze Kerzen
match_game n Spiel Spieles Spiele
hat m Hut Hutes Hüte
coat m Mantel Mantels Mäntel
dress n Kleid Kleides Kleider
table m Tisch Tisches Tische
bed n Bett Bettes Betten
chair m Stuhl Stuhles Stühle
mat f Matte Matte Matten
roof n Dach Daches Dächer
bridge f Brücke Brücke Brücken
tree m Baum Baumes Bäume
door f Tür Tür Türen
window n Fenster Fensters Fenster
house n Haus Hauses Häuser
school f Schule Schule Schulen
church f Kirche Kirche Kirchen
castle n Schloss Schlosses Schlösser
kitchen f Küche Küche Küchen
bank_money f Bank Bank Banken
plant_factory f Fabrik Fabrik Fabriken
station m Bahnhof Bahnhofs Bahnhöfe
garden m Garten Gartens Gärten
park m Park Parks Parks
forest m Wald Waldes Wälder
town f Stadt Stadt Städte
village n Dorf Dorfes Dörfer
river m Fluss Flusses Flüsse
lake m See Sees Seen
bank_river n Ufer Ufers Ufer
bus m Bus Busses Busse
letter_sign m Buchstabe Buchstabens Buchstaben weak
word n Wort Wortes Wörter
name m Name Namens Namen weak
question f Frage Frage Fragen
plant_green f Pflanze Pflanze Pflanzen
flower f Blume Blume Blumen
"""

# concept, predicative form, stem before endings
_ADJECTIVES: Final = """
small klein klein
big groß groß
old alt alt
young jung jung
beautiful schön schön
good gut gut
new neu neu
long lang lang
first erst erst
last letzt letzt
black schwarz schwarz
white weiß weiß
red rot rot
green grün grün
blue blau blau
tired müde müd
hungry hungrig hungrig
happy glücklich glücklich
clever klug klug
light_weight leicht leicht
light_bright hell hell
dark dunkel dunkl
hard_difficult schwierig schwierig
hard_solid hart hart
steep steil steil
broken kaputt kaputt
"""

# concept, infinitive, third singular, past singular, past plural, participle, then any of:
# sein (auxiliary), dative (case of the object), +particle (separable; forms are given without it), preposition:case
_VERBS: Final = """
sleep schlafen schläft schlief schliefen geschlafen
laugh lachen lacht lachte lachten gelacht
sing singen singt sang sangen gesungen
work arbeiten arbeitet arbeitete arbeiteten gearbeitet
play spielen spielt spielte spielten gespielt
run laufen läuft lief liefen gelaufen sein
swim schwimmen schwimmt schwamm schwammen geschwommen sein
fly fliegen fliegt flog flogen geflogen sein
bark bellen bellt bellte bellten gebellt
arrive kommen kommt kam kamen gekommen sein +an
live wohnen wohnt wohnte wohnten gewohnt
go gehen geht ging gingen gegangen sein zu:dative
come kommen kommt kam kamen gekommen sein aus:dative
see sehen sieht sah sahen gesehen
find finden findet fand fanden gefunden
buy kaufen kauft kaufte kauften gekauft
sell verkaufen verkauft verkaufte verkauften verkauft
eat_person essen isst aß aßen gegessen
eat_animal fressen frisst fraß fraßen gefressen
write schreiben schreibt schrieb schrieben geschrieben
open machen macht machte machten gemacht +auf
close machen macht machte machten gemacht +zu
carry tragen trägt trug trugen getragen
lose verlieren verliert verlor verloren verloren
paint malen malt malte malten gemalt
visit besuchen besucht besuchte besuchten besucht
invite laden lädt lud luden geladen +ein
help helfen hilft half halfen geholfen dative
thank danken dankt dankte dankten gedankt dative
follow folgen folgt folgte folgten gefolgt sein dative
love lieben liebt liebte liebten geliebt
like mögen mag mochte mochten gemocht
hate hassen hasst hasste hassten gehasst
fear fürchten fürchtet fürchtete fürchteten gefürchtet
know kennen kennt kannte kannten gekannt
wait_for warten wartet wartete warteten gewartet auf:accusative
look_for suchen sucht suchte suchten gesucht
look_at sehen sieht sah sahen gesehen +an
win gewinnen gewinnt gewann gewannen gewonnen
light zünden zündet zündete zündeten gezündet +an
water gießen gießt goss gossen gegossen
hunt jagen jagt jagte jagten gejagt
feed füttern füttert fütterte fütterten gefüttert
call rufen ruft rief riefen gerufen +an
catch fangen fängt fing fingen gefangen
learn lernen lernt lernte lernten gelernt
forget vergessen vergisst vergaß vergaßen vergessen
wash waschen wäscht wusch wuschen gewaschen
repair reparieren repariert reparierte reparierten repariert
give geben gibt gab gaben gegeben
show zeigen zeigt zeigte zeigten gezeigt
send schicken schickt schickte schickten geschickt
lend leihen leiht lieh liehen geliehen
think denken denkt dachte dachten gedacht
know_that wissen weiß wusste wussten gewusst
say sagen sagt sagte sagten gesagt
believe glauben glaubt glaubte glaubten geglaubt
hope hoffen hofft hoffte hofften gehofft
be sein ist war waren gewesen sein
"""

TIMES: Final = {
    "today": ("heute",),
    "now": ("jetzt",),
    "yesterday": ("gestern",),
    "tomorrow": ("morgen",),
    "every_day": ("jeden", "Tag"),
    "in_the_morning": ("am", "Morgen"),
    "in_the_evening": ("am", "Abend"),
    "at_night": ("nachts",),
    "last_year": ("letztes", "Jahr"),
    "next_week": ("nächste", "Woche"),
}

PREPOSITIONS: Final = {"in": "in", "on": "auf", "under": "unter", "behind": "hinter", "near": "bei"}

CONTRACTIONS: Final = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("bei", "dem"): "beim",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}

PRONOUNS: Final = {
    "he": {"nominative": "er", "accusative": "ihn", "dative": "ihm"},
    "she": {"nominative": "sie", "accusative": "sie", "dative": "ihr"},
    "they": {"nominative": "sie", "accusative": "sie", "dative": "ihnen"},
}


class GermanNoun(NamedTuple):
    """Gender and the forms from which the rest follows."""

    gender: str
    nominative: str
    genitive: str
    plural: str
    weak: bool


class GermanVerb(NamedTuple):
    """The forms that differ, the auxiliary of the perfect, and what the verb asks of its object."""

    infinitive: str
    third: str
    past: str
    past_plural: str
    participle: str
    auxiliary: str
    particle: str
    preposition: str
    case: str


def _noun_table() -> dict[str, GermanNoun]:
    table = {}
    for line in _NOUNS.strip().split("\n"):
        concept, gender, nominative, genitive, plural, *weak = line.split()
        table[concept] = GermanNoun(gender, nominative, genitive, plural, bool(weak))
    return table


def _verb(infinitive: str, third: str, past: str, past_plural: str, participle: str, notes: list[str]) -> GermanVerb:
    particle = next((note[1:] for note in notes if note.startswith("+")), "")
    preposition, case = next((note.split(":") for note in notes if ":" in note), ("", "accusative"))
    if "dative" in notes:
        case = "dative"
    auxiliary = "sein" if "sein" in notes else "haben"
    return GermanVerb(infinitive, third, past, past_plural, participle, auxiliary, particle, preposition, case)


def _verb_table() -> dict[str, GermanVerb]:
    table = {}
    for line in _VERBS.strip().split("\n"):
        concept, infinitive, third, past, past_plural, participle, *notes = line.split()
        table[concept] = _verb(infinitive, third, past, past_plural, participle, notes)
    return table


NOUNS: Final = _noun_table()
VERBS: Final = _verb_table()
ADJECTIVES: Final = {line.split()[0]: (line.split()[1], line.split()[2]) for line in _ADJECTIVES.strip().split("\n")}
