"""What a movie does where nothing is said, for `Film` and for the help of commands."""

FPS = 20
SIZE = (960, 1000)  # pixels
HOLD = 1.0  # seconds
TURN = 50.0  # degrees of a camera in space
# Frames of a movie whose length is not said, and its least seconds: a run of more is
# thinned evenly, one of fewer shows its own for longer, or what is between them.
MOST_FRAMES, SHORTEST = 150, 3.0
GIF_FPS = 50  # at most: browsers slow a GIF down whose frames stand less than 20 ms
