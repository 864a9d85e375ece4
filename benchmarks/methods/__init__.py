"""Jobs of the benchmarked methods; each module is imported when it is measured."""
