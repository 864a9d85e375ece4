"""Jobs of the methods, a module for each package, imported only when measured."""
