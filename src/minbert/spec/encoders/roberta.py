"""RoBERTa: BERT trained longer, without next sentences, on byte-level pieces (Liu et al., 2019)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from minbert.spec.architecture import Architecture


class Roberta(Architecture):
    """BERT's encoder, whose first token has the position after that of padding's id.

    Both sentences of a pair have token type 0.
    """

    family: str = "roberta"

    two_types: ClassVar[bool] = False
    token_ids: ClassVar[Mapping[str, int]] = {"bos_token_id": 0, "eos_token_id": -1}
    prefix: ClassVar[str] = "roberta."

    def finalize(self, config: Mapping[str, Any]) -> Self:
        first = int(config.get("pad_token_id", 1)) + 1
        return self.model_copy(
            update={"first_position": first, "positions": self.positions - first}
        )
