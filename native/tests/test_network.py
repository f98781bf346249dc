"""Whole networks against a float32 NumPy Whisper: tensors, not texts.

Products round their operands to bfloat16, 2^-9 each; through four to six layers that stays near 1 % of the length
of the encoder's output (PyTorch's bfloat16 encoder is at 2 %), and within a few hundredths in a logit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from reference import Reference, softmax

from conftest import Floats, relative_error

MELS, WIDTH, LAYERS, VOCABULARY = 80, 128, 2, 700
END, NO_TIMESTAMPS, BEGIN = 600, 610, 611


@pytest.fixture(scope="session")
def tensors() -> Callable[[str], Floats]:
    """A small network with random weights, made once and by name."""
    random = np.random.default_rng(3)
    made: dict[str, Floats] = {}
    inner = 4 * WIDTH
    shapes = {
        "conv1/weight": (WIDTH, MELS, 3), "conv2/weight": (WIDTH, WIDTH, 3), "conv1/bias": (WIDTH,), "conv2/bias": (WIDTH,),
        "self_attention/linear_0/weight": (3 * WIDTH, WIDTH), "self_attention/linear_0/bias": (3 * WIDTH,),
        "self_attention/linear_1/weight": (WIDTH, WIDTH), "self_attention/linear_1/bias": (WIDTH,),
        "attention/linear_0/weight": (WIDTH, WIDTH), "attention/linear_0/bias": (WIDTH,),
        "attention/linear_1/weight": (2 * WIDTH, WIDTH), "attention/linear_1/bias": (2 * WIDTH,),
        "attention/linear_2/weight": (WIDTH, WIDTH), "attention/linear_2/bias": (WIDTH,),
        "ffn/linear_0/weight": (inner, WIDTH), "ffn/linear_0/bias": (inner,),
        "ffn/linear_1/weight": (WIDTH, inner), "ffn/linear_1/bias": (WIDTH,),
        "embeddings/weight": (VOCABULARY, WIDTH),
    }  # fmt: skip

    def tensor(name: str) -> Floats:
        if name not in made:
            if name.endswith("encodings"):
                shape = (1500 if name.startswith("encoder") else 448, WIDTH)
            else:
                shape = next((s for key, s in shapes.items() if name.endswith("/" + key)), (WIDTH,))
            scale = 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1
            values = random.standard_normal(shape) * scale + name.endswith("gamma")
            if name.endswith("attention/linear_1/bias") and "self" not in name:
                values[:WIDTH] = 0  # Whisper's keys have no bias
            made[name] = values.astype(np.float32)
        return made[name]

    return tensor


@pytest.fixture(scope="session")
def reference(tensors: Callable[[str], Floats]) -> Reference:
    return Reference(tensors, LAYERS, LAYERS)


@pytest.fixture(scope="session")
def mels() -> list[Floats]:
    random = np.random.default_rng(5)
    return [random.standard_normal((MELS, 3000)).astype(np.float32) for _ in range(2)]


@pytest.fixture
def make_engine(kernels, tensors):
    """Engines over the random network; closed at the end."""
    engines = []

    def make(backend: str, max_batch: int = 4, suppressed: Sequence[int] = (1, 2, 650), **options):
        vocabulary = kernels.Vocabulary()
        vocabulary.size, vocabulary.end_of_text = VOCABULARY, END
        vocabulary.no_timestamps, vocabulary.timestamp_begin = NO_TIMESTAMPS, BEGIN
        vocabulary.suppressed, vocabulary.suppressed_at_begin = list(suppressed), [5, END]
        vocabulary.no_speech = 605
        engine = kernels.Engine(
            tensors, mels=MELS, width=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, vocabulary=vocabulary,
            alignment_heads=[(0, 1), (1, 0)], max_batch=max_batch, backend=backend, **options,
        )  # fmt: skip
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def answers(engine, count: int) -> dict:
    found = {}
    while len(found) < count:
        for event in engine.events(timeout_s=60):
            found[event.id] = event
        assert not engine.failure
    return found


def one(engine, **request):
    engine.submit(1, **request)
    return answers(engine, 1)[1]


@pytest.fixture(scope="session")
def encoded(kernels, reference: Reference, mels: list[Floats]) -> list[Floats]:
    return [reference.encode(mel) for mel in mels]


def test_encoder(make_engine, backend: str, mels, encoded) -> None:
    event = one(make_engine(backend), mel=mels[0], prompt=[3], max_tokens=1)
    assert relative_error(event.audio.numpy(), encoded[0]) < 0.015


def test_encoder_in_8_bits(make_engine, mels, encoded) -> None:
    engine = make_engine("avx512", quantized=True)
    assert engine.quantized
    error = relative_error(one(engine, mel=mels[0], prompt=[3], max_tokens=1).audio.numpy(), encoded[0])
    plain = relative_error(
        one(make_engine("avx512"), mel=mels[0], prompt=[3], max_tokens=1).audio.numpy(), encoded[0]
    )
    assert plain < error < 0.02


def test_tiles_do_without_8_bits(make_engine) -> None:
    assert not make_engine("emulated", quantized=True).quantized


def test_decoder_over_a_whole_prompt(make_engine, backend: str, mels, encoded, reference: Reference) -> None:
    prompt = [
        int(token) for token in np.random.default_rng(9).integers(0, END, 90)
    ]  # more rows than a step has
    event = one(make_engine(backend), mel=mels[0], prompt=prompt, kind="align")
    logits, scores = reference.decode(prompt, event.audio.numpy())
    expected = [softmax(row[: END + 1])[token] for row, token in zip(logits, prompt[1:], strict=False)]
    assert np.abs(np.log(event.probabilities) - np.log(expected)).max() < 0.05
    aligned = event.alignment(2)
    for index, (layer, head) in enumerate([(0, 1), (1, 0)]):
        assert relative_error(aligned[:, index], scores[layer, head]) < 0.02


def test_greedy_tokens_and_their_probabilities(make_engine, backend: str, mels, reference: Reference) -> None:
    event = one(make_engine(backend), mel=mels[0], prompt=[3, 4], timestamps=False, max_tokens=12)
    logits, _ = reference.decode([3, 4, *event.tokens[:-1]], event.audio.numpy())
    logits = logits[1:].copy()
    logits[:, [1, 2, 650, NO_TIMESTAMPS]] = -np.inf
    logits[0, [5, END]] = -np.inf
    chosen = np.array([row[token] for row, token in zip(logits, event.tokens, strict=True)])
    assert (logits.max(1) - chosen < 0.05).all()  # the reference's best, or one that it holds for equal
    expected = np.log([softmax(row)[token] for row, token in zip(logits, event.tokens, strict=True)])
    assert np.abs(event.log_probabilities - expected).max() < 0.05


def beam_search(reference: Reference, audio: Floats, prompt: list[int], width: int, length: int) -> float:
    """The mean log-probability of the best transcript that a plain beam search in float32 finds."""
    live, ended = [(0.0, [])], []
    for _ in range(length):
        candidates = []
        for total, tokens in live:
            logits = reference.decode([*prompt, *tokens], audio)[0][-1].copy()
            logits[[1, 2, 650, NO_TIMESTAMPS]] = -np.inf
            if not tokens:
                logits[[5, END]] = -np.inf
            logs = np.log(softmax(logits) + 1e-30)
            candidates += [
                (total + logs[token], [*tokens, int(token)]) for token in np.argsort(-logs)[: width + 1]
            ]
        live = []
        for total, tokens in sorted(candidates, key=lambda candidate: -candidate[0]):
            if tokens[-1] == END:
                ended.append((total, tokens[:-1]))
            else:
                live.append((total, tokens))
            if len(live) == width:
                break
        if len(ended) >= width:
            break
    ended = ended[:width] if len(ended) >= width else ended + live
    return max(total / max(1, len(tokens)) for total, tokens in ended)


@pytest.mark.parametrize("width", [2, 5])
def test_beams_find_what_a_plain_beam_search_finds(
    make_engine, backend: str, mels, reference: Reference, width: int
) -> None:
    engine = make_engine(backend, max_beams=5)
    options = {"prompt": [3, 4], "timestamps": False, "max_tokens": 8}
    event = one(engine, mel=mels[0], beams=width, **options)
    expected = beam_search(reference, event.audio.numpy(), [3, 4], width, 8)
    found = sum(event.log_probabilities) / len(event.tokens)
    assert found == pytest.approx(expected, abs=0.03)
    # The log-probabilities are those of the tokens that were chosen, in the tracks that they took.
    logits, _ = reference.decode([3, 4, *event.tokens[:-1]], event.audio.numpy())
    logits = logits[1:].copy()
    logits[:, [1, 2, 650, NO_TIMESTAMPS]] = -np.inf
    logits[0, [5, END]] = -np.inf
    own = np.log([softmax(row)[token] for row, token in zip(logits, event.tokens, strict=True)])
    assert np.abs(np.array(event.log_probabilities[: len(own)]) - own).max() < 0.05
    greedy = one(engine, audio=event.audio, **options)
    assert found >= sum(greedy.log_probabilities) / len(greedy.tokens)


def test_beams_share_a_batch_and_leave_others_alone(make_engine, mels) -> None:
    engine = make_engine("avx512", max_batch=4, max_beams=3)
    alone = [
        one(engine, mel=mels[n % 2], prompt=[3, 4 + n], beams=beams, max_tokens=20)
        for n, beams in enumerate((1, 3, 2, 3))
    ]
    for number, beams in enumerate((1, 3, 2, 3)):
        engine.submit(number, mel=mels[number % 2], prompt=[3, 4 + number], beams=beams, max_tokens=20)
    together = answers(engine, 4)
    for number, event in enumerate(alone):
        assert together[number].tokens == event.tokens
        assert together[number].log_probabilities == event.log_probabilities


def test_a_probe_gives_probabilities_of_what_was_asked(make_engine, mels, reference: Reference) -> None:
    engine = make_engine("avx512")
    event = one(engine, mel=mels[0], prompt=[3], kind="probe", probed=[20, 30, 40])
    expected = softmax(reference.decode([3], event.audio.numpy())[0][0][[20, 30, 40]])
    assert np.allclose(event.probabilities, expected, atol=0.01)
    # The encoder's output serves a second request.
    again = one(engine, audio=event.audio, prompt=[3], kind="probe", probed=[20, 30, 40])
    assert again.probabilities == event.probabilities


def test_no_speech_is_read_at_the_start_of_the_transcript(make_engine, mels, reference: Reference) -> None:
    event = one(make_engine("avx512"), mel=mels[0], prompt=[8, 9, 3, 4], start=2, max_tokens=1)
    expected = softmax(reference.decode([8, 9, 3], event.audio.numpy())[0][-1])[605]
    assert event.no_speech_probability == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("quantized", [False, True])
def test_results_do_not_depend_on_who_else_is_in_the_batch(
    make_engine, backend: str, mels, quantized: bool
) -> None:
    """Bit for bit: every row's sums are taken in the same order, whatever rows lie beside it."""
    engine = make_engine(backend, max_batch=4, quantized=quantized)
    prompts = [[3], [3, 4, 5], list(range(10, 80)), [7, 8]]
    alone = [
        one(engine, mel=mels[n % 2], prompt=prompt, max_tokens=10, timestamps=False)
        for n, prompt in enumerate(prompts)
    ]
    for number, prompt in enumerate(prompts):
        engine.submit(number, mel=mels[number % 2], prompt=prompt, max_tokens=10, timestamps=False)
    together = answers(engine, 4)
    for number, event in enumerate(alone):
        assert together[number].tokens == event.tokens
        assert together[number].log_probabilities == event.log_probabilities


