"""Words of the toy world: synonyms, prompt templates, and what a prompt is understood to say.

What it is: `make_prompt` writes varied English for a scene's label, `recognise` finds the concepts
in any text, VOCABULARY lists every word that either uses. What it is not: a text encoder.
"""

import re
import unicodedata
from collections.abc import Mapping

import numpy as np

from onbeat.models.toybox.concepts import ActorLabel, SceneLabel

DROPOUT = 0.15
"""Share of prompts that leave attributes unsaid."""
SIZE_ODDS = 0.35
"""How often a size is said at all."""

NOUNS: dict[str, tuple[str, ...]] = {
    "ball": ("ball", "ball", "orb", "sphere", "bubble", "balloon", "globe"),
    "ring": ("ring", "ring", "hoop", "donut", "torus"),
    "star": ("star", "star", "starfish", "shining star"),
    "square": ("square", "square", "box", "cube", "block", "tile"),
    "heart": ("heart", "heart", "love heart", "valentine"),
}
COLOUR_WORDS: dict[str, tuple[str, ...]] = {
    "red": ("red", "red", "red", "crimson", "scarlet", "ruby"),
    "orange": ("orange", "orange", "orange", "tangerine", "amber"),
    "yellow": ("yellow", "yellow", "yellow", "golden", "lemon"),
    "green": ("green", "green", "green", "lime", "emerald"),
    "cyan": ("cyan", "cyan", "turquoise", "aqua", "teal"),
    "blue": ("blue", "blue", "blue", "navy", "sapphire", "azure"),
    "purple": ("purple", "purple", "magenta", "violet", "pink"),
    "white": ("white", "white", "white", "pale", "ivory"),
}
PLACES: dict[str, tuple[str, ...]] = {
    "stars": ("night stars", "the starry sky", "the night sky", "outer space", "the galaxy"),
    "sunset": ("a sunset", "the sunset", "an evening sky", "dusk", "a sunrise"),
    "sea": ("the sea", "the ocean", "the waves", "the deep sea", "the water"),
    "meadow": ("a meadow", "the grass", "a field", "the hills", "a garden"),
    "desert": ("a desert", "the desert", "sand dunes", "the sand", "the sahara"),
    "snow": ("the snow", "a snowy field", "a winter day", "the ice", "snow"),
    "city": ("a city at night", "the city", "a skyline", "the town", "tall buildings"),
    "rain": ("the rain", "a rainy day", "rainy weather", "a drizzle", "a storm"),
}
MOVES: dict[str, tuple[str, ...]] = {
    "bounce": ("bouncing", "bounces", "jumping", "hopping", "bounces up and down"),
    "float": ("floating", "floats", "hovering", "drifting", "gliding"),
    "orbit": ("orbiting", "circling", "circles", "spinning around", "going round"),
    "roll": ("rolling", "rolls", "sliding", "slides", "running to and fro"),
    "pulse": ("pulsing", "pulses", "beating", "throbbing", "blinking"),
}
SIZE_WORDS: dict[str, tuple[str, ...]] = {
    "small": ("small", "small", "little", "tiny"),
    "big": ("big", "big", "large", "huge", "giant"),
}
FAMILIES: tuple[Mapping[str, tuple[str, ...]], ...] = (
    NOUNS,
    COLOUR_WORDS,
    PLACES,
    MOVES,
    SIZE_WORDS,
)
EXTRA: dict[str, str] = {
    "space": "stars", "stars": "stars", "galaxy": "stars", "starry": "stars", "night": "stars",
    "cosmos": "stars", "universe": "stars", "sunset": "sunset", "evening": "sunset",
    "sunrise": "sunset", "dawn": "sunset", "sea": "sea", "ocean": "sea", "waves": "sea",
    "water": "sea", "beach": "sea", "lake": "sea", "meadow": "meadow", "grass": "meadow",
    "field": "meadow", "hills": "meadow", "garden": "meadow", "park": "meadow",
    "forest": "meadow", "desert": "desert", "sand": "desert", "dunes": "desert",
    "sahara": "desert", "snowy": "snow", "winter": "snow", "ice": "snow", "icy": "snow",
    "arctic": "snow", "snow": "snow", "city": "city", "town": "city", "skyline": "city",
    "buildings": "city", "skyscrapers": "city", "street": "city", "rain": "rain",
    "rainy": "rain", "storm": "rain", "drizzle": "rain", "clouds": "rain", "bounce": "bounce",
    "jump": "bounce", "jumps": "bounce", "hop": "bounce", "hops": "bounce", "float": "float",
    "hover": "float", "hovers": "float", "drift": "float", "drifts": "float", "fly": "float",
    "flying": "float", "flies": "float", "orbit": "orbit", "orbits": "orbit",
    "circle": "ball", "round": "ball", "spinning": "orbit", "spins": "orbit", "roll": "roll",
    "slide": "roll", "pulse": "pulse", "beat": "pulse", "beats": "pulse", "blinks": "pulse",
    "balls": "ball", "rings": "ring", "squares": "square", "hearts": "heart", "gold": "yellow",
    "teal": "cyan", "indigo": "blue", "circling": "orbit",
}  # fmt: skip
EMOJI: dict[str, str] = {
    "\U0001f534": "red ball", "\U0001f7e0": "orange ball", "\U0001f7e1": "yellow ball",
    "\U0001f7e2": "green ball", "\U0001f535": "blue ball", "\U0001f7e3": "purple ball",
    "\u26aa": "white ball", "\u2b50": "yellow star", "\U0001f31f": "yellow star",
    "\u2764": "red heart", "\U0001f499": "blue heart", "\U0001f49a": "green heart",
    "\U0001f49b": "yellow heart", "\U0001f49c": "purple heart", "\U0001f9e1": "orange heart",
    "\U0001f90d": "white heart", "\U0001f7e5": "red square", "\U0001f7e6": "blue square",
    "\U0001f7e9": "green square", "\U0001f7e8": "yellow square", "\U0001f30a": "sea",
    "\U0001f305": "sunset", "\U0001f307": "sunset", "\U0001f30c": "stars", "\u2744": "snow",
    "\U0001f327": "rain", "\U0001f3d9": "city", "\U0001f303": "city", "\U0001f3dc": "desert",
    "\u26c4": "snow", "\U0001f319": "stars", "\U0001f388": "red balloon", "\u2b55": "red ring",
}  # fmt: skip
WITH_PLACE = (
    "{things} over {place}",
    "{things} over {place}",
    "{things} in front of {place}",
    "{things} above {place}",
    "{things} in {place}",
    "{things}, {place}",
    "{place}, {things}",
    "{place}: {things}",
    "{place} with {things}",
    "{things} and behind it {place}",
    "a video of {things} over {place}",
    "show me {things} in {place}",
    "{place} and {things}",
    "on {place} we see {things}",
    "{things} on {place}",
    "glowing {things}, {place} in the background",
    "{things}, background {place}",
    "please draw {things} over {place}",
    "a scene of {place} where {things} can be seen",
    "I want {things} at {place}",
)
WITHOUT_PLACE = ("{things}", "{things}", "a video of {things}", "just {things}", "show me {things}")
JOINS = ("and", "and", "with", "next to", "beside")


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


