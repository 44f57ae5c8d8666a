"""The built-in backbone's shapes and pretraining, apart from the rest of the configuration.

Its code is part of the built-in backbone's key; that of config.yaml's other settings is not.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from minbert.spec.architecture import Architecture
from minbert.spec.model import Positive, Spec

Whole = Annotated[int, Field(ge=1, le=10**9)]
Width = Annotated[int, Field(ge=1, le=65_536)]

PACKAGED = Path("workflow/backbone")
"""The built-in backbone as a Hugging Face folder, beside the Snakefile's own folder."""


class Pretraining(Spec):
    """The built-in backbone: its shapes, and its pretraining.

    With these settings and the corpus's own seed it is the one in `PACKAGED`, made beforehand.
    """

    steps: Whole = 4000
    vocabulary: Annotated[int, Field(ge=200, le=2**24)] = 2000
    layers: Annotated[Whole, Field(le=256)] = 2
    hidden: Width = 128
    heads: Width = 2
    intermediate: Width = 512
    batch: Width = 32
    lr: Positive = 7e-4

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"hidden ({self.hidden}) must be a multiple of heads ({self.heads})")
        return self

    def architecture(self, vocab_size: int) -> Architecture:
        """Return the encoder's shapes for a vocabulary of `vocab_size` entries."""
        return Architecture(
            vocab_size=vocab_size,
            hidden=self.hidden,
            layers=self.layers,
            heads=self.heads,
            intermediate=self.intermediate,
            positions=512,
        )