def test_the_urgent_go_first_even_in_the_middle_of_a_window(make_engine, mels) -> None:
    engine = make_engine("avx512", max_batch=16)
    for number in range(15):
        engine.submit(number, mel=mels[0], prompt=[3], max_tokens=1)
    engine.submit(15, mel=mels[0], prompt=[3], max_tokens=1, urgent=True)
    assert list(answers(engine, 16))[-1] < 15


def test_what_is_not_urgent_keeps_its_share(make_engine, mels) -> None:
    engine = make_engine("avx512", max_batch=16, patient_share=0.5)
    engine.submit(0, mel=mels[0], prompt=[3], max_tokens=1)
    for number in range(1, 16):
        engine.submit(number, mel=mels[0], prompt=[3], max_tokens=1, urgent=True)
    assert list(answers(engine, 16))[-1] > 0


def test_windows_that_take_turns_are_encoded_as_if_alone(make_engine, mels) -> None:
    engine = make_engine("avx512", max_batch=8, patient_share=0.5)
    alone = [one(engine, mel=mel, prompt=[3], max_tokens=1).audio.numpy() for mel in mels]
    for number in range(8):
        engine.submit(number, mel=mels[number % 2], prompt=[3], max_tokens=1, urgent=bool(number % 2))
    for number, event in answers(engine, 8).items():
        assert np.array_equal(event.audio.numpy(), alone[number % 2])


