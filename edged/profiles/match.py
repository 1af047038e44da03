"""Which profile fits an instrument, by its ``*IDN?`` answer, and who made it.

Nothing here trusts field positions: real answers have five fields, commas in the maker's name, no
commas at all, labels in the serial number. The profile is found by searching the whole answer; the
longest match wins. USB ids only decide between equals: many models of one maker share an id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from typing import Final, Generic, Protocol, TypeVar

from edged.patterns import found_in
from edged.profiles.model import Match
from edged.record import record

MAX_IDN: Final = 512
"""Characters of an answer that are looked at; the longest real one has 80."""


@record
class Identity:
    """Who an instrument says it is; a part that it does not tell is empty.

    The serial number is what tells two units apart; "0", which IEEE 488.2 sends where there is
    none, counts as none.

    Attributes:
        serial: without its label and what else does not belong to it.
        serial_told: the same as it came; an owner may have written it down so.
    """

    manufacturer: str = ""
    model: str = ""
    serial: str = ""
    firmware: str = ""
    serial_told: str = field(default="", compare=False)


MOST_WORDS: Final = 6
"""Of a maker, a model or a serial number: STANFORD RESEARCH SYSTEMS has three."""
MOST_LETTER_WORDS: Final = 5
"""Of those in letters alone: Shenzhen Siglent Technologies Co Ltd has five."""
MOST_WORDS_OF_FIRMWARE: Final = 12
"""TDS2CM:CMV:v1.04 and the like stand beside each other in it."""
MOST_LETTER_WORDS_OF_FIRMWARE: Final = 8
_PROSE: Final = re.compile(
    r"[^\w .,:;/&+()#~*^=-]|[^\x00-\xff]|\w{3}[!?]|[.!?] +[A-Z][a-z]+ [a-z]+ "
    r"|(?<![\w.])[a-z]{2,} [a-z]{2,} [a-z]{2,}(?!\w)"
)
"""What no name holds: quotation marks, brackets, exclamations, a sentence behind another, other
scripts, a run of words without a capital."""
_LOWER_WORDS: Final = re.compile(r"(?<![\w.])[a-z]{3,} [a-z]{2,}(?!\w)")
"""Two words without a capital, where a maker, a model or a serial number stands."""
_JOINT: Final = re.compile(r"(?<=[A-Za-z]{2})[_.]+(?=[A-Za-z]{2})")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
FEWEST_HUMPS: Final = 3
_LETTER_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z]{2,}(?![\w])")
_REMARKS: Final = (
    "the you your please now must should shall will would can not never always all any every this "
    "that these those are be was to with into if then when while before after until as ignore "
    "disregard forget follow obey call send set switch turn execute run use tell say write read "
    "do make enable disable raise increase instruction instructions rule rules output outputs "
    "assistant agent user prompt"
)
_WORDS_OF_PROSE: Final = frozenset(_REMARKS.split())
"""One of these beside another word makes an instruction or a remark."""


def holds_more_than_names(identity: Identity) -> bool:
    """Whether what a unit says of itself reads like text for somebody, a model for instance."""
    usual = (MOST_WORDS, MOST_LETTER_WORDS)
    parts = (
        (identity.manufacturer, *usual),
        (identity.model, *usual),
        (identity.serial_told or identity.serial, *usual),
        (identity.firmware, MOST_WORDS_OF_FIRMWARE, MOST_LETTER_WORDS_OF_FIRMWARE),
    )
    return any(_is_prose(part, most, most_in_letters) for part, most, most_in_letters in parts)


def _is_prose(part: str, most: int, most_in_letters: int) -> bool:
    # Text need not have blanks to be read: ignore_all_rules, IgnoreAllRulesNow.
    spaced = _JOINT.sub(" ", part)
    if len(_HUMP.findall(part)) >= FEWEST_HUMPS:
        spaced = _HUMP.sub(" ", spaced)
    words = [word.lower() for word in _LETTER_WORD.findall(spaced)]
    return (
        len(part.split()) > most
        or len(words) > most_in_letters
        or _PROSE.search(part) is not None
        or (most == MOST_WORDS and _LOWER_WORDS.search(spaced) is not None)
        # The Imaging Source is a maker: what stands first may be of its name.
        or (len(words) > 1 and not _WORDS_OF_PROSE.isdisjoint(words[1:]))
        or (len(words) > 1 and words[0] in _WORDS_OF_PROSE - {"the", "set"})
    )


NAME_COMMAS: Final = 2
"""A name has four fields; some instruments leave one out."""
_NOT_SCPI: Final = re.compile(r"\s*(HTTP/|SSH-|220[ -]|<\?xml|<html|\{|\[)", re.IGNORECASE)
"""How services greet that are no instruments: a web server, ssh, FTP, XML, JSON."""
_REFUSAL: Final = re.compile(
    r"IDN|^\s*[1-5][0-9][0-9]\b|\b(?:err(?:or)?|nac?k)(?![a-z])"
    r"|\b(?:unknown|invalid|undefined|unrecogni[sz]ed|syntax|commands?|usage|login|password"
    r"|username|denied|welcome|not found)\b|[?*\x15]",
    re.IGNORECASE,
)
"""What no instrument calls itself: the question come back, a service's code, a complaint, NAK."""


