"""A WordPiece vocabulary learnt from text, the same in every run.

The trainer of `tokenizers` (0.22) iterates over hash maps: two processes given the same text
number the pieces differently, and differ in some pieces too. The built-in backbone's weights
belong to one numbering, so this one counts by itself and breaks ties by the text of the piece.
Only the learning differs: the file is read and applied by `tokenizers`.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers.pre_tokenizers import BertPreTokenizer

from minbert.common.errors import UserError
from minbert.wordpiece import (
    CONTINUES,
    SPECIAL_TOKENS,
    bert_normalizer,
    bert_tokenizer,
    save_tokenizer,
)

# Whole words take this share of what the characters leave; pieces for the other words the rest.
WORD_SHARE = 0.9
LONGEST_PIECE = 8
# Always in, so that words the text lacks are spelt out rather than unknown.
ALPHABET = string.ascii_lowercase + string.digits


def train_vocabulary(texts: Iterable[str], size: int, out: Path) -> None:
    """Learn a WordPiece vocabulary of at most `size` entries and write it as tokenizer.json.

    Text is split as by BERT uncased (Devlin et al., 2019): lower-cased, accents stripped, cut at
    white space and punctuation. `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]`, `[MASK]` are entries 0 to 4;
    then ASCII letters, digits, punctuation and every character of the
    text, alone and within a word; then the most frequent words; then the starts
    and ends that cover most of the words left out. Texts are not kept in memory.

    Raises:
        UserError: `size` is too small for the special tokens and the characters.
    """
    normalizer = bert_normalizer()
    splitter = BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        clean = normalizer.normalize_str(text)
        counts.update(word for word, _ in splitter.pre_tokenize_str(clean))
    entries = {entry: i for i, entry in enumerate(choose_entries(counts, size))}
    save_tokenizer(bert_tokenizer(entries), out)


def choose_entries(counts: Counter[str], size: int) -> list[str]:
    """Return at most `size` entries, in the order of their ids, for words that occur so often."""
    alphabet = {*ALPHABET, *string.punctuation, *(letter for word in counts for letter in word)}
    letters = sorted(alphabet)
    inner = sorted(letter for letter in alphabet if letter not in string.punctuation)
    entries = dict.fromkeys([*SPECIAL_TOKENS, *letters, *(CONTINUES + x for x in inner)])
    if len(entries) > size:
        raise UserError(
            f"a vocabulary of {size} entries is too small: special tokens and the characters of "
            f"the text alone are {len(entries)}; ask for more"
        )
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    words_end = len(entries) + int(WORD_SHARE * (size - len(entries)))
    left_out = []
    for word in ranked:
        if len(entries) < words_end:
            entries[word] = None
        elif word not in entries:
            left_out.append(word)
    for piece in _pieces(left_out, counts):
        if len(entries) == size:
            break
        entries[piece] = None
    return list(entries)


def _pieces(words: list[str], counts: Counter[str]) -> list[str]:
    """Return starts and ends of `words`, those first that save most pieces over single letters."""
    saved: Counter[str] = Counter()
    for word in words:
        for cut in range(1, len(word)):
            start, end = word[:cut], word[cut:]
            if 1 < len(start) <= LONGEST_PIECE:
                saved[start] += counts[word] * (len(start) - 1)
            if 1 < len(end) <= LONGEST_PIECE:
                saved[CONTINUES + end] += counts[word] * (len(end) - 1)
    return sorted(saved, key=lambda piece: (-saved[piece], piece))
