"""Writers of figures and movies; each file is written completely or not at all."""
