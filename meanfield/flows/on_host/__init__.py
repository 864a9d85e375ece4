"""Flows that SciPy integrates outside `jit`: in arclength, and from event to event."""
