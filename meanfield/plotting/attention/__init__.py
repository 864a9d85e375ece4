"""The panel `attention`: attention matrices of some heads, or one row of each."""
