"""French word forms of the concepts, as tables."""

from typing import Final, NamedTuple

# concept, gender, singular, plural
_NOUNS: Final = """
man m homme hommes
woman f femme femmes
child m enfant enfants
boy m garçon garçons
girl f fille filles
teacher m professeur professeurs
doctor m médecin médecins
baker m boulanger boulangers
farmer m fermier fermiers
king m roi rois
queen f reine reines
student m étudiant étudiants
friend m ami amis
neighbour m voisin voisins
sister f sœur sœurs
mother f mère mères
father m père pères
cat m chat chats
dog m chien chiens
horse m cheval chevaux
duck m canard canards
mouse f souris souris
bird m oiseau oiseaux
bear m ours ours
wolf m loup loups
fox m renard renards
frog f grenouille grenouilles
bat_animal f chauve-souris chauves-souris
apple f pomme pommes
cake m gâteau gâteaux
egg m œuf œufs
book m livre livres
newspaper m journal journaux
poem m poème poèmes
story f histoire histoires
letter_mail f lettre lettres
key f clé clés
cup f tasse tasses
lamp f lampe lampes
box f boîte boîtes
ball m ballon ballons
bag m sac sacs
knife m couteau couteaux
bicycle m vélo vélos
picture m tableau tableaux
bat_club f batte battes
match_fire f allumette allumettes
candle f bougie bougies
match_game m match matchs
hat m chapeau chapeaux
coat m manteau manteaux
dress f robe robes
table f table tables
bed m lit lits
chair f chaise chaises
mat m tapis tapis
roof m toit toits
bridge m pont ponts
tree m arbre arbres
door f porte portes
window f fenêtre fenêtres
house f maison maisons
school f école écoles
church f église églises
castle m château châteaux
kitchen f cuisine cuisines
bank_money f banque banques
plant_factory f usine usines
station f gare gares
garden m jardin jardins
park m parc parcs
forest f forêt forêts
town f ville villes
village m village villages
river f rivière rivières
lake m lac lacs
bank_river f rive rives
bus m bus bus
letter_sign f lettre lettres
word m mot mots
name m nom noms
question f question questions
plant_green f plante plantes
flower f fleur fleurs
"""

# concept, place (before or after the noun), masculine, feminine, masculine before a vowel
_ADJECTIVES: Final = """
small before petit petite petit
big before grand grande grand
old before vieux vieille vieil
young before jeune jeune jeune
beautiful before beau belle bel
good before bon bonne bon
new before nouveau nouvelle nouvel
long before long longue long
first before premier première premier
last before dernier dernière dernier
black after noir noire noir
white after blanc blanche blanc
red after rouge rouge rouge
green after vert verte vert
blue after bleu bleue bleu
tired after fatigué fatiguée fatigué
hungry after affamé affamée affamé
happy after heureux heureuse heureux
clever after intelligent intelligente intelligent
light_weight after léger légère léger
light_bright after clair claire clair
dark after sombre sombre sombre
hard_difficult after difficile difficile difficile
hard_solid after dur dure dur
steep after escarpé escarpée escarpé
broken after cassé cassée cassé
"""

