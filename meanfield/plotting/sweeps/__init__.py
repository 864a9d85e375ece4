"""The panels `phase` and `lines` of the cells of a sweep."""
