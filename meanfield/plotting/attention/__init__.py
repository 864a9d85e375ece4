"""The panel `attention`: matrices of some heads, in full or for one query."""
