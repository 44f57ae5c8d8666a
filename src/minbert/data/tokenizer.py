"""A backbone's tokenizer: read from a Hugging Face folder, and how it frames sequences."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Encoding, Tokenizer, models

from minbert.base.errors import UserError
from minbert.base.files import content_of, whole
from minbert.data.byte_pairs import read_byte_pairs
from minbert.data.wordpiece import check_special, read_vocab_txt

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")

UNUSED, UNUSED_SHARE = 256, 0.01
"""Rows of the embeddings without a token that are no sign of another vocabulary, at least: tables
are rounded up."""


class Framing(NamedTuple):
    """Ids of the special tokens before a sequence, between the sentences of a pair, and after.

    With `two_types` the second sentence, and what is after it, has token type 1.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    two_types: bool = True


def framing(tokenizer: Tokenizer, path: Path) -> Framing:
    """Return what a tokenizer puts around sentences; `UserError`, naming its file, for nothing."""
    around = [_around(tokenizer.encode(*sentences)) for sentences in (("a",), ("a", "b"))]
    (before, _, after), (first, between, last) = around
    if not (before and between and after) or (before, after) != (first, last):
        found = f"{list(before)} and {list(after)}; of a pair {[*map(list, around[1])]}"
        raise UserError(
            f"{path}: the special tokens around a sentence are {found}; expected some in each "
            "place, and the same around a pair (the file's post_processor). Take the tokenizer of "
            "the weights' source"
        )
    return Framing(before, between, after)


def _around(encoded: Encoding) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the ids before, between and after the sentences of an encoded sequence."""
    of_text = [n for n, sentence in enumerate(encoded.sequence_ids) if sentence is not None]
    first, last = (of_text[0], of_text[-1]) if of_text else (len(encoded.ids), -1)
    between = [n for n in range(first, last) if encoded.sequence_ids[n] is None]
    places = (range(first), between, range(last + 1, len(encoded.ids)))
    before, inside, after = (tuple(encoded.ids[n] for n in of) for of in places)
    return before, inside, after


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, `vocab.json` (with `merges.txt`) or `vocab.txt`.

    Truncation and padding are switched off. Raises `UserError` for a missing or damaged file, a
    WordPiece vocabulary without BERT's special tokens, or two tokens with one id.
    """
    if not path.is_file():
        raise UserError(f"no such tokenizer: {path}; expected one of {', '.join(TOKENIZERS)}")
    if path.suffix == ".txt":
        return read_vocab_txt(path)
    if path.name == "vocab.json":
        return read_byte_pairs(path)
    try:
        tokenizer = Tokenizer.from_buffer(content_of(path))
    except UserError:
        raise
    except BaseException as error:  # the library raises the bare class, or panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{path}: not a tokenizer.json of `tokenizers` ({error})") from error
    words: dict[int, str] = {}
    for word, number in tokenizer.get_vocab().items():
        if (other := words.setdefault(number, word)) != word:
            raise UserError(f"{path}: tokens '{other}' and '{word}' have one id, {number}")
    if isinstance(tokenizer.model, models.WordPiece):
        check_special(tokenizer.get_vocab(), path)
        unknown = tokenizer.model.unk_token
        if unknown not in tokenizer.get_vocab(with_added_tokens=False):
            raise UserError(
                f"{path}: the vocabulary has no '{unknown}', its token for unknown words"
            )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_tokenizer(folder: Path, vocab_size: int) -> tuple[Tokenizer, Path]:
    """Return the tokenizer of a Hugging Face folder, and the file that it is in.

    That is the first of `TOKENIZERS` that is there. Raises `UserError` for damaged files, and if
    its ids do not fit the `vocab_size` rows of the embeddings.
    """
    path = next((path for name in TOKENIZERS if (path := folder / name).is_file()), None)
    if path is None:
        raise UserError(
            f"{folder}: has neither {' nor '.join(TOKENIZERS)}; copy one of them from the source "
            "of the weights"
        )
    tokenizer = load_tokenizer(path)
    belongs = (
        f"but config.json's vocab_size is {vocab_size}; the tokenizer belongs to other weights"
    )
    if (largest := max(tokenizer.get_vocab().values(), default=0)) >= vocab_size:
        raise UserError(f"{path}: has token id {largest}, {belongs}")
    if vocab_size - 1 - largest > max(UNUSED, UNUSED_SHARE * vocab_size):
        raise UserError(f"{path}: its largest token id is {largest}, {belongs}")
    return tokenizer, path


def save_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Write `tokenizer` as a `tokenizer.json`, whole or not at all."""
    with whole(out) as temporary:
        tokenizer.save(str(temporary))
