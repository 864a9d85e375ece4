"""The live page: data, style and scripts in one HTML file."""

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.plotting.pages import bundle, embed_json, fill_template, source
from meanfield.spec import Axis, RunSpec

from ._keys import check_keys
from ._law import Law, law_of
from ._setting import Setting, setting_of

FOLDER = Path(__file__).parent
FRAME_HEIGHT = 720  # pixels of a page inside a notebook
# Default numbers of tokens on a page, which a browser can animate at full frame rate:
# fewer with Sinkhorn attention than with the other attentions.
N_TOKENS, N_TOKENS_SINKHORN = 400, 100


def live_page(law: Law, setting: Setting, axes: Sequence[Axis] = ()) -> str:
    """A self-contained HTML document that integrates a flow and draws it.

    Args:
        law: the flow.
        setting: times, tolerances and texts.
        axes: axes of a sweep, which become sliders.
    """
    sliders = [{**asdict(axis), "name": axis.name} for axis in axes]
    data = {**asdict(law), **asdict(setting), "axes": sliders}
    parts = {
        "title": html.escape(setting.title),
        "style": source("palette.css") + source("live.css", folder=FOLDER),
        "data": embed_json(data),
        "script": bundle(FOLDER / "main.js"),
    }
    return fill_template(source("live.html", folder=FOLDER), parts)


def page_of_spec(
    spec: RunSpec, title: str | None = None, axes: Sequence[Axis] = ()
) -> str:
    """The live page of a spec; without the key `n` it has few tokens.

    Raises:
        InvalidInputError: if the spec has several flows or too many tokens.
        UnsupportedError: if a page cannot integrate the flow.
    """
    if spec.is_family:
        raise InvalidInputError(
            "A live page integrates one flow: leave out `draws` and `starts`."
        )
    if "n" not in spec.model_fields_set:
        n_tokens = N_TOKENS_SINKHORN if spec.attention == "sinkhorn" else N_TOKENS
        spec = spec.model_copy(update={"n": n_tokens})
    flow = runs.member(spec)
    law = law_of(flow.dynamics, flow.measure)
    return live_page(law, setting_of(spec, law, title or runs.title(spec)), axes)


@dataclass(frozen=True)
class LivePage:
    """A live page, which a notebook shows in a frame.

    Attributes:
        page: the HTML document.
    """

    page: str = field(repr=False)

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0"
        return f'<iframe srcdoc="{html.escape(self.page)}" style="{style}"></iframe>'


def live(preset: str | None = None, /, **keys: Any) -> LivePage:
    """A page that integrates the flow of `keys` in the browser, as in a notebook.

    Args:
        preset: a name from `meanfield list presets`; `keys` override the preset.
        **keys: as in `meanfield.simulate`.

    Raises:
        InvalidInputError: if keys contradict each other, or a page does not support
            them.
        PrecisionError: if JAX is in single precision.
        UnknownNameError: if `preset` is not the name of a preset.
        UnsupportedError: if a page cannot integrate the flow.

    Examples:
        >>> from meanfield.pages.live import live
        >>> live("blow-up", d=2)._repr_html_()[:14]
        '<iframe srcdoc'
    """
    check_keys(keys)
    return LivePage(page_of_spec(runs.spec_of(preset, **keys)))