def has_name_form(idn: str) -> bool:
    """Whether an answer looks like what IEEE 488.2 (10.14) has ``*IDN?`` answered by.

    Oxford Instruments puts colons where the commas belong.
    """
    return idn.count(",") >= NAME_COMMAS or bool(_colon_fields(_HEADER.sub("", idn)))


def _colon_fields(text: str) -> list[str]:
    """The fields of a name with colons between them; none where it is something else."""
    if "," in text or _LABEL.search(text):
        return []
    fields = [field.strip() for field in text.split(":")]
    is_name = len(fields) > NAME_COMMAS and all(fields[:NAME_COMMAS]) and fields[0][0].isalpha()
    return [] if not is_name or any(map(is_refusal, fields[:NAME_COMMAS])) else fields


def is_service(idn: str) -> bool:
    """Whether it is how something greets that is no instrument."""
    return _NOT_SCPI.match(idn) is not None


def is_refusal(answer: str) -> bool:
    """Whether an answer reads as "I do not know that", which is neither a name nor a yes."""
    return _REFUSAL.search(answer) is not None


def is_odd_name(idn: str) -> bool:
    """Whether an answer that is no list of fields can name a model all the same."""
    has_both = re.search(r"[0-9]", idn) and re.search(r"[A-Za-z]{2}", idn)
    return bool(has_both) and not is_refusal(idn)


def says_name(answer: str) -> bool:
    """Whether an answer can name a model, in either form; text that complains does not."""
    if is_service(answer) or not answer.isprintable():
        return False
    if _colon_fields(_HEADER.sub("", answer)):
        return True
    if has_name_form(answer):
        # In the header, ``*IDN GE Druck,PACE5000,…``, and in a maker's name much may stand.
        return not is_refusal(answer.split(",")[0].rpartition(" ")[2])
    return is_odd_name(answer)


class Recognizable(Protocol):
    """Of a profile, what it takes to find it: the profile itself, or its head."""

    @property
    def key(self) -> str: ...

    @property
    def match(self) -> Match: ...

    @property
    def is_imported(self) -> bool: ...

    @property
    def needed(self) -> str: ...


P = TypeVar("P", bound=Recognizable)


@record
class MatchResult(Generic[P]):
    """The profile that fits, why, and which others fit as well as it does (``tied``, keys)."""

    profile: P | None
    reason: str
    tied: tuple[str, ...] = ()


def clean_idn(idn: str) -> str:
    """An answer without control characters and surrounding blanks, at most ``MAX_IDN`` long."""
    text = idn[: 4 * MAX_IDN]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return text.strip()[:MAX_IDN]


def find_profile(idn: str, usb_id: tuple[int, int] | None, profiles: Iterable[P]) -> MatchResult[P]:
    """The profile whose pattern matches most of the answer.

    Args:
        idn: the answer to ``*IDN?`` as it came.
        usb_id: vendor and product, where the instrument is on USB.
        profiles: those to choose from, or their heads, in any order.

    Returns:
        One that a person answers for goes before any imported one, however much that matches.
        Of several that match equally much, the one that lists ``usb_id``, else the first by key,
        with all of them in ``tied``: a tie is for the doctor to warn of.
    """
    text = clean_idn(idn)
    lengths: dict[str, int] = {}
    candidates: dict[str, P] = {}
    # Most of a library is other makers': a look for a word spares the search, and its compiling.
    folded = text.casefold()
    for profile in profiles:
        if profile.needed not in folded:
            continue
        found = found_in(text, profile.match.idn)
        if found is not None and found.group():
            lengths[profile.key] = len(found.group())
            candidates[profile.key] = profile
    if not candidates:
        return MatchResult(profile=None, reason=f'No profile matches "{text}".')
    reviewed = {key for key, profile in candidates.items() if not profile.is_imported}
    among = reviewed or set(candidates)
    most = max(lengths[key] for key in among)
    best = sorted(key for key in among if lengths[key] == most)
    by_usb = [key for key in best if usb_id is not None and usb_id in candidates[key].match.usb_ids]
    if len(best) > 1 and len(by_usb) == 1:
        reason = f'"{text}" matches {" and ".join(best)}; its USB id decides for {by_usb[0]}.'
        return MatchResult(profile=candidates[by_usb[0]], reason=reason)
    if len(best) > 1:
        reason = f'"{text}" matches {" and ".join(best)} equally; {best[0]} is taken.'
        return MatchResult(profile=candidates[best[0]], reason=reason, tied=tuple(best))
    return MatchResult(profile=candidates[best[0]], reason=f'"{text}" matches {best[0]}.')