def _thing(rng: np.random.Generator, actor: ActorLabel, said: Mapping[str, bool]) -> str:
    words = []
    if rng.random() < SIZE_ODDS:
        words.append(_pick(rng, SIZE_WORDS[actor.size]))
    if rng.random() < 0.15:
        words.append("glowing")
    if said["colour"]:
        words.append(_pick(rng, COLOUR_WORDS[actor.colour]))
    words.append(_pick(rng, NOUNS[actor.shape]) if said["shape"] else "thing")
    if said["motion"]:
        move = _pick(rng, MOVES[actor.motion])
        words = [move, *words] if move.endswith("ing") and rng.random() < 0.2 else [*words, move]
    if rng.random() < 0.7:
        words.insert(0, "an" if words[0][0] in "aeio" else "a")
    return " ".join(words)


def make_prompt(rng: np.random.Generator, attributes: SceneLabel) -> str:
    """A prompt for a scene in varied wording; in DROPOUT of cases some attributes are unsaid."""
    said = dict.fromkeys(("background", "motion", "colour", "shape"), True)
    if rng.random() < DROPOUT:
        said = {name: bool(rng.random() < 0.6) for name in said}
        said["colour"] = said["colour"] or not said["shape"]
    things = [_thing(rng, actor, said) for actor in attributes.actors]
    text = f" {_pick(rng, JOINS)} ".join(things)
    if not said["background"]:
        return _pick(rng, WITHOUT_PLACE).format(things=text)
    place = _pick(rng, PLACES[attributes.background])
    if rng.random() < 0.3:
        place = re.sub(r"^(the|an?) ", "", place)
    return _pick(rng, WITH_PLACE).format(things=text, place=place)


def _bare(phrase: str) -> str:
    return re.sub(r"^(the|an?) ", "", phrase)


def _phrases() -> dict[tuple[str, ...], str]:
    table: dict[tuple[str, ...], str] = {(word,): concept for word, concept in EXTRA.items()}
    for family in FAMILIES:
        for concept, words in family.items():
            table.update({tuple(_bare(word).split()): concept for word in words})
            table.setdefault((concept,), concept)
    return table


PHRASES = _phrases()
"""Word sequences -> canonical concept."""
LONGEST = max(len(phrase) for phrase in PHRASES)


def words_of(text: str) -> list[str]:
    """The words of any text in lower case without marks; emoji that we know become words."""
    for sign, meaning in EMOJI.items():
        text = text.replace(sign, f" {meaning} ")
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return re.findall(r"[a-z0-9]+", plain)


def recognise(text: str) -> tuple[str, ...]:
    """Canonical concepts named in `text`, in order (with repeats); empty if none."""
    words, found, i = words_of(text), [], 0
    while i < len(words):
        for n in range(min(LONGEST, len(words) - i), 0, -1):
            concept = PHRASES.get(tuple(words[i : i + n]))
            if concept:
                found.append(concept)
                i += n
                break
        else:
            i += 1
    return tuple(found)


def _vocabulary() -> tuple[str, ...]:
    words: set[str] = {w for phrase in PHRASES for w in phrase}
    for family in FAMILIES:
        words.update(w for group in family.values() for phrase in group for w in phrase.split())
    fixed = " ".join(WITH_PLACE + WITHOUT_PLACE + JOINS).replace("{things}", "")
    words.update(words_of(fixed.replace("{place}", "")))
    return tuple(sorted(words | {"a", "an", "glowing", "thing", "the"}))


VOCABULARY = _vocabulary()
"""Every word of the templates and synonyms, sorted."""
