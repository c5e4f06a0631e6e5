"""The results of learning: size, growth and use of libraries, the funnel from a skill to a pass, replay."""