_HEADER: Final = re.compile(r"^\s*:?\*?IDN\??[\s:]+", re.IGNORECASE)
_LABEL: Final = re.compile(r"(?<! ): ")
"""``S/N: 1234``, where no field ends."""
_VERSION: Final = re.compile(r"[vV]?\d{1,3}(?:\.\d{1,4}){1,3}")
_COMPANY_ENDING: Final = re.compile(
    r"(?:co|corp|gmbh|inc|limited|llc|ltd|s\.?a|ag|kg)\.?", re.IGNORECASE
)
_MODEL_LABEL: Final = re.compile(r"^model(?:\s+|(?=\d))", re.IGNORECASE)
_SERIAL_LABEL: Final = re.compile(
    r"^(?:s\s*/\s*n|sn|ser(?:ial)?(?:\s*(?:no|number|nr)\.?)?)\s*[:#=]?\s*(?=\S)", re.IGNORECASE
)
_LABELLED_SERIAL: Final = re.compile(r"\s+s/?n[:\s]\s*(\S+)$", re.IGNORECASE)
_GLUED_FIRMWARE: Final = re.compile(r"\s*(V\d+(?:\.\d+){0,4})$", re.IGNORECASE)
_GLUED_MAKERS: Final = ("KORAD", "VELLEMAN", "TENMA", "RND")
"""Makers of the KA3005P family, whose answers hold no commas and sometimes no blank."""


def parse_idn(idn: str) -> Identity:
    """The four parts, as well as they can be told apart. Never raises."""
    text = _HEADER.sub("", clean_idn(idn)).strip().strip("\"'").strip()
    if not text:
        return Identity()
    fields = _colon_fields(text) or [field.strip() for field in text.split(",")]
    if len(fields) == 1:
        return _parse_words(text)
    while len(fields) > 2 and _COMPANY_ENDING.fullmatch(fields[1]):
        # "Siglent Technologies Co., Ltd.,SDS1104X-E,…" has a comma too many.
        fields[:2] = [f"{fields[0]}, {fields[1]}"]
    if len(fields) == 3 and _VERSION.fullmatch(fields[2]):
        # "AMERICAN MAGNETICS INC.,MODEL 430,2.01": as a serial number it would be that of each unit
        # with this firmware.
        fields.insert(2, "")
    fields += [""] * (4 - len(fields))
    return Identity(
        manufacturer=fields[0],
        model=_MODEL_LABEL.sub("", fields[1]).strip(),
        serial=clean_serial(fields[2]),
        firmware=",".join(fields[3:]).strip().rstrip(";,").strip(),
        serial_told=fields[2],
    )


def clean_serial(told: str) -> str:
    """A serial number without label and quotes; empty where it says that there is none."""
    serial = _SERIAL_LABEL.sub("", told).strip().strip("\"'").rstrip(";").strip()
    # Lake Shore appends the serial number of an option card that is not there as "/#######".
    serial = re.sub(r"/#{1,32}$", "", serial)
    return "" if serial.strip("0") == "" or serial.lower() in ("n/a", "none", "unknown") else serial


def _parse_words(text: str) -> Identity:
    """An answer without commas: ``TENMA 72-2540 V2.1 SN:1234``, ``KORADKA3005PV2.0``."""
    serial = told = firmware = ""
    labelled = _LABELLED_SERIAL.search(text)
    if labelled is not None:
        told, text = labelled.group(1), text[: labelled.start()]
        serial = clean_serial(told)
    glued = _GLUED_FIRMWARE.search(text)
    if glued is not None:
        firmware, text = glued.group(1), text[: glued.start()]
    maker, _, model = text.partition(" ")
    for known in _GLUED_MAKERS:
        if text.upper().startswith(known):
            maker, model = text[: len(known)], text[len(known) :]
    if not model.strip():
        maker, model = "", text
    return Identity(
        manufacturer=maker,
        model=model.strip(),
        serial=serial,
        firmware=firmware,
        serial_told=told,
    )
