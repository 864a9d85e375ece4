"""Statements on the figures of covariances and the Euler steps behind them."""