def test_sampling_is_the_same_for_a_seed_and_differs_between_seeds(make_engine, mels) -> None:
    engine = make_engine("avx512")
    said = [
        one(
            engine, mel=mels[0], prompt=[3], timestamps=False, temperature=1.0, seed=seed, max_tokens=20
        ).tokens
        for seed in (1, 1, 2)
    ]
    assert said[0] == said[1] != said[2]


def test_times_follow_whispers_rules_and_what_begins_before_a_time_has_words(make_engine, mels) -> None:
    all_but_two_words_and_the_end = [token for token in range(BEGIN) if token not in (33, 123, END)]
    engine = make_engine("avx512", suppressed=all_but_two_words_and_the_end)
    audio, limit = one(engine, mel=mels[0], prompt=[3], max_tokens=1).audio, BEGIN + 85

    def drawn(seed: int, **options):
        return one(engine, audio=audio, prompt=[3], temperature=1.0, seed=seed, max_tokens=60, **options)

    def ends_in_a_pair(event) -> bool:
        ended = len(event.log_probabilities) > len(event.tokens)
        return ended and len(event.tokens) > 1 and BEGIN <= event.tokens[-2] <= event.tokens[-1] < limit

    free, bound = ([drawn(seed, words_before=before) for seed in range(60)] for before in (0, limit))
    for tokens in (event.tokens for event in [*free, *bound]):
        times = [token for token in tokens if token >= BEGIN]
        assert tokens[0] in range(BEGIN, BEGIN + 51)
        assert times == sorted(times)
        assert all(min(tokens[at : at + 3]) < BEGIN for at in range(len(tokens) - 2))
    assert not any(event.went_on for event in free)
    assert all(
        event.tokens[at] < END <= BEGIN <= event.tokens[at - 1] for event in bound for at in event.went_on
    )
    assert any(event.went_on for event in bound)
    assert any(map(ends_in_a_pair, free))
    assert not any(map(ends_in_a_pair, bound))


def test_an_abort_ends_what_runs_and_what_waits(make_engine, mels) -> None:
    engine = make_engine("avx512", max_batch=1)
    for number in range(3):
        engine.submit(number, mel=mels[0], prompt=[3], timestamps=False)
    engine.abort([0, 2, 99])
    events = answers(engine, 3)
    assert [events[n].what for n in range(3)] == ["aborted", "finished", "aborted"]


def test_odd_requests_are_refused(make_engine, mels) -> None:
    engine = make_engine("avx512")
    for odd in (
        {"prompt": [3]},
        {"mel": mels[0][:, :100].copy(), "prompt": [3]},
        {"mel": mels[0], "prompt": []},
        {"mel": mels[0], "prompt": [VOCABULARY]},
        {"mel": mels[0], "prompt": [3] * 449},
        {"mel": mels[0], "prompt": [3], "temperature": -1.0},
        {"mel": mels[0], "prompt": [3], "beams": 0},
        {"mel": mels[0], "prompt": [3], "beams": 2},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            engine.submit(1, **odd)


def test_closing_wakes_who_waits_and_may_be_repeated(make_engine) -> None:
    engine = make_engine("avx512")
    engine.close()
    engine.close()
    assert engine.events(timeout_s=60) == []
