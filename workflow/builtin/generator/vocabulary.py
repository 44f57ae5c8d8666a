"""A WordPiece vocabulary learned from text, the same in every run.

The trainer of `tokenizers` (0.22) iterates over hash maps, so its ids and pieces differ between
processes. The weights of the built-in backbone need fixed ids, so this module counts words itself
and breaks ties by the text of a piece.
"""

import string
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, processors
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from minbert.base.files import write_text

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
"""The prefix of a WordPiece that continues a word."""
# The share of whole words among the entries that are left after the characters.
WORD_SHARE = 0.9
LONGEST_PIECE = 8
# Always included, so that words that are not in the text are spelt out instead of unknown.
ALPHABET = string.ascii_lowercase + string.digits


def train_vocabulary(texts: Iterable[str], size: int, out: Path) -> None:
    """Learn a WordPiece vocabulary of at most `size` entries and write it as tokenizer.json.

    Text is normalised and split as by BERT uncased (Devlin et al., 2019). Entries are the special
    tokens (ids 0 to 4); ASCII letters, digits, punctuation and every character of the text, alone
    and within a word; the most frequent words; then the starts and ends that cover most of the
    other words. Raises `ValueError` if `size` is too small for the special tokens and characters.
    """
    normalizer = BertNormalizer()
    splitter = BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        clean = normalizer.normalize_str(text)
        counts.update(word for word, _ in splitter.pre_tokenize_str(clean))
    entries = {entry: i for i, entry in enumerate(choose_entries(counts, size))}
    write_text(out, bert_tokenizer(entries).to_str(pretty=True))


def bert_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """Return BERT's tokenizer (Devlin et al., 2019): normalise, split, longest match first."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def choose_entries(counts: Counter[str], size: int) -> list[str]:
    """Return at most `size` entries, in the order of their ids, for words counted in `counts`."""
    alphabet = {*ALPHABET, *string.punctuation, *(letter for word in counts for letter in word)}
    letters = sorted(alphabet)
    inner = sorted(letter for letter in alphabet if letter not in string.punctuation)
    entries = dict.fromkeys([*SPECIAL_TOKENS, *letters, *(CONTINUES + x for x in inner)])
    if len(entries) > size:
        raise ValueError(
            f"a vocabulary of {size} entries is too small: special tokens and the characters of "
            f"the text need {len(entries)}"
        )
    words_end = len(entries) + int(WORD_SHARE * (size - len(entries)))
    left_out = []
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
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
    """Return starts and ends of `words`, sorted by the number of single letters they replace."""
    saved: Counter[str] = Counter()
    for word in words:
        for cut in range(1, len(word)):
            start, end = word[:cut], word[cut:]
            if 1 < len(start) <= LONGEST_PIECE:
                saved[start] += counts[word] * (len(start) - 1)
            if 1 < len(end) <= LONGEST_PIECE:
                saved[CONTINUES + end] += counts[word] * (len(end) - 1)
    return sorted(saved, key=lambda piece: (-saved[piece], piece))
