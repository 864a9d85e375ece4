"""How a trial is done by each package: a file each, imported where it is measured."""
