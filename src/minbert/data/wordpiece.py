"""BERT's WordPiece tokenizer, built from a vocabulary."""

from collections.abc import Mapping

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
"""The prefix of a piece that continues a word."""


def bert_tokenizer(
    vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer | None = None
) -> Tokenizer:
    """Return BERT's tokenizer (Devlin et al., 2019): normalise, split, longest match first.

    `vocabulary` maps tokens to ids and contains `SPECIAL_TOKENS`. `normalizer` is that of
    bert-base-uncased by default. There is no truncation or padding.
    """
    tokenizer = Tokenizer(models.WordPiece(dict(vocabulary), unk_token="[UNK]"))
    tokenizer.normalizer = normalizer or normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer
