"""Initial tokens by name, in space and on spheres."""
