"""Network layers whose heads are attentions of the library."""

from ._blocks import Encoder as Encoder
from ._blocks import Norm as Norm
from ._blocks import Perceptron as Perceptron
from ._blocks import Residual as Residual
from ._blocks import post_norm_block as post_norm_block
from ._blocks import pre_norm_block as pre_norm_block
from ._blocks import pre_norm_encoder as pre_norm_encoder
from ._decoder import Decoder as Decoder
from ._decoder import DecoderBlock as DecoderBlock
from ._head import CrossAttention as CrossAttention
from ._head import Head as Head
from ._head import SelfAttention as SelfAttention
from ._head import cross_attention as cross_attention
from ._head import self_attention as self_attention
from ._sequence import sinusoids as sinusoids
from ._sets import CrossAttentionBlock as CrossAttentionBlock
from ._sets import InducedBlock as InducedBlock
from ._sets import Pooling as Pooling
from ._variant import Variant as Variant
from ._variant import check_differentiable as check_differentiable
