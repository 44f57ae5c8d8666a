"""minbert: the ablation grids of four papers on multitask BERT fine-tuning, as one pipeline."""

__version__ = "0.1.0"
