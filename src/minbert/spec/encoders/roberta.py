"""RoBERTa: BERT trained longer, without next sentences, on byte-level pieces (Liu et al., 2019)."""

from minbert.spec.architecture import Architecture


class Roberta(Architecture):
    """BERT's encoder, whose first token has the position after that of padding's id.

    Both sentences of a pair have token type 0.
    """

    family: str = "roberta"

    two_types = False
    tokenizer = "RobertaTokenizer"
    after_padding = True
    token_ids = {"bos_token_id": 0, "eos_token_id": -1}
    prefix = "roberta."
