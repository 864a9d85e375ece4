"""Movies: what plays, at which pace, on which stage, and how it becomes pixels."""
