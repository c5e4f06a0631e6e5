"""The evolution of an episode's library as one strip: what happened in which order, where it is drawn, and how."""
