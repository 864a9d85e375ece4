"""How `make docs` builds the site; nothing needs a network, to build or to read."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_ext"))
os.environ.setdefault("MPLBACKEND", "agg")

import pictures  # noqa: E402 (found by the line above)

import meanfield  # noqa: E402

project = "meanfield"
author = copyright = "The meanfield authors"  # noqa: A001 (Sphinx's name)
version = release = meanfield.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathematics",  # from here on, files of _ext
    "borrowed",
    "chapters",
    "reference_pages",
]
exclude_patterns = [
    "_build",
    "_ext",
    "course",
    "answers",
    "gallery",
    "generated/**/*.ipynb",
]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = False  # it fails where a decorator changes a signature
autosummary_generate = False  # `reference_pages` writes the pages of the reference
default_role = "literal"
napoleon_use_ivar = True
python_maximum_signature_line_length = 80
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"
templates_path = []
suppress_warnings = ["config.cache"]  # the gallery is configured with objects

sphinx_gallery_conf = {
    "examples_dirs": ["course", "answers", "gallery"],
    "gallery_dirs": ["generated/course", "generated/answers", "generated/gallery"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (pictures.last_figure, "matplotlib"),
    "reset_modules": (pictures.fresh_start,),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1000,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = f"meanfield {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["live"]  # the first page shows one in a frame
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # fetched, which a browser denies to files
