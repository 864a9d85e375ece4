from ._grid_motion import GridMotion as GridMotion
