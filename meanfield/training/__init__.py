"""Training of networks with the attentions of the library."""

from meanfield._renamed import old_names

from . import tasks as _tasks  # noqa: F401  (each registers itself)
from ._evaluate import evaluate as evaluate
from ._evaluate import network as network
from ._export import export as export
from ._folder import TrainFolder as TrainFolder
from ._recipe import Annealing as Annealing
from ._recipe import Recipe as Recipe
from ._recipe import optimisers as optimisers
from ._record import RECORD as RECORD
from ._record import Record as Record
from ._spec import TrainSpec as TrainSpec
from ._task import AbstractTask as AbstractTask
from ._task import Sample as Sample
from ._task import Samples as Samples
from ._task import Split as Split
from ._task import tasks as tasks
from ._train import Progress as Progress
from ._train import resume as resume
from ._train import train as train
from ._verdict import Verdict as Verdict
from ._verdict import verdict as verdict
from .networks import CrossAttention as CrossAttention
from .networks import CrossAttentionBlock as CrossAttentionBlock
from .networks import Decoder as Decoder
from .networks import DecoderBlock as DecoderBlock
from .networks import Encoder as Encoder
from .networks import Head as Head
from .networks import InducedBlock as InducedBlock
from .networks import Perceptron as Perceptron
from .networks import Pooling as Pooling
from .networks import Residual as Residual
from .networks import SelfAttention as SelfAttention
from .networks import Variant as Variant
from .networks import cross_attention as cross_attention
from .networks import post_norm_block as post_norm_block
from .networks import pre_norm_block as pre_norm_block
from .networks import pre_norm_encoder as pre_norm_encoder
from .networks import self_attention as self_attention
from .networks import sinusoids as sinusoids

__getattr__ = old_names(__name__)
