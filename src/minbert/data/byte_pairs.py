"""RoBERTa's byte-level pair encoding from `vocab.json` and `merges.txt` (Liu et al., 2019)."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from minbert.base.errors import UserError
from minbert.base.files import content_of, read_json

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def read_byte_pairs(path: Path) -> Tokenizer:
    """Return RoBERTa's tokenizer of a `vocab.json` and the `merges.txt` beside it.

    A sentence is `<s> a </s>`, a pair `<s> a </s></s> b </s>`. Raises `UserError` for a missing or
    damaged file, or a vocabulary without RoBERTa's special tokens.
    """
    vocabulary, merges = read_json(path), path.with_name("merges.txt")
    if missing := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it RoBERTa's?")
    if not merges.is_file():
        raise UserError(f"{merges}: no such file, which {path.name} needs; copy it, too")
    content_of(merges)
    try:
        model = models.BPE.from_file(str(path), str(merges))
    except Exception as error:  # the library raises the bare class
        raise UserError(f"{path}, {merges.name}: no byte-level pairs ({error})") from error
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # The mask takes the space before it along, as in the authors' code.
    added = [AddedToken(token, lstrip=token == "<mask>") for token in SPECIAL_TOKENS]
    tokenizer.add_special_tokens(added)
    first, last = ((token, vocabulary[token]) for token in ("<s>", "</s>"))
    tokenizer.post_processor = processors.RobertaProcessing(last, first, add_prefix_space=False)
    return tokenizer
