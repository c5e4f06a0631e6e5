"""What rules and judging models propose, held against what people settled on."""
