"""RoBERTa: BERT trained longer, without next sentences, on byte-level pieces (Liu et al., 2019)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from minbert.base.errors import UserError
from minbert.spec.architecture import Architecture


class Roberta(Architecture):
    """BERT's encoder, whose first token has the position after that of padding's id.

    Both sentences of a pair have token type 0.
    """

    family: str = "roberta"

    two_types: ClassVar[bool] = False
    tokenizer: ClassVar[str] = "RobertaTokenizer"
    token_ids: ClassVar[Mapping[str, int]] = {"bos_token_id": 0, "eos_token_id": -1}
    prefix: ClassVar[str] = "roberta."

    def finalize(self, config: Mapping[str, Any]) -> Self:
        pad = config.get("pad_token_id", 1)
        if not isinstance(pad, int) or not 0 <= pad < self.positions:
            raise UserError(
                f"pad_token_id is {pad!r:.80}, expected a position: they begin after it"
            )
        rest = self.positions - pad - 1
        return self.model_copy(update={"first_position": pad + 1, "positions": rest})
