from ._cone_page import cone_page as cone_page
from ._cone_page import save_page as save_page
