from ._motion import GridMotion as GridMotion
