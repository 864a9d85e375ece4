"""Commands of `meanfield`: each is a function whose docstring is its help."""

from importlib import metadata

from cyclopts import App, Group, Parameter

from meanfield.cli.terminal._help import Help

# Each command maps to MODULE:FUNCTION in this folder, imported on first use.
COMMANDS = {
    "simulate": "simulate:simulate",
    "compare": "compare:compare",
    "resume": "simulate:resume",
    "sweep": "sweep:sweep",
    "plot": "plot:plot",
    "animate": "animate:animate",
    "report": "report:report",
    "live": "live:live",
    "export": "export:export",
    "reproduce": "reproduce:reproduce",
    "verify": "verify:verify",
    "bench": "bench:bench",
    "models": "networks.models:app",
    "train": "networks.train:app",
    "list": "catalog:list_",
    "show": "catalog:show",
    "init": "init:init",
    "completion": "completion:completion",
    "info": "catalog:info",
}
HELP = """\
Token flows under attention: particles, Gaussians, real transformers.

For example:
    meanfield simulate --preset collapse --out first.zarr
    meanfield plot first.zarr
    meanfield list presets"""
EPILOGUE = (
    "Every command accepts --debug, which shows tracebacks of errors, and --help-all, "
    "which lists rare options too."
)

app = App(
    name="meanfield",
    help=HELP,
    help_epilogue=EPILOGUE,
    help_format="plaintext",
    help_formatter=Help(),
    version=lambda: metadata.version("meanfield-attention"),
    default_parameter=Parameter(negative=()),
    # In the help, the group `Parameters` comes after the most used keys.
    group_parameters=Group("Parameters", sort_key=1),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _place, (_name, _target) in enumerate(COMMANDS.items()):
    _module = f"{__name__}.{_target}"
    app.command(_module, name=_name, sort_key=_place)
