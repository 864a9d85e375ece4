"""What statements ask of the library, compiled once, and draws to ask it about."""
