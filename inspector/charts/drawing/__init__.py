"""What charts are drawn with: panels, traces, palette, labels."""
