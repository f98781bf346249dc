"""Whisper's languages: their codes, their names, and what people call them."""

from __future__ import annotations

import re
import reprlib
from typing import Final

from stentor.errors import InvalidValue

LANGUAGES: Final = {
    "en": "english",
    "zh": "chinese",
    "de": "german",
    "es": "spanish",
    "ru": "russian",
    "ko": "korean",
    "fr": "french",
    "ja": "japanese",
    "pt": "portuguese",
    "tr": "turkish",
    "pl": "polish",
    "ca": "catalan",
    "nl": "dutch",
    "ar": "arabic",
    "sv": "swedish",
    "it": "italian",
    "id": "indonesian",
    "hi": "hindi",
    "fi": "finnish",
    "vi": "vietnamese",
    "he": "hebrew",
    "uk": "ukrainian",
    "el": "greek",
    "ms": "malay",
    "cs": "czech",
    "ro": "romanian",
    "da": "danish",
    "hu": "hungarian",
    "ta": "tamil",
    "no": "norwegian",
    "th": "thai",
    "ur": "urdu",
    "hr": "croatian",
    "bg": "bulgarian",
    "lt": "lithuanian",
    "la": "latin",
    "mi": "maori",
    "ml": "malayalam",
    "cy": "welsh",
    "sk": "slovak",
    "te": "telugu",
    "fa": "persian",
    "lv": "latvian",
    "bn": "bengali",
    "sr": "serbian",
    "az": "azerbaijani",
    "sl": "slovenian",
    "kn": "kannada",
    "et": "estonian",
    "mk": "macedonian",
    "br": "breton",
    "eu": "basque",
    "is": "icelandic",
    "hy": "armenian",
    "ne": "nepali",
    "mn": "mongolian",
    "bs": "bosnian",
    "kk": "kazakh",
    "sq": "albanian",
    "sw": "swahili",
    "gl": "galician",
    "mr": "marathi",
    "pa": "punjabi",
    "si": "sinhala",
    "km": "khmer",
    "sn": "shona",
    "yo": "yoruba",
    "so": "somali",
    "af": "afrikaans",
    "oc": "occitan",
    "ka": "georgian",
    "be": "belarusian",
    "tg": "tajik",
    "sd": "sindhi",
    "gu": "gujarati",
    "am": "amharic",
    "yi": "yiddish",
    "lo": "lao",
    "uz": "uzbek",
    "fo": "faroese",
    "ht": "haitian creole",
    "ps": "pashto",
    "tk": "turkmen",
    "nn": "nynorsk",
    "mt": "maltese",
    "sa": "sanskrit",
    "lb": "luxembourgish",
    "my": "myanmar",
    "bo": "tibetan",
    "tl": "tagalog",
    "mg": "malagasy",
    "as": "assamese",
    "tt": "tatar",
    "haw": "hawaiian",
    "ln": "lingala",
    "ha": "hausa",
    "ba": "bashkir",
    "jw": "javanese",
    "su": "sundanese",
    "yue": "cantonese",
}
"""Code to English name, in the order of the models' language tokens.
Source: openai/whisper tokenizer.py, LANGUAGES. `yue` came with large-v3; older models lack it."""

NAME_ALIASES: Final = {
    "burmese": "my",
    "castilian": "es",
    "flemish": "nl",
    "haitian": "ht",
    "letzeburgesch": "lb",
    "mandarin": "zh",
    "moldavian": "ro",
    "moldovan": "ro",
    "panjabi": "pa",
    "pushto": "ps",
    "sinhalese": "si",
    "valencian": "ca",
}
"""Further names of the same languages. Source: openai/whisper tokenizer.py, TO_LANGUAGE_CODE."""

CODE_ALIASES: Final = {"cmn": "zh", "fil": "tl", "iw": "he", "jv": "jw", "nb": "no"}
"""What browsers and operating systems call languages for which Whisper kept another code: Mandarin, Filipino,
Hebrew's former code, Javanese's present one, and Bokmål."""

UNSPACED_LANGUAGES: Final = frozenset({"bo", "ja", "km", "lo", "my", "th", "yue", "zh"})
"""Languages that put no space between words. Source: openai/whisper tokenizer.py, split_to_word_tokens, and
Khmer and Tibetan, which it forgets."""

_CODE_BY_WORD: Final = (
    {code: code for code in LANGUAGES}
    | {name: code for code, name in LANGUAGES.items()}
    | NAME_ALIASES
    | CODE_ALIASES
)
_LOCALE: Final = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})+")
"""A language code and its script, region or variant subtags. Source: BCP 47; `_` is POSIX's custom."""


UNDETERMINED: Final = "und"
"""The code where a model does not say which language it heard. Source: ISO 639-2."""


def language_code(text: str, *, param: str = "language") -> str:
    """Find the code of a language given by code, locale or English name.

    Args:
        text: For example `en`, `EN`, `English`, `pt-BR` or `zh_Hant_TW`.
        param: Which field it came in, for the error.

    Raises:
        InvalidValue: Whisper knows no such language.
    """
    word = text.strip().lower()
    locale = _LOCALE.fullmatch(word)
    code = _CODE_BY_WORD.get(locale[1] if locale else word)
    if code is None:
        raise InvalidValue(
            f"Unknown language {reprlib.repr(text)}. Give a code or an English name, such as en or English.",
            param=param,
        )
    return code


def language_name(code: str) -> str:
    """The English name of a language code, in lower case as OpenAI's API writes it."""
    return "undetermined" if code == UNDETERMINED else LANGUAGES[code]


def joins_without_spaces(code: str) -> bool:
    """Whether words of the language stand side by side with nothing between them."""
    return code in UNSPACED_LANGUAGES
