"""The panel `attention`: attention matrices of some heads, or their rows."""
