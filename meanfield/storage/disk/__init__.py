"""What files need to be trusted: locks, drafts, digests, names of our own."""

from ._contents import ARRAYS as ARRAYS
from ._contents import DRAFT as DRAFT
from ._contents import strangers as strangers
from ._drafts import LOCK as LOCK
from ._drafts import clear_drafts as clear_drafts
from ._drafts import draft_folder as draft_folder
from ._drafts import place_file as place_file
from ._drafts import replace_file as replace_file
from ._files import altered_message as altered_message
from ._files import damaged as damaged
from ._files import flush as flush
from ._files import flush_tree as flush_tree
from ._files import json_digest as json_digest
from ._files import link_message as link_message
from ._files import read_object as read_object
from ._files import read_plain as read_plain
from ._files import sha256 as sha256
from ._files import touch as touch
from ._files import tree_digest as tree_digest
from ._files import validate_object as validate_object
from ._locks import Lock as Lock
