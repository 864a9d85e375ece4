"""Movies: content of the frames, page layout, and rendering to pixels."""
