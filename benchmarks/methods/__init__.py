"""Jobs of the benchmarked methods; a module is imported when its method is measured."""
