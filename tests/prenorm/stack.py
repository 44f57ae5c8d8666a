"""BERT's layers with norms before the sublayers, and one after the last layer."""

from minbert.model.encoder import Attention, FeedForward, Layer, Stack


class PreNormAttention(Attention):
    norm_first = True


class PreNormFeedForward(FeedForward):
    norm_first = True


class PreNormLayer(Layer):
    attention_of = PreNormAttention
    feed_forward_of = PreNormFeedForward


class PreNormStack(Stack):
    layer_of = PreNormLayer
