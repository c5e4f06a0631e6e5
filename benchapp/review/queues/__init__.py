"""Review queues: the population and the draw, making a queue, slots that people hold, and how far it is."""
