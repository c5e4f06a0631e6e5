"""The evolution of an episode's library as one strip: the order of events, where each is drawn, and how."""
