from __future__ import annotations

import pytest

from stentor.bench.score import ErrorCount, Pair, Score, score


@pytest.mark.parametrize(
    ("written", "as_well"),
    [
        ("於2017年3月完工", "于二零一七年三月完工"),
        ("十五米", "15米"),
        ("百分之五十", "50%"),
        ("两百块", "200块"),
    ],
)
def test_chinese_numbers_and_characters_may_be_written_either_way(written: str, as_well: str) -> None:
    count = score([Pair("zh", written, as_well)]).characters
    assert count.edits == 0
    assert score([Pair("zh", written, as_well + "好")]).characters.edits == 1


def test_what_only_looks_like_a_chinese_number_is_counted_as_it_stands() -> None:
    assert score([Pair("zh", "百六十千", "百六十百")]).characters == ErrorCount("character", 4, 1, 0, 0)


def test_english_is_normalised_before_words_are_compared() -> None:
    found = score([Pair("en", "mister hale won't pay twenty dollars", "Mr. Hale will not pay $20!")])
    assert found.words.edits == 0
    assert found.words.rate == 0.0


def test_substitutions_deletions_and_insertions_are_told_apart() -> None:
    found = score(
        [
            Pair("de", "Das ist ein Haus", "das ist kein haus"),
            Pair("de", "Guten Tag", "guten"),
            Pair("de", "Ja.", "ja ja"),
        ]
    )
    assert found.languages["de"] == ErrorCount("word", 7, substitutions=1, deletions=1, insertions=1)
    assert found.words.rate == pytest.approx(3 / 7)


def test_rate_is_the_corpus_rate_and_not_a_mean_of_rates() -> None:
    found = score([Pair("fr", "un", "deux"), Pair("fr", "un deux trois quatre", "un deux trois quatre")])
    assert found.words.rate == pytest.approx(1 / 5)


@pytest.mark.parametrize("language", ["zh", "zh-TW", "ja", "th"])
def test_unspaced_languages_count_characters(language: str) -> None:
    found = score([Pair(language, "今天天气", "今天, 天 汽。")])
    assert found.characters == ErrorCount("character", 4, substitutions=1)
    assert found.words == ErrorCount("word")


def test_words_and_characters_have_totals_of_their_own() -> None:
    found = score([Pair("en", "one", "two"), Pair("es", "uno", "uno"), Pair("zh", "天气", "天气")])
    assert list(found.languages) == ["en", "es", "zh"]
    assert (found.words.edits, found.words.references) == (1, 2)
    assert (found.characters.edits, found.characters.references) == (0, 2)
    with pytest.raises(ValueError, match="add up"):
        found.words + found.characters


def test_empty_hypothesis_is_all_deletions() -> None:
    assert score([Pair("en", "nobody home", "")]).words == ErrorCount("word", 2, deletions=2)


def test_words_heard_in_silence_are_insertions_without_a_rate() -> None:
    found = score([Pair("en", "", "Thank you.")])
    assert found.words == ErrorCount("word", 0, insertions=2)
    assert found.words.rate is None


def test_words_heard_in_silence_count_in_the_corpus() -> None:
    assert score([Pair("en", "", "thank you"), Pair("en", "a b c d", "a b c d")]).words.rate == 0.5


def test_silence_heard_as_silence_and_no_pairs_at_all() -> None:
    assert score([Pair(None, "", "")]).languages == {"und": ErrorCount("word")}
    assert score([]) == Score({})
    assert score([]).words.rate is None
