from ._doubt import Doubt as Doubt
from ._doubt import doubt as doubt
