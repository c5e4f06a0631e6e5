"""What charts are drawn with: panels, traces, palette, labels, arms, pairs. No chart of its own."""