# concept, infinitive, present singular and plural, participle, future singular (plural: -a becomes -ont), then any of:
# être (auxiliary), preposition:à or :de, imperfect stem with =: the past of lasting states
_VERBS: Final = """
sleep dormir dort dorment dormi dormira
laugh rire rit rient ri rira
sing chanter chante chantent chanté chantera
work travailler travaille travaillent travaillé travaillera
play jouer joue jouent joué jouera
run courir court courent couru courra
swim nager nage nagent nagé nagera
fly voler vole volent volé volera
bark aboyer aboie aboient aboyé aboiera
arrive arriver arrive arrivent arrivé arrivera être
live habiter habite habitent habité habitera =habit
go aller va vont allé ira être :à
come venir vient viennent venu viendra être :de
see voir voit voient vu verra
find trouver trouve trouvent trouvé trouvera
buy acheter achète achètent acheté achètera
sell vendre vend vendent vendu vendra
eat_person manger mange mangent mangé mangera
eat_animal manger mange mangent mangé mangera
write écrire écrit écrivent écrit écrira
open ouvrir ouvre ouvrent ouvert ouvrira
close fermer ferme ferment fermé fermera
carry porter porte portent porté portera
lose perdre perd perdent perdu perdra
paint peindre peint peignent peint peindra
visit visiter visite visitent visité visitera
invite inviter invite invitent invité invitera
help aider aide aident aidé aidera
thank remercier remercie remercient remercié remerciera
follow suivre suit suivent suivi suivra
love adorer adore adorent adoré adorera =ador
like aimer aime aiment aimé aimera =aim
hate détester déteste détestent détesté détestera =détest
fear craindre craint craignent craint craindra =craign
know connaître connaît connaissent connu connaîtra =connaiss
wait_for attendre attend attendent attendu attendra
look_for chercher cherche cherchent cherché cherchera
look_at regarder regarde regardent regardé regardera
win gagner gagne gagnent gagné gagnera
light allumer allume allument allumé allumera
water arroser arrose arrosent arrosé arrosera
hunt chasser chasse chassent chassé chassera
feed nourrir nourrit nourrissent nourri nourrira
call appeler appelle appellent appelé appellera
catch attraper attrape attrapent attrapé attrapera
learn apprendre apprend apprennent appris apprendra
forget oublier oublie oublient oublié oubliera
wash laver lave lavent lavé lavera
repair réparer répare réparent réparé réparera
give donner donne donnent donné donnera
show montrer montre montrent montré montrera
send envoyer envoie envoient envoyé enverra
lend prêter prête prêtent prêté prêtera
think penser pense pensent pensé pensera
know_that savoir sait savent su saura
say dire dit disent dit dira
believe croire croit croient cru croira
hope espérer espère espèrent espéré espérera
be être est sont été sera =ét
"""

TIMES: Final = {
    "today": ("aujourd'hui",),
    "now": ("maintenant",),
    "yesterday": ("hier",),
    "tomorrow": ("demain",),
    "every_day": ("chaque", "jour"),
    "in_the_morning": ("le", "matin"),
    "in_the_evening": ("le", "soir"),
    "at_night": ("la", "nuit"),
    "last_year": ("l'", "année", "dernière"),
    "next_week": ("la", "semaine", "prochaine"),
}

PREPOSITIONS: Final = {
    "in": ("dans",),
    "on": ("sur",),
    "under": ("sous",),
    "behind": ("derrière",),
    "near": ("près", "de"),
}

PRONOUNS: Final = {
    "he": {"subject": "il", "object": "le", "recipient": "lui"},
    "she": {"subject": "elle", "object": "la", "recipient": "lui"},
    "they": {"subject": "ils", "object": "les", "recipient": "leur"},
}

NAMES_FEMININE: Final = frozenset({"Anna", "Clara", "Emma"})


class FrenchNoun(NamedTuple):
    """Gender, singular and plural."""

    gender: str
    singular: str
    plural: str


class FrenchAdjective(NamedTuple):
    """Where it stands and its forms."""

    before: bool
    masculine: str
    feminine: str
    masculine_vowel: str


class FrenchVerb(NamedTuple):
    """The forms that differ; `imperfect` is a stem, empty for verbs whose past is the passé composé."""

    infinitive: str
    third: str
    third_plural: str
    participle: str
    future: str
    auxiliary: str
    preposition: str
    imperfect: str


def _noun_table() -> dict[str, FrenchNoun]:
    rows = (line.split() for line in _NOUNS.strip().split("\n"))
    return {concept: FrenchNoun(gender, singular, plural) for concept, gender, singular, plural in rows}


def _adjective_table() -> dict[str, FrenchAdjective]:
    rows = (line.split() for line in _ADJECTIVES.strip().split("\n"))
    return {row[0]: FrenchAdjective(row[1] == "before", row[2], row[3], row[4]) for row in rows}


def _verb_table() -> dict[str, FrenchVerb]:
    table = {}
    for line in _VERBS.strip().split("\n"):
        concept, infinitive, third, third_plural, participle, future, *notes = line.split()
        auxiliary = "être" if "être" in notes else "avoir"
        preposition = next((note[1:] for note in notes if note.startswith(":")), "")
        imperfect = next((note[1:] for note in notes if note.startswith("=")), "")
        table[concept] = FrenchVerb(
            infinitive, third, third_plural, participle, future, auxiliary, preposition, imperfect
        )
    return table


NOUNS: Final = _noun_table()
ADJECTIVES: Final = _adjective_table()
VERBS: Final = _verb_table()
