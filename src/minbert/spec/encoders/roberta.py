"""RoBERTa: BERT trained longer, without next sentences, on byte-level pieces (Liu et al., 2019)."""

from minbert.spec.architecture import Architecture


class Roberta(Architecture):
    """BERT's encoder; positions begin after that of padding's id, and pairs have one token type."""

    family: str = "roberta"

    two_types = False
    tokenizer = "RobertaTokenizer"
    after_padding = True
    token_ids = {"bos_token_id": 0, "eos_token_id": -1}
    prefix = "roberta."
