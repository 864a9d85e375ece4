"""Interactive, self-contained HTML pages: reports and live flows."""
