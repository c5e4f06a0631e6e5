"""What a page reads and draws of a trial: its verdict, its trajectory as outline, steps and cards, and what compactions
kept. For every page that shows steps."""
